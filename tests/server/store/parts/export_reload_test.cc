// Exports that are added, removed and changed while the store serves.
#include <poll.h>
#include <sched.h>
#include <sys/fanotify.h>
#include <sys/mount.h>

#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/files/unique_fd.h"
#include "server/store/access/promise_ends.h"
#include "server/store/holdings/holdings.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/parts/inventory.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ExportReloadTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    mkdir(Path("c").c_str(), 0777);
    std::ofstream(Path("a/f")) << "of a";
    std::ofstream(Path("b/f")) << "of b";
    exports_[1].squash = Squash::kNone;
    Start();
  }

  absl::StatusOr<ExportChanges> Reload(std::vector<Export> exports) {
    return store_->reload().Reload(std::move(exports), absl::Seconds(60));
  }
  ExportChanges MustReload(std::vector<Export> exports) {
    absl::StatusOr<ExportChanges> changes = Reload(std::move(exports));
    EXPECT_TRUE(changes.ok()) << changes.status();
    return changes.value_or(ExportChanges());
  }
  Export C() {
    Export c = Named("/deep/c", "c");
    c.squash = Squash::kNone;
    return c;
  }
  std::vector<std::string> NamesIn(const wire::FileHandle& directory) {
    std::vector<Entry> entries;
    ReaddirResult res;
    EXPECT_OK(List(root_, directory, 0, 100, &entries, &res));
    std::vector<std::string> names;
    for (const Entry& entry : entries) names.push_back(entry.name);
    return names;
  }
};

// Holds calls of open(2) for one file in the kernel, those of this process included.
class HeldOpens {
 public:
  explicit HeldOpens(const std::string& path)
      : group_(fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC)) {
    valid_ = group_.valid() &&
             fanotify_mark(group_.get(), FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path.c_str()) == 0;
  }
  bool valid() const { return valid_; }
  // Waits until a call is held.
  bool Await() {
    pollfd held = {group_.get(), POLLIN, 0};
    fanotify_event_metadata event;
    if (poll(&held, 1, 60'000) != 1 ||
        read(group_.get(), &event, sizeof event) != static_cast<ssize_t>(sizeof event)) {
      return false;
    }
    event_ = UniqueFd(event.fd);
    return event_.valid();
  }
  // The call that is held succeeds. Others are not held any more.
  void Release() {
    const fanotify_response response = {event_.get(), FAN_ALLOW};
    EXPECT_EQ(write(group_.get(), &response, sizeof response),
              static_cast<ssize_t>(sizeof response));
    group_.Close();
  }

 private:
  UniqueFd group_;
  UniqueFd event_;
  bool valid_ = false;
};

TEST_F(ExportReloadTest, AnOpenUnderWayKeepsNothingInARemovedExport) {
  const wire::FileHandle b = Handle({"deep", "b"});
  HeldOpens held(Path("b/f"));
  if (!held.valid()) GTEST_SKIP() << "needs fanotify with permission events";
  DafsStatus status = DafsStatus::kOk;
  std::thread opening([&] {
    wire::OpenRes res;
    status = store_->opens().Open(other_, OpenArgs(b, "f"), &res);
    Store::RestoreServerIdentity();
  });
  const bool is_held = held.Await();
  const auto changes = Reload({exports_[0]});
  held.Release();
  opening.join();
  ASSERT_TRUE(is_held);
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_DAFS(kAcces, status);
  EXPECT_EQ(store_->inventory().open_count(), 0u);
}

TEST_F(ExportReloadTest, AClientThatIsUnknownToTheServerLosesItsOpensToo) {
  Caller unknown = root_;
  unknown.client_id = wire::OpaqueFromUint64<wire::ClientId>(77);
  const Opened file = MustOpen(unknown, OpenArgs(Handle({"deep", "b"}), "f"));
  MustReload({exports_[0]});
  EXPECT_EQ(store_->inventory().open_count(), 0u);
  EXPECT_EQ(Read(unknown, file), "DAFSERR_EXPIRED");
}

