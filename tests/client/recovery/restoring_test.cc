// Data that a server lost with its machine is rewritten before any read can miss it, for each
// worker that wrote it and each worker that reads. Spec: 6.5.8 (COMMIT), 6.5.38 (verifier).
#include <cstring>
#include <optional>

#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::Proc;

class RestoringTest : public ScriptedTest {
 protected:
  void SetUp() override {
    MakeFiles();
    // The largest file is checked first.
    for (auto& [name, bytes] : files_by_size_) {
      absl::StatusOr<OpenFile> file = Open(name);
      ASSERT_OK(file);
      opens_[name] = *file;
      ASSERT_OK(Write(*file, bytes));
    }
  }
  void TearDown() override {
    server_.script = nullptr;
    if (other_ != nullptr) other_->Shutdown();
    other_.reset();
  }

  absl::StatusOr<OpenFile> Open(const std::string& name) {
    OpenRequest request;
    request.name = name;
    request.owner = "owner of " + name;
    request.share_access = wire::kShareBoth;
    request.create = true;
    return Await(files_->opens().Open(user_, request));
  }
  absl::Status Write(const OpenFile& file, uint32_t bytes) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kWriteSource, bytes);
    std::memset(lease.payload(), 'x', bytes);
    return Await(files_->data().Write(user_, file.handle, file.state_id, 0, lease, 0, bytes,
                                      wire::StableHow::kUnstable))
        .status();
  }
  void MakeOther() { other_ = *Files::Create(*client_, *loop_); }
  Task<void> ReadBy(Files& files, std::string name, std::optional<absl::Status>* done) {
    const OpenFile file = opens_[name];
    BufferLease lease = files.buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    Task<absl::StatusOr<ReadResult>> reading =
        files.data().Read(user_, file.handle, file.state_id, 0, lease, 4096);
    absl::StatusOr<ReadResult> read = co_await reading;
    *done = read.status();
  }

  static std::string NameIn(const wire::FileHandle& file) {
    return reinterpret_cast<const char*>(file.fileid.bytes.data());
  }
  bool ServerHas(const std::string& name) {
    return !server_.written[name].empty() || !server_.unstable[name].empty();
  }
  // Returns the name of the file that a COMMIT or WRITE_INLINE is for; empty for other requests.
  static std::string Target(const Request& request, Proc proc) {
    if (request.header.procedure != proc) return "";
    return NameIn(proc == Proc::kCommit ? request.Decode<wire::CommitArgs>().filehandle
                                        : request.Decode<wire::WriteInlineArgs>().filehandle);
  }
  // Counts the reads of lost data.
  void Look(const Request& request) {
    if (request.header.procedure == Proc::kReadInline) {
      missed_ += ServerHas(NameIn(request.Decode<wire::ReadInlineArgs>().filehandle)) ? 0 : 1;
    } else if (request.header.procedure == Proc::kReadDirect) {
      missed_ += ServerHas(NameIn(request.Decode<wire::ReadDirectArgs>().filehandle)) ? 0 : 1;
    }
  }

  const std::vector<std::pair<std::string, uint32_t>> files_by_size_ = {
      {"a", 3000}, {"b", 2000}, {"c", 1000}};
  std::map<std::string, OpenFile> opens_;
  std::unique_ptr<Files> other_;  // a second worker
  int missed_ = 0;
};

TEST_F(RestoringTest, IntactFileDoesNotImplyThatOtherFilesAreIntact) {
  server_.Restart();
  ScriptedConnection* committing = nullptr;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    Look(request);
    if (Target(request, Proc::kCommit) != "a" || committing != nullptr) return false;
    committing = &c;
    c.held.push_back(request);
    return true;
  };
  std::optional<absl::Status> read;
  Start(ReadBy(*files_, "c", &read));
  ASSERT_TRUE(Until([&] { return committing != nullptr; }));
  ASSERT_OK(Write(opens_["a"], 3000));  // rewrites the whole file
  server_.ServeHeld(*committing);
  ASSERT_TRUE(Until([&] { return read.has_value(); }));
  EXPECT_OK(*read);
  EXPECT_EQ(missed_, 0);
}

