// An operation that another process had begun when it was killed: it runs again, and what the
// server has executed is not executed again.
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/exchange/in_flight.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::Proc;

class AfterKillTest : public ScriptedTest {
 protected:
  static constexpr uint64_t kNumber = 5;
  using Operation = std::function<Task<absl::Status>(Files&)>;

  AfterKillTest() { MakeProcess(); }
  ~AfterKillTest() override {
    if (files_ != nullptr) files_->Shutdown();
  }

  void MakeProcess() {
    MakeFiles();
    memory_.assign(InFlightTable::kBytes / 8, 0);
    table_ = std::make_unique<InFlightTable>(Memory());
    entries_ = std::make_unique<InFlightEntries>(*table_);
  }
  std::span<std::byte> Memory() { return std::as_writable_bytes(std::span(memory_)); }
  // The record of a process that is killed now.
  void Snap() { left_.assign(Memory().begin(), Memory().end()); }

  Task<void> Run(InFlightOperation& operation, const Operation& run, absl::Status* status) {
    co_await SetOperation(&operation);
    Task<absl::Status> task = run(*files_);
    *status = co_await task;
    if (left_.empty()) Snap();  // the response has arrived, the program has no answer
    ended_ = true;
  }
  // Begins the operation and kills the process when `left_` is set. Then another process runs it.
  absl::Status RunAcrossKill(
      const Operation& run, const std::function<void()>& meanwhile = [] {}) {
    absl::Status ignored;
    auto first = std::make_unique<InFlightOperation>(entries_.get(), kNumber, false);
    dafs::Start(Run(*first, run, &ignored));
    EXPECT_TRUE(Until([&] { return !left_.empty(); }));
    files_->Shutdown();
    first.reset();
    files_.reset();
    server_.script = nullptr;
    meanwhile();
    MakeProcess();
    table_->TakeLeft(left_);
    InFlightOperation again(entries_.get(), kNumber, true);
    absl::Status status = absl::InternalError("not ended");
    ended_ = false;
    dafs::Start(Run(again, run, &status));
    EXPECT_TRUE(Until([&] { return ended_; }));
    return status;
  }
  // The server gets the next request `proc` and, if `executes`, executes it. The response is lost.
  void KillAt(Proc proc, bool executes) {
    server_.script = [this, proc, executes](ScriptedConnection& c, const Request& request) {
      if (!left_.empty() || request.header.procedure != proc) return false;
      Snap();
      if (executes) server_.Serve(c, request);
      c.Close(absl::OkStatus());
      return true;
    };
  }

  Operation MakeDirectory() {
    return [this](Files& files) -> Task<absl::Status> {
      const wire::FileAttributes none;
      Task<absl::StatusOr<Node>> task = files.names().MakeDirectory(user_, dir_, "name", none);
      absl::StatusOr<Node> node = co_await task;
      if (node.ok()) made_ = node->handle;
      co_return node.status();
    };
  }
  Operation Create() {
    return [this](Files& files) -> Task<absl::Status> {
      OpenRequest request;
      request.directory = dir_;
      request.name = "name";
      request.owner = "owner";
      request.share_access = wire::kShareBoth;
      request.create = true;
      request.create_mode = wire::CreateMode::kGuarded;
      Task<absl::StatusOr<OpenFile>> task = files.opens().Open(user_, request);
      absl::StatusOr<OpenFile> file = co_await task;
      if (file.ok()) made_ = file->handle;
      co_return file.status();
    };
  }
  // Two changes in one operation.
  Operation RemoveTwo() {
    return [this](Files& files) -> Task<absl::Status> {
      Task<absl::Status> one = files.names().Remove(user_, dir_, "one");
      absl::Status status = co_await one;
      if (!status.ok()) co_return status;
      Task<absl::Status> two = files.names().Remove(user_, dir_, "two");
      status = co_await two;
      co_return status;
    };
  }

  wire::FileHandle dir_;
  wire::FileHandle made_;
  std::vector<uint64_t> memory_;
  std::unique_ptr<InFlightTable> table_;
  std::unique_ptr<InFlightEntries> entries_;
  std::vector<std::byte> left_;
  bool ended_ = false;
};

TEST_F(AfterKillTest, ExecutedChangeIsNotExecutedAgain) {
  KillAt(Proc::kCreate, true);
  EXPECT_OK(RunAcrossKill(MakeDirectory()));
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_EQ(server_.Count(Proc::kFetchResponse), 1);
  EXPECT_FALSE(made_ == wire::FileHandle());
}

TEST_F(AfterKillTest, ChangeThatTheServerDidNotGetIsExecuted) {
  KillAt(Proc::kCreate, false);
  EXPECT_OK(RunAcrossKill(MakeDirectory()));
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

TEST_F(AfterKillTest, FileIsCreatedAndOpenedOnce) {
  KillAt(Proc::kOpen, true);
  EXPECT_OK(RunAcrossKill(Create()));
  EXPECT_EQ(server_.executed[Proc::kOpen], 1);
  EXPECT_EQ(server_.opens.size(), 1u);
}

// The server drops a response when its stream is used again.
TEST_F(AfterKillTest, ResponseThatHadArrivedIsUsed) {
  EXPECT_OK(RunAcrossKill(MakeDirectory(), [this] { server_.responses.clear(); }));
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_EQ(server_.Count(Proc::kFetchResponse), 0);
  EXPECT_FALSE(made_ == wire::FileHandle());
}

TEST_F(AfterKillTest, DamagedRecordedResponseIsFetchedFromTheServer) {
  EXPECT_OK(RunAcrossKill(MakeDirectory(), [this] {
    // The responses follow the records, and the first is longer than this.
    left_[2 * InFlightTable::kEntryBytes - InFlightTable::kResponseBytes + 60] ^= std::byte{1};
  }));
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_EQ(server_.Count(Proc::kFetchResponse), 1);
}

// "Not executed" would only mean that the server has dropped the response.
TEST_F(AfterKillTest, AnsweredChangeWithoutAResponseFails) {
  const absl::Status status = RunAcrossKill(MakeDirectory(), [this] {
    left_[2 * InFlightTable::kEntryBytes - InFlightTable::kResponseBytes + 60] ^= std::byte{1};
    server_.responses.clear();
  });
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

TEST_F(AfterKillTest, ChangeFailsIfTheServerHasForgottenTheSession) {
  KillAt(Proc::kCreate, true);
  const absl::Status status = RunAcrossKill(MakeDirectory(), [this] {
    server_.responses.clear();
    server_.keeps_unanswered = false;
  });
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

TEST_F(AfterKillTest, EachRequestOfAnOperationIsExecutedOnce) {
  int removals = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (!left_.empty() || request.header.procedure != Proc::kRemove || ++removals < 2) return false;
    Snap();
    server_.Serve(c, request);
    c.Close(absl::OkStatus());
    return true;
  };
  EXPECT_OK(RunAcrossKill(RemoveTwo()));
  EXPECT_EQ(server_.executed[Proc::kRemove], 2);
}

TEST_F(AfterKillTest, OtherRequestThanThatOfTheKilledProcessIsNotSent) {
  KillAt(Proc::kCreate, true);
  int runs = 0;
  const absl::Status status = RunAcrossKill([&, make = MakeDirectory()](Files& files) {
    if (runs++ > 0) dir_.fileid.bytes[0] = 9;
    return make(files);
  });
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

}  // namespace
}  // namespace dafs::client::testing