class ExportReloadMountTest : public ExportReloadTest {
 protected:
  void SetUp() override {
    ExportReloadTest::SetUp();
    if (IsSkipped()) return;
    store_.reset();
    Store::RestoreServerIdentity();
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || !MountTmpfs("b")) {
      GTEST_SKIP() << "needs to mount tmpfs";
    }
    mkdir(Path("b/inner").c_str(), 0777);
    ASSERT_TRUE(MountTmpfs("b/inner"));
    mkdir(Path("b/known").c_str(), 0777);
    mkdir(Path("b/inner/known").c_str(), 0777);
    std::ofstream(Path("b/f")) << "of b";
    std::ofstream(Path("b/inner/f")) << "of inner";
    Start();
  }
  void TearDown() override {
    store_.reset();
    Store::RestoreServerIdentity();
    for (const char* dir : {"b/inner", "b"}) umount2(Path(dir).c_str(), MNT_DETACH);
    StoreTest::TearDown();
  }
  bool MountTmpfs(const std::string& dir) {
    return mount("tmpfs", Path(dir).c_str(), "tmpfs", 0, "mode=0777") == 0;
  }
  // Uses what keeps descriptors: opens, locks, removed open files, handles in the cache.
  void Use() {
    const wire::FileHandle b = Handle({"deep", "b"});
    const wire::FileHandle inner = Handle({"deep", "b", "inner"});
    for (const wire::FileHandle& directory : {b, inner}) {
      const Opened file = MustOpen(root_, OpenArgs(directory, "f"));
      EXPECT_OK(Write(root_, file, 0, "x"));
      wire::LockArgs lock;
      lock.filehandle = file.filehandle;
      lock.state_id = file.state_id;
      lock.length = wire::kLockToEnd;
      lock.lock_type = wire::LockType::kWrite;
      wire::LockRes locked;
      EXPECT_OK(store_->locks().Lock(root_, lock, &locked));
      MustOpen(root_, CreateArgs(directory, "removed"));
      EXPECT_OK(Remove(root_, directory, "removed"));
      EXPECT_OK(Lookup(root_, directory, "known"));
    }
    Store::RestoreServerIdentity();
  }
  std::string Unmount() {
    Store::RestoreServerIdentity();
    for (const char* dir : {"b/inner", "b"}) {
      if (umount(Path(dir).c_str()) != 0) return absl::StrCat(dir, ": ", std::strerror(errno));
    }
    return "";
  }
};

TEST_F(ExportReloadMountTest, TheFileSystemOfARemovedExportCanBeUnmounted) {
  Use();
  const wire::FileHandle inner = Handle({"deep", "b", "inner", "f"});
  const wire::FileHandle known = Handle({"deep", "b", "known"});
  MustReload({exports_[0]});
  // Handles that clients still have do not open it again.
  wire::FileAttributes attributes;
  for (const wire::FileHandle& handle : {inner, known}) {
    EXPECT_DAFS(kAcces, store_->attributes().Getattr(root_, handle, wire::kFattrAll, &attributes));
  }
  store_->directories().FollowPaths();
  EXPECT_EQ(Unmount(), "");
}

TEST_F(ExportReloadMountTest, AnExportThatReturnsServesWhatIsMountedInIt) {
  Use();
  const wire::FileHandle file = Handle({"deep", "b", "inner", "f"});
  MustReload({exports_[0]});
  MustReload(exports_);
  EXPECT_EQ(Handle({"deep", "b", "inner", "f"}), file);
  EXPECT_EQ(Read(root_, MustOpen(root_, OpenArgs(Handle({"deep", "b", "inner"}), "f"))),
            "xf inner");
  EXPECT_OK(Lookup(root_, Handle({"deep", "b"}), "known"));
  Use();
  MustReload({exports_[0]});
  EXPECT_EQ(Unmount(), "");
}

// A reload that fails has opened some of the directories.
TEST_F(ExportReloadMountTest, AReloadThatFailsKeepsNoFileSystemBusy) {
  MustReload({exports_[0]});
  const auto failed = Reload({exports_[0], exports_[1], Named("/d", "absent")});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unmount(), "");
}

TEST_F(ExportReloadTest, WithoutAChangeNothingHappens) {
  const Opened file = MustOpen(root_, OpenArgs(A(), "f"));
  EXPECT_TRUE(MustReload(exports_).none());
  EXPECT_EQ(Read(root_, file), "of a");
}