// Shows DAFS-6.5.8-07: all data of all files, here of one in several requests.
TEST_F(RestoringTest, AllUncommittedDataIsWrittenAgain) {
  constexpr uint32_t kSeveralRequests = 40000;
  ASSERT_OK(Write(opens_["a"], kSeveralRequests));
  server_.Restart();
  std::optional<absl::Status> read;
  Start(ReadBy(*files_, "c", &read));
  ASSERT_TRUE(Until([&] { return read.has_value(); }));
  std::map<std::string, size_t> bytes;
  for (const auto& [name, parts] : server_.unstable) {
    for (const auto& [at, part] : parts) bytes[name] += part.size();
  }
  for (const auto& [name, safe] : server_.written) bytes[name] += safe.size();
  EXPECT_EQ(bytes["a"], kSeveralRequests);
  EXPECT_EQ(bytes["b"], 2000u);
  EXPECT_EQ(bytes["c"], 1000u);
}

// The first request that is not a reclaim shows the server that the client has reclaimed its locks.
// This client has no other request to send, so it sends one by itself.
TEST_F(RestoringTest, IdleClientReportsThatItHasReclaimed) {
  client_->root().Found(opens_["a"].handle);  // like a mount
  server_.Restart();
  bool opened = false;
  bool asked = false;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    opened |= request.header.procedure == Proc::kOpen;
    asked |= request.header.procedure == Proc::kGetattrInline && opened;
    return false;
  };
  EXPECT_TRUE(Until([&] { return asked; }));
}

TEST_F(RestoringTest, WorkerThatConnectsAfterTheLossWaitsToo) {
  server_.Restart();
  MakeOther();
  ScriptedConnection* held = nullptr;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    Look(request);
    if (Target(request, Proc::kCommit).empty() || held != nullptr) return false;
    held = &c;
    c.held.push_back(request);
    return true;
  };
  std::optional<absl::Status> read;
  Start(ReadBy(*other_, "c", &read));
  ASSERT_TRUE(Until([&] { return held != nullptr; }));
  Settle();
  EXPECT_FALSE(read.has_value());
  server_.ServeHeld(*held);
  ASSERT_TRUE(Until([&] { return read.has_value(); }));
  EXPECT_OK(*read);
  EXPECT_EQ(missed_, 0);
}

TEST_F(RestoringTest, WorkerWaitsForTheRewriteOfAnotherWorker) {
  MakeOther();
  std::optional<absl::Status> before, read, own;
  Start(ReadBy(*other_, "c", &before));
  ASSERT_TRUE(Until([&] { return before.has_value(); }));
  server_.Restart();
  ScriptedConnection* writing = nullptr;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    Look(request);
    if (Target(request, Proc::kWriteInline) != "c" || writing != nullptr) return false;
    writing = &c;
    c.held.push_back(request);
    return true;
  };
  ASSERT_TRUE(Until([&] { return writing != nullptr; }));
  Start(ReadBy(*other_, "c", &read));
  Start(ReadBy(*files_, "c", &own));
  const absl::Time end = Loop::Now() + absl::Milliseconds(50);
  while (Loop::Now() < end) loop_->RunOnce(absl::Milliseconds(5));
  EXPECT_FALSE(read.has_value());
  server_.ServeHeld(*writing);
  ASSERT_TRUE(Until([&] { return read.has_value() && own.has_value(); }));
  EXPECT_OK(*read);
  EXPECT_OK(*own);
  EXPECT_EQ(missed_, 0);
}

// For example after a failed fsync: data rewritten before it is lost too.
TEST_F(RestoringTest, DataLostDuringTheRewriteIsRewrittenAgain) {
  server_.Restart();
  bool lost_again = false;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    Look(request);
    if (Target(request, Proc::kWriteInline) == "c" && !std::exchange(lost_again, true)) {
      server_.unstable.clear();
      ++server_.write_verifier;
    }
    return false;
  };
  std::optional<absl::Status> read;
  Start(ReadBy(*files_, "b", &read));
  ASSERT_TRUE(Until([&] { return read.has_value(); }));
  EXPECT_OK(*read);
  EXPECT_TRUE(lost_again);
  EXPECT_EQ(missed_, 0);
}

// A server that changes its write verifier each time does not block the client forever.
TEST_F(RestoringTest, ServerThatAlwaysLosesDataIsStillUsed) {
  server_.Restart();
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (!Target(request, Proc::kWriteInline).empty()) ++server_.write_verifier;
    return false;
  };
  std::optional<absl::Status> read;
  Start(ReadBy(*files_, "b", &read));
  ASSERT_TRUE(Until([&] { return read.has_value(); }));
  EXPECT_OK(*read);
}

}  // namespace
}  // namespace dafs::client::testing
