// Read delegations of files that programs of the server's machine may change: such a program waits
// until they are returned, and requests of clients never wait for the server's own lease.
// WIRE 9.7.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/holdings.h"
#include "tests/server/store/promises_fixture.h"
#include "wire/messages/messages.h"

namespace dafs::server {
namespace {

using Type = Delegations::Type;
using testing::IsEmpty;
using testing::SizeIs;

class LeasesTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    WriteFile(Path("a/f"), "content", 0666);
    ServeAgain();
  }
  void ServeAgain() {
    Serve();
    {
      absl::MutexLock lock(&mutex_);
      recalls_.clear();
    }
    root_.client_name = "one";
    other_.client_name = "two";
    root_.awaited = other_.awaited = &awaited_;
    store_->delegations().SetRecaller([this](const auto& recall) {
      absl::MutexLock lock(&mutex_);
      recalls_.push_back(recall);
    });
    file_ = Handle({"a", "f"});
  }

  // The state id of a delegation without an open; zero if there is none.
  wire::StateId Delegated(const Caller& caller, const wire::FileHandle& file) {
    wire::OpenDelegatedArgs args;
    args.filehandle = file;
    args.share_access = wire::kShareRead;
    args.owner = "owner";
    args.want = Type::kRead;
    wire::OpenDelegatedRes res;
    EXPECT_OK(store_->opens().OpenDelegated(caller, args, &res));
    EXPECT_OK(Close(caller, {file, res.state_id}));
    return res.delegation_state_id;
  }
  wire::StateId Delegated(const Caller& caller) {
    const wire::StateId state_id = Delegated(caller, file_);
    EXPECT_FALSE(state_id.is_zero());
    return state_id;
  }
  DafsStatus Return(const Caller& caller, const wire::StateId& state_id) {
    wire::DelegreturnArgs args;
    args.state_id = state_id;
    return store_->opens().Delegreturn(caller, args);
  }
  DafsStatus OpenAs(const Caller& caller, uint32_t access) {
    wire::OpenHandleArgs args;
    args.filehandle = file_;
    args.share_access = access;
    args.owner = "open";
    return store_->opens().OpenHandle(caller, args, &opened_);
  }

  // Waits for that many recalls, and returns all.
  std::vector<DelegationRecall> Recalls(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return recalls_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return recalls_;
  }
  // A local program that waits for the end of the delegations `held`.
  void ExpectWait(const std::vector<wire::StateId>& held, const std::function<bool()>& program) {
    std::future<bool> result = std::async(std::launch::async, program);
    const auto recalls = Recalls(held.size());
    ASSERT_THAT(recalls, SizeIs(held.size()));
    for (const auto& recall : recalls) {
      EXPECT_NE(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
      EXPECT_OK(Return(recall.client_id == root_.client_id ? root_ : other_, recall.state_id));
    }
    EXPECT_TRUE(result.get());
  }
  bool HasLease() {
    Store::RestoreServerIdentity();
    return !UniqueFd(open(Path("a/f").c_str(), O_WRONLY | O_NONBLOCK)).valid();
  }
  // A request of the client that holds a delegation succeeds without waiting for the lease, and
  // that delegation is recalled.
  void ExpectNoWait(const std::function<DafsStatus()>& request) {
    ServeAgain();
    const wire::StateId held = Delegated(root_);
    auto result = std::async(std::launch::async, [&] {
      const DafsStatus status = request();
      Store::RestoreServerIdentity();
      return status;
    });
    const bool is_quick = result.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    EXPECT_TRUE(is_quick);
    if (!is_quick) {
      EXPECT_OK(Return(root_, held));
    }
    EXPECT_OK(result.get());
    const auto recalls = Recalls(1);
    ASSERT_THAT(recalls, SizeIs(1));
    EXPECT_EQ(recalls[0].state_id, held);
    EXPECT_FALSE(HasLease());
    EXPECT_OK(Return(root_, held));
  }

  wire::FileHandle file_;
  wire::OpenHandleRes opened_;
  AwaitedDelegations awaited_;
  absl::Mutex mutex_;
  std::vector<DelegationRecall> recalls_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LeasesTest, ALocalOpenForWritingWaitsForTheReturn) {
  ExpectWait({Delegated(root_)}, [this] {
    const UniqueFd fd(open(Path("a/f").c_str(), O_WRONLY));
    return fd.valid() && write(fd.get(), "CON", 3) == 3;
  });
  EXPECT_EQ(Read(root_, {file_, {}}), "CONtent");
}

TEST_F(LeasesTest, ALocalTruncationWaitsForTheReturnsOfAllClients) {
  ExpectWait({Delegated(root_), Delegated(other_)},
             [this] { return truncate(Path("a/f").c_str(), 3) == 0; });
  EXPECT_EQ(Read(root_, {file_, {}}), "con");
}

TEST_F(LeasesTest, TheLeaseEndsWithTheLastDelegation) {
  const wire::StateId first = Delegated(root_);
  const wire::StateId second = Delegated(other_);
  EXPECT_OK(Return(root_, first));
  EXPECT_TRUE(HasLease());
  const auto recalls = Recalls(1);
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].state_id, second);
  EXPECT_OK(Return(other_, second));
  EXPECT_FALSE(HasLease());
}