TEST_F(ExportReloadTest, AnAddedExportIsServedAtOnce) {
  const wire::FileHandle deep = Handle({"deep"});
  const uint64_t before = Attributes(deep).change;
  std::ofstream(Path("c/f")) << "of c";
  exports_.push_back(C());
  EXPECT_THAT(MustReload(exports_).added, ElementsAre("/deep/c"));
  EXPECT_EQ(Read(root_, MustOpen(root_, OpenArgs(Handle({"deep", "c"}), "f"))), "of c");
  EXPECT_THAT(NamesIn(deep), ElementsAre("b", "c"));
  EXPECT_NE(Attributes(deep).change, before);
  EXPECT_EQ(store_->exports().Served().size(), 3u);
}

TEST_F(ExportReloadTest, ARemovedExportRefusesRequestsAndReleasesWhatIsHeld) {
  const wire::FileHandle b = Handle({"deep", "b"});
  const Opened kept = MustOpen(root_, OpenArgs(A(), "f"));
  const Opened lost = MustOpen(root_, OpenArgs(b, "f"));
  wire::LockArgs lock;
  lock.filehandle = lost.filehandle;
  lock.state_id = lost.state_id;
  lock.length = wire::kLockToEnd;
  lock.lock_type = wire::LockType::kWrite;
  wire::LockRes locked;
  ASSERT_OK(store_->locks().Lock(root_, lock, &locked));
  exports_.pop_back();
  EXPECT_THAT(MustReload(exports_).removed, ElementsAre("/deep/b"));
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  EXPECT_EQ(store_->inventory().lock_count(), 0u);
  EXPECT_EQ(Read(root_, lost), "DAFSERR_EXPIRED");
  EXPECT_DAFS(kAcces, Lookup(root_, b, "f"));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kAcces,
              store_->attributes().Getattr(root_, lost.filehandle, wire::kFattrAll, &attributes));
  EXPECT_EQ(Read(root_, {lost.filehandle, {}}), "DAFSERR_ACCES");
  wire::LookupArgs args;
  ASSERT_OK(store_->names().GetRootHandle(root_, &args.directory));
  args.path = {"deep", "b"};
  wire::LookupRes res;
  EXPECT_DAFS(kNoEnt, store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(Read(root_, kept), "of a");
  EXPECT_OK(Close(root_, kept));
}

TEST_F(ExportReloadTest, AnExportThatReturnsKeepsItsHandles) {
  const wire::FileHandle b = Handle({"deep", "b"});
  const std::vector<Export> all = exports_;
  for (int i = 0; i < 20; ++i) {
    MustReload({all[0]});
    EXPECT_DAFS(kAcces, Lookup(root_, b, "f"));
    EXPECT_THAT(MustReload(all).added, ElementsAre("/deep/b"));
    EXPECT_OK(Lookup(root_, b, "f"));
    EXPECT_EQ(Handle({"deep", "b"}), b);
  }
  EXPECT_EQ(store_->exports().size(), 2u);  // no index was used up
}

TEST_F(ExportReloadTest, ChangedOptionsApplyToTheNextRequest) {
  const Opened file = MustOpen(root_, OpenArgs(A(), "f"));
  EXPECT_OK(Write(root_, file, 0, "x"));
  exports_[0].read_only = true;
  EXPECT_THAT(MustReload(exports_).changed, ElementsAre("/a"));
  EXPECT_DAFS(kRofs, Write(root_, file, 0, "y"));
  EXPECT_EQ(Read(root_, file), "xf a");
  exports_[0].read_only = false;
  exports_[0].clients = {*Cidr::Parse("192.0.2.0/24")};
  MustReload(exports_);
  EXPECT_EQ(Read(root_, file), "DAFSERR_ACCES");
  exports_[0].clients.clear();
  exports_[0].squash = Squash::kAll;
  exports_[0].anonuid = 1234;
  MustReload(exports_);
  EXPECT_OK(Write(root_, file, 0, "z"));
  const Opened made = MustOpen(root_, CreateArgs(A(), "new"));
  EXPECT_EQ(Attributes(made.filehandle).owner, "1234");
}

TEST_F(ExportReloadTest, AnotherDirectoryIsAnotherExport) {
  const Opened file = MustOpen(root_, OpenArgs(Handle({"deep", "b"}), "f"));
  exports_[1].directory = Path("c");
  const ExportChanges changes = MustReload(exports_);
  EXPECT_THAT(changes.added, ElementsAre("/deep/b"));
  EXPECT_THAT(changes.removed, ElementsAre("/deep/b"));
  EXPECT_EQ(Read(root_, file), "DAFSERR_EXPIRED");
  EXPECT_DAFS(kNoEnt, Lookup(root_, Handle({"deep", "b"}), "f"));
}

TEST_F(ExportReloadTest, AnotherPathToAServedDirectoryChangesNothing) {
  const wire::FileHandle a = A();
  std::vector<Export> wanted = exports_;
  wanted[0].directory += "/";
  const auto failed = Reload(wanted);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("already served"));
  EXPECT_OK(Lookup(root_, a, "f"));
  // After the export was removed, the other path may be used.
  MustReload({exports_[1]});
  EXPECT_DAFS(kAcces, Lookup(root_, a, "f"));
  EXPECT_THAT(MustReload(wanted).added, ElementsAre("/a"));
  EXPECT_EQ(A(), a);
  EXPECT_OK(Lookup(root_, a, "f"));
}

TEST_F(ExportReloadTest, ADirectoryThatCannotBeServedChangesNothing) {
  const wire::FileHandle b = Handle({"deep", "b"});
  std::vector<Export> wanted = {exports_[0], Named("/d", "absent")};
  wanted[0].read_only = true;
  const auto failed = Reload(wanted);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.status().message()),
              testing::StartsWith("export /d=" + Path("absent") + ": "));
  EXPECT_OK(Lookup(root_, b, "f"));
  EXPECT_OK(Write(root_, MustOpen(root_, OpenArgs(A(), "f")), 0, "x"));
  EXPECT_THAT(NamesIn(Handle({})), ElementsAre("a", "deep"));
  // The directory comes later.
  mkdir(Path("absent").c_str(), 0777);
  EXPECT_THAT(MustReload(wanted).added, ElementsAre("/d"));
  EXPECT_OK(Create(root_, Handle({"d"}), "dir", wire::ObjectType::kDir));
}

TEST_F(ExportReloadTest, ExportsThatDoNotFitTogetherChangeNothing) {
  EXPECT_EQ(Reload({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Reload({exports_[0], exports_[0]}).status().message()),
              HasSubstr("given twice"));
  EXPECT_THAT(NamesIn(Handle({})), ElementsAre("a", "deep"));
}

TEST_F(ExportReloadTest, AllPromisesEnd) {
  std::vector<Promises::Call> called;
  store_->promise_ends().SetSend([&](std::vector<Promises::Call> calls) {
    called.insert(called.end(), calls.begin(), calls.end());
  });
  uint32_t granted = 0;
  ASSERT_NE(store_->promises().Admit(root_.client_id, "c1", 10, &granted), 0u);
  MustReload(exports_);
  EXPECT_THAT(called, IsEmpty());
  exports_[0].read_only = true;
  MustReload(exports_);
  ASSERT_EQ(called.size(), 1u);
  EXPECT_EQ(called[0].what, kPromisedAll);
}

TEST_F(ExportReloadTest, WritersOfAnotherExportLoseNothing) {
  constexpr int kReloads = 20;
  std::atomic<bool> ends = false;
  std::atomic<uint64_t> written = 0;
  const Opened file = MustOpen(root_, OpenArgs(A(), "f"));
  std::thread writer([&] {
    while (!ends) {
      const uint64_t number = written;
      std::string data(reinterpret_cast<const char*>(&number), sizeof(number));
      EXPECT_OK(Write(root_, file, number % 4096 * sizeof(number), data));
      ++written;
    }
    Store::RestoreServerIdentity();
  });
  const std::vector<Export> both = exports_, more = {exports_[0], C()};
  for (int i = 0; i < kReloads; ++i) {
    const uint64_t before = written;
    MustReload(i % 2 == 0 ? more : both);
    while (written == before) sched_yield();
  }
  ends = true;
  writer.join();
  for (uint64_t i = written > 4096 ? written - 4096 : 0; i < written; ++i) {
    const std::string data = Read(root_, file, i % 4096 * sizeof(i), sizeof(i));
    uint64_t number = 0;
    ASSERT_EQ(data.size(), sizeof(number));
    std::memcpy(&number, data.data(), sizeof(number));
    ASSERT_EQ(number, i);
  }
}

}  // namespace
}  // namespace dafs::server