TEST_F(LeasesTest, ALocalReaderDoesNotWait) {
  Delegated(root_);
  EXPECT_EQ(FileContent(Path("a/f")), "content");
  EXPECT_TRUE(HasLease());
  EXPECT_THAT(Recalls(1), SizeIs(1)) << "only by the open for writing";
}

TEST_F(LeasesTest, NoDelegationWhileALocalProgramHasTheFileOpenForWriting) {
  UniqueFd writer(open(Path("a/f").c_str(), O_WRONLY));
  EXPECT_TRUE(Delegated(root_, file_).is_zero());
  writer = UniqueFd();
  EXPECT_FALSE(Delegated(root_, file_).is_zero());
}

TEST_F(LeasesTest, NoWriteDelegation) {
  wire::OpenDelegatedArgs args;
  args.filehandle = file_;
  args.share_access = wire::kShareBoth;
  args.want = Type::kWrite;
  wire::OpenDelegatedRes res;
  EXPECT_OK(store_->opens().OpenDelegated(root_, args, &res));
  EXPECT_EQ(res.delegation_type, Type::kNone);
}

TEST_F(LeasesTest, NoDelegationWithoutLeases) {
  StoreOptions options = Options();
  options.use_leases = false;
  Start(std::move(options));
  root_.promisee = Admit(root_.client_id, "one");
  store_->delegations().SetRecaller([](const auto&) {});
  EXPECT_TRUE(Delegated(root_, Handle({"a", "f"})).is_zero());
  EXPECT_EQ(store_->delegations().GetCounts().held, 0u);
}

TEST_F(LeasesTest, AnotherClientWaitsForTheReturnAndNotForTheLease) {
  const auto expect = [this](const std::function<DafsStatus()>& request) {
    ServeAgain();
    const wire::StateId held = Delegated(root_);
    EXPECT_DAFS(kDelay, request());
    EXPECT_THAT(Recalls(1), SizeIs(1));
    EXPECT_OK(Return(root_, held));
    EXPECT_OK(request());
  };
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  uint64_t set = 0;
  wire::OpenRes res;
  wire::OpenArgs truncating = CreateArgs(A(), "f");
  truncating.share_access = wire::kShareRead;
  truncating.createattrs.set(wire::kFattrObjectSize);
  expect([&] { return OpenAs(other_, wire::kShareBoth); });
  expect([&] { return OpenAs(other_, wire::kShareWrite); });
  expect([&] { return Write(other_, {file_, {}}, 0, "x"); });
  expect([&] { return store_->attributes().Setattr(other_, file_, {}, size, &set); });
  expect([&] { return store_->opens().Open(other_, truncating, &res); });
}

TEST_F(LeasesTest, TheHolderDoesNotWaitForTheLease) {
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  size.object_size = 5;
  uint64_t set = 0;
  wire::OpenRes res;
  wire::OpenArgs truncating = CreateArgs(A(), "f");
  truncating.share_access = wire::kShareRead;
  truncating.createattrs.set(wire::kFattrObjectSize);
  ExpectNoWait([&] { return Write(root_, {file_, {}}, 0, "C"); });
  ExpectNoWait([&] {
    const DafsStatus status = OpenAs(root_, wire::kShareBoth);
    EXPECT_OK(Write(root_, {file_, opened_.state_id}, 0, "CO"));
    return Close(root_, {file_, opened_.state_id}) == DafsStatus::kOk ? status : DafsStatus::kIo;
  });
  EXPECT_EQ(Read(root_, {file_, {}}), "COntent");
  ExpectNoWait([&] { return store_->attributes().Setattr(root_, file_, {}, size, &set); });
  EXPECT_EQ(Read(root_, {file_, {}}), "COnte");
  ExpectNoWait([&] {
    AppendResult appended;
    char data[] = "!";
    const iovec v = {data, 1};
    return store_->data().Append(root_, file_, {}, {&v, 1}, wire::StableHow::kDataSync, &appended);
  });
  EXPECT_EQ(Read(root_, {file_, {}}), "COnte!");
  ExpectNoWait([&] {
    const DafsStatus status = store_->opens().Open(root_, truncating, &res);
    return Close(root_, {file_, res.state_id}) == DafsStatus::kOk ? status : DafsStatus::kIo;
  });
  EXPECT_EQ(Read(root_, {file_, {}}), "");
}

// A user without write permission does not end the lease.
TEST_F(LeasesTest, AWriteThatIsNotPermittedRecallsNothing) {
  chmod(Path("a/f").c_str(), 0644);
  Delegated(root_);
  EXPECT_DAFS(kAcces, Write(other_, {file_, {}}, 0, "x"));
  EXPECT_DAFS(kAcces, OpenAs(other_, wire::kShareBoth));
  EXPECT_THAT(Recalls(0), IsEmpty());
  EXPECT_TRUE(HasLease());
}

// Also if the kernel cannot queue a signal for each.
TEST_F(LeasesTest, AThousandDelegationsAreRecalled) {
  constexpr size_t kCount = 1000;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_SIGPENDING, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
  std::vector<wire::StateId> held;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = absl::StrCat("f", i);
    WriteFile(Path("a/" + name), "x");
    held.push_back(Delegated(root_, Handle({"a", name})));
    ASSERT_FALSE(held.back().is_zero()) << i;
  }
  Store::RestoreServerIdentity();
  for (size_t i = 0; i < kCount; ++i) {
    const std::string path = Path(absl::StrCat("a/f", i));
    EXPECT_FALSE(UniqueFd(open(path.c_str(), O_WRONLY | O_NONBLOCK)).valid());
  }
  EXPECT_THAT(Recalls(kCount), SizeIs(kCount));
  for (const wire::StateId& state_id : held) EXPECT_OK(Return(root_, state_id));
  Store::RestoreServerIdentity();
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(truncate(Path(absl::StrCat("a/f", i)).c_str(), 0), 0);
  }
  setrlimit(RLIMIT_SIGPENDING, &before);
}

TEST_F(LeasesTest, AFileThatALocalProgramRemovesIsReleased) {
  const wire::StateId held = Delegated(root_);
  unlink(Path("a/f").c_str());
  EXPECT_THAT(Recalls(0), IsEmpty());
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  const auto recalls = Recalls(1);
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].state_id, held);
}

// While the server was down, nothing protected the file.
TEST_F(LeasesTest, AClaimedDelegationIsRecalled) {
  Holdings lost = {};
  root_.holdings = &lost;
  lost.lost_opens = 2;
  Grace::Owed owed;
  owed.expected = {{"one", &lost}};
  store_->grace().Start(std::move(owed), Loop::Now() + absl::Hours(1));
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareRead);
  args.claim_type = wire::OpenClaimType::kPrevious;
  args.filehandle = file_;
  args.delegate_type = Type::kRead;
  wire::OpenRes res;
  EXPECT_OK(store_->opens().Open(root_, args, &res));
  EXPECT_EQ(res.delegation_type, Type::kRead);
  EXPECT_TRUE(res.recall);
  EXPECT_THAT(Recalls(1), SizeIs(1));
  root_.holdings = nullptr;
}

TEST_F(LeasesTest, AServerThatStopsEndsItsLeases) {
  Delegated(root_);
  store_->EndLeases();
  EXPECT_FALSE(HasLease());
  EXPECT_THAT(Recalls(0), IsEmpty());
  EXPECT_TRUE(Delegated(other_, file_).is_zero());
}

}  // namespace
}  // namespace dafs::server
