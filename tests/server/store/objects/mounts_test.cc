// File systems mounted inside an export, and file systems that cannot be exported. The tests create
// their own mount namespace; they skip if they may not create one.
#include <linux/btrfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "server/store/access/exports/export_threads.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/holdings.h"
#include "tests/server/files_in.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreMountsTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "needs a mount namespace of its own";
    }
    mkdir(Path("a/m").c_str(), 0777);
    mkdir(Path("a/n").c_str(), 0777);
    if (!MountTmpfs("a/m") || !MountTmpfs("a/n")) GTEST_SKIP() << "needs to mount tmpfs";
  }
  void TearDown() override {
    store_.reset();
    Store::RestoreServerIdentity();
    for (const char* dir : {"a/m", "a/n", "o"}) umount2(Path(dir).c_str(), MNT_DETACH);
    StoreTest::TearDown();
  }
  bool MountTmpfs(const std::string& dir, const char* options = "mode=0777") {
    return mount("tmpfs", Path(dir).c_str(), "tmpfs", 0, options) == 0;
  }
};

// Shows DAFS-4.1.4-05, DAFS-6.5.21-07, DAFS-6.5.22-03: each mounted file system has an FSHandle of
// its own, so that no two objects have the same identity.
TEST_F(StoreMountsTest, LookupCrossesIntoMountedFileSystems) {
  WriteFile(Path("a/m/f"), "in m");
  WriteFile(Path("a/n/f"), "in n");
  Start();
  const wire::FileHandle a = A();
  const wire::FileHandle m = Handle({"a", "m"});
  const wire::FileHandle n = Handle({"a", "n"});
  EXPECT_NE(a.fshandle, m.fshandle);
  EXPECT_NE(a.fshandle, n.fshandle);
  EXPECT_NE(m.fshandle, n.fshandle);
  const wire::FileHandle fm = Handle({"a", "m", "f"});
  const wire::FileHandle fn = Handle({"a", "n", "f"});
  EXPECT_EQ(fm.fshandle, m.fshandle);
  EXPECT_NE(fm, fn);
  EXPECT_EQ(Attributes(fm).file_id, Attributes(fn).file_id);  // only the FSHandle differs
  EXPECT_EQ(Read(root_, {fm, {}}), "in m");
  EXPECT_EQ(Read(root_, {fn, {}}), "in n");
  wire::FileHandle parent;
  EXPECT_OK(store_->names().Lookupp(root_, m, &parent));
  EXPECT_EQ(parent, a);
  wire::FsAttributes fs;
  EXPECT_OK(store_->attributes().GetFsattr(root_, fm, wire::kFsattrFshandle, &fs));
  EXPECT_EQ(fs.fshandle, m.fshandle);
  wire::LinkArgs link;
  link.source_object = fm;
  link.destination_object = n;
  link.newname = "g";
  wire::LinkRes res;
  EXPECT_DAFS(kXdev, store_->names().Link(root_, link, &res));
  EXPECT_DAFS(kXdev, Rename(root_, m, "f", a, "f"));
  EXPECT_DAFS(kAcces, Remove(root_, a, "m"));
}

TEST_F(StoreMountsTest, ListingShowsMountedFileSystems) {
  Start();
  std::vector<Entry> entries;
  ReaddirResult res;
  for (uint64_t bitmap : {wire::kFattrAll, wire::kFattrFileId | wire::kFattrObjectType}) {
    entries.clear();
    ASSERT_OK(List(root_, A(), 0, 10, &entries, &res, bitmap));
    ASSERT_EQ(entries.size(), 2u);
    for (const Entry& entry : entries) {
      EXPECT_TRUE(entry.attributes.has(wire::kFattrObjectType));
      // A file id without an FSHandle would belong to the directory's file system.
      EXPECT_EQ(entry.attributes.has(wire::kFattrFileId), bitmap == wire::kFattrAll);
      if (bitmap == wire::kFattrAll) {
        EXPECT_EQ(entry.attributes.file_id, Attributes(Handle({"a", entry.name})).file_id);
        EXPECT_EQ(entry.attributes.filehandle, Handle({"a", entry.name}));
      }
    }
  }
}

TEST_F(StoreMountsTest, HandlesOfMountedFileSystemsSurviveRestart) {
  WriteFile(Path("a/m/f"), "in m");
  Start();
  const wire::FileHandle f = Handle({"a", "m", "f"});
  Start();
  EXPECT_EQ(Attributes(f).object_size, 4u);  // found by its FSHandle alone
  EXPECT_EQ(Handle({"a", "m", "f"}), f);
}

// Shows DAFS-4.1.4-21, DAFS-7-15 (access revoked)
TEST_F(StoreMountsTest, HandlesOfUnmountedFileSystemAreStale) {
  WriteFile(Path("a/m/f"), "in m");
  Start();
  const wire::FileHandle m = Handle({"a", "m"});
  const wire::FileHandle f = Handle({"a", "m", "f"});
  store_.reset();  // an open store prevents the unmount
  Store::RestoreServerIdentity();
  ASSERT_EQ(umount(Path("a/m").c_str()), 0);
  Start();
  wire::FileAttributes attributes;
  for (const wire::FileHandle& gone : {m, f}) {
    EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, gone, wire::kFattrAll, &attributes));
  }
  EXPECT_NE(Handle({"a", "m"}), m);  // now the directory below the mount
}

// Shows DAFS-7-08
TEST_F(StoreMountsTest, FullFileSystemAndOversizedFileHaveDifferentErrors) {
  umount(Path("a/n").c_str());
  if (!MountTmpfs("a/n", "mode=0777,size=64k")) GTEST_SKIP() << "needs to mount tmpfs";
  Start();
  const Opened f = MustOpen(user_, CreateArgs(Handle({"a", "n"}), "f"));
  EXPECT_DAFS(kFbig, Write(user_, f, UINT64_MAX - 100, "beyond"));
  const std::string piece(32768, 'x');
  DafsStatus status = DafsStatus::kOk;
  for (uint64_t i = 0; i < 8 && status == DafsStatus::kOk; ++i) {
    status = Write(user_, f, i * piece.size(), piece);
  }
  EXPECT_DAFS(kNoSpc, status);
  EXPECT_OK(Close(user_, f));
}

TEST_F(StoreMountsTest, BasicOperationsWorkOnTmpfs) {
  Start();
  const wire::FileHandle m = Handle({"a", "m"});
  const Opened f = MustOpen(user_, CreateArgs(m, "f"));
  ASSERT_OK(Write(user_, f, 0, "x", wire::StableHow::kFileSync));
  std::byte into[10];
  const ReadResult r =
      store_->data().Read(user_, f.filehandle, f.state_id, 0, into, ReadMode::kNoWait);
  EXPECT_FALSE(r.would_block);
  EXPECT_EQ(r.bytes_read, 1u);
  ASSERT_OK(Remove(user_, m, "f"));
  EXPECT_EQ(Read(user_, f), "x");
  EXPECT_NE(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
  ASSERT_OK(Close(user_, f));
  EXPECT_EQ(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
  wire::OpenArgs args = OpenArgs(m, "e");
  args.open_type = wire::OpenType::kCreate;
  args.createmode = wire::CreateMode::kExclusive;
  args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(5);
  const Opened e = MustOpen(user_, args);
  EXPECT_EQ(MustOpen(user_, args).filehandle, e.filehandle);
}

// Shows DAFS-6.5.7-02, over a restart: orphans are kept for their opens, then removed.
TEST_F(StoreMountsTest, OrphansOfMountedFileSystemsAreRecoveredAtStart) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  const wire::FileHandle m = Handle({"a", "m"});
  const Opened f = MustOpen(user_, CreateArgs(m, "f"));
  ASSERT_OK(Remove(user_, m, "f"));
  Start(options);
  EXPECT_NE(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
  EXPECT_EQ(Attributes(Handle({"a", "m"})).num_links,
            2u);  // the server knows of the orphan directory
  EXPECT_EQ(Attributes(f.filehandle).object_size, 0u);
  store_->grace().Start({}, absl::InfinitePast());
  store_->EndGrace(absl::InfinitePast());
  EXPECT_EQ(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
  EXPECT_EQ(FilesIn(Path("a/n/.dafsd-orphans")), 0u);
}

// An open by handle keeps an orphan as a reclaim does, also over the next restart.
TEST_F(StoreMountsTest, OrphanIsAdoptedByAnyOpen) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "data", wire::StableHow::kUnstable));
  ASSERT_OK(Remove(user_, A(), "f"));
  for (int restarts = 0; restarts < 2; ++restarts) {
    Start(options);
    store_->grace().Start({}, absl::InfinitePast());
    wire::OpenHandleArgs args;
    args.filehandle = f.filehandle;
    args.share_access = wire::kShareRead;
    wire::OpenHandleRes again;
    ASSERT_OK(store_->opens().OpenHandle(user_, args, &again));
    store_->EndGrace(absl::InfinitePast());
    EXPECT_EQ(Read(user_, {again.filehandle, again.state_id}), "data");
  }
}

// Two exports of one directory share its orphans.
TEST_F(StoreMountsTest, OrphanIsAdoptedThroughEitherExportOfItsDirectory) {
  exports_ = {Named("/one", "a/m"), Named("/two", "a/m")};
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  const wire::FileHandle one = Handle({"one"});
  const Opened f = MustOpen(user_, CreateArgs(one, "f"));
  ASSERT_OK(Write(user_, f, 0, "data", wire::StableHow::kUnstable));
  ASSERT_OK(Remove(user_, one, "f"));
  Start(options);
  Holdings holdings = {};
  holdings.lost_opens = 1;
  user_.client_name = "client";
  user_.holdings = &holdings;
  Grace::Owed owed;
  owed.expected = {{"client", &holdings}};
  store_->grace().Start(std::move(owed), absl::InfiniteFuture());
  wire::OpenArgs args = OpenArgs(one, "");
  args.pathname.clear();
  args.claim_type = wire::OpenClaimType::kPrevious;
  args.claim_handle() = f.filehandle;
  const Opened again = MustOpen(user_, args);
  store_->EndGrace(absl::Now());
  EXPECT_NE(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
  EXPECT_EQ(Read(user_, again), "data");
  ASSERT_OK(Close(user_, again));
  EXPECT_EQ(FilesIn(Path("a/m/.dafsd-orphans")), 0u);
}

// A Btrfs file system at a/m, with the subvolumes s1 and s2.
class StoreSubvolumesTest : public StoreMountsTest {
 protected:
  void SetUp() override {
    StoreMountsTest::SetUp();
    if (IsSkipped()) return;
    umount(Path("a/m").c_str());
    const std::string image = Path("image");
    const std::string make =
        absl::StrCat("truncate -s 128M ", image, " && mkfs.btrfs -q ", image,
                     " >/dev/null 2>&1 && mount -o loop ", image, " ", Path("a/m"), " 2>/dev/null");
    if (std::system(make.c_str()) != 0) GTEST_SKIP() << "needs mkfs.btrfs, Btrfs and loop devices";
    for (const char* name : {"s1", "s2"}) {
      ASSERT_EQ(Subvolume(BTRFS_IOC_SUBVOL_CREATE, name), 0);
      WriteFile(Path(absl::StrCat("a/m/", name, "/f")), absl::StrCat("in ", name));
    }
    for (const char* name : {"", "/s1", "/s2"}) {
      chmod(Path(absl::StrCat("a/m", name)).c_str(), 0777);
    }
  }
  int Subvolume(unsigned long what, const char* name) {
    const UniqueFd top(open(Path("a/m").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    btrfs_ioctl_vol_args args = {};
    std::strncpy(args.name, name, sizeof args.name - 1);
    return ioctl(top.get(), what, &args);
  }
};

// Subvolumes share a mount, but each has its own inode numbers. With one FSHandle tar(1) would
// treat two files with the same number as one.
TEST_F(StoreSubvolumesTest, EachSubvolumeHasItsOwnFsHandle) {
  Start();
  const wire::FileHandle m = Handle({"a", "m"});
  const wire::FileHandle s1 = Handle({"a", "m", "s1"});
  const wire::FileHandle s2 = Handle({"a", "m", "s2"});
  const wire::FileHandle f1 = Handle({"a", "m", "s1", "f"});
  const wire::FileHandle f2 = Handle({"a", "m", "s2", "f"});
  EXPECT_EQ(Attributes(m).file_id, Attributes(s1).file_id);  // only the FSHandle differs
  EXPECT_EQ(Attributes(f1).file_id, Attributes(f2).file_id);
  EXPECT_NE(m.fshandle, s1.fshandle);
  EXPECT_NE(m.fshandle, s2.fshandle);
  EXPECT_NE(s1.fshandle, s2.fshandle);
  EXPECT_EQ(f1.fshandle, s1.fshandle);
  EXPECT_EQ(f2.fshandle, s2.fshandle);
  EXPECT_EQ(Read(root_, {f1, {}}), "in s1");
  EXPECT_EQ(Read(root_, {f2, {}}), "in s2");
  wire::LinkArgs link;
  link.source_object = f1;
  link.destination_object = s2;
  link.newname = "g";
  wire::LinkRes res;
  EXPECT_DAFS(kXdev, store_->names().Link(root_, link, &res));
  EXPECT_DAFS(kXdev, Rename(root_, s1, "f", s2, "g"));
}

// The roots of all subvolumes have the same inode number. It does not identify the machine's root.
TEST_F(StoreSubvolumesTest, ParentOfSubvolumeIsFound) {
  exports_ = {Named("/m", "a/m")};
  exports_[0].squash = Squash::kNone;
  Start();
  wire::FileHandle parent;
  EXPECT_OK(store_->names().Lookupp(root_, Handle({"m", "s1"}), &parent));
  EXPECT_EQ(parent, Handle({"m"}));
}

TEST_F(StoreSubvolumesTest, SubvolumeIsRenamedIntoAnother) {
  Start();
  const wire::FileHandle f = Handle({"a", "m", "s1", "f"});
  EXPECT_OK(Rename(root_, Handle({"a", "m"}), "s1", Handle({"a", "m", "s2"}), "inner"));
  EXPECT_EQ(Handle({"a", "m", "s2", "inner", "f"}), f);
}

TEST_F(StoreSubvolumesTest, HandlesSurviveRestart) {
  Start();
  const wire::FileHandle f1 = Handle({"a", "m", "s1", "f"});
  const wire::FileHandle f2 = Handle({"a", "m", "s2", "f"});
  Start();
  EXPECT_EQ(Read(root_, {f1, {}}), "in s1");  // found only by the handle
  EXPECT_EQ(Handle({"a", "m", "s2", "f"}), f2);
  EXPECT_EQ(Handle({"a", "m", "s1", "f"}), f1);
}

TEST_F(StoreSubvolumesTest, RemovedOpenFileSurvivesRestart) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  const wire::FileHandle s1 = Handle({"a", "m", "s1"});
  const Opened f = MustOpen(user_, CreateArgs(s1, "new"));
  ASSERT_OK(Write(user_, f, 0, "data", wire::StableHow::kFileSync));
  ASSERT_OK(Remove(user_, s1, "new"));
  EXPECT_NE(FilesIn(Path("a/m/s1/.dafsd-orphans")), 0u);
  Start(options);
  EXPECT_EQ(Attributes(f.filehandle).object_size, 4u);
  store_->grace().Start({}, absl::InfinitePast());
  store_->EndGrace(absl::InfinitePast());
  EXPECT_EQ(FilesIn(Path("a/m/s1/.dafsd-orphans")), 0u);
}

TEST_F(StoreSubvolumesTest, UnvisitedOrphanIsRemovedAfterGracePeriod) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  for (const char* name : {"s1", "s2"}) {
    const wire::FileHandle subvolume = Handle({"a", "m", name});
    MustOpen(user_, CreateArgs(subvolume, "new"));
    ASSERT_OK(Remove(user_, subvolume, "new"));
  }
  store_.reset();
  Store::RestoreServerIdentity();
  ASSERT_EQ(Subvolume(BTRFS_IOC_SNAP_DESTROY, "s2"), 0);
  for (int starts = 0; starts < 2; ++starts) {
    Start(options);
    EXPECT_EQ(FilesIn(Path("a/m/s1/.dafsd-orphans")), starts == 0 ? 1u : 0u);
    store_->grace().Start({}, absl::InfinitePast());
    store_->EndGrace(absl::InfinitePast());
    EXPECT_EQ(FilesIn(Path("a/m/s1/.dafsd-orphans")), 0u);
    std::ifstream record(Path("state/orphan-directories"));
    const std::string text{std::istreambuf_iterator<char>(record), {}};
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1)
        << text;  // the deleted one is no longer listed
  }
}

// A descriptor in a deleted subvolume would keep its space.
TEST_F(StoreSubvolumesTest, DeletedSubvolumeHasNoOpenDescriptor) {
  Start();
  const wire::FileHandle m = Handle({"a", "m"});
  const size_t before = store_->inventory().descriptor_count();
  const wire::FileHandle f = Handle({"a", "m", "s1", "f"});
  EXPECT_EQ(Attributes(f).num_links, 1u);
  EXPECT_GT(store_->inventory().descriptor_count(), before);
  Store::RestoreServerIdentity();
  ASSERT_EQ(Subvolume(BTRFS_IOC_SNAP_DESTROY, "s1"), 0);
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  EXPECT_EQ(store_->inventory().descriptor_count(), before);
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, f, wire::kFattrAll, &attributes));
  EXPECT_DAFS(kNoEnt, Lookup(root_, m, "s1"));
}

// A FUSE file system without a server precedes the others in the mount table.
class StoreHungMountTest : public StoreMountsTest {
 protected:
  void SetUp() override {
    StoreMountsTest::SetUp();
    if (IsSkipped()) return;
    for (Export& e : exports_) e.lasting_handles = true;
    mkdir(Path("a/hung").c_str(), 0777);
    WriteFile(Path("a/n/f"), "in n");
    umount(Path("a/m").c_str());
    device_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string options =
        absl::StrCat("fd=", device_, ",rootmode=40000,user_id=0,group_id=0");
    if (device_ < 0 ||
        mount("hung", Path("a/hung").c_str(), "fuse.hung", 0, options.c_str()) != 0) {
      GTEST_SKIP() << "needs FUSE";
    }
    if (!MountTmpfs("a/m")) GTEST_SKIP() << "needs to mount tmpfs";
    WriteFile(Path("a/m/f"), "in m");
  }
  void TearDown() override {
    if (device_ >= 0) close(device_);  // ends all calls that wait for it
    if (asked_.joinable()) asked_.join();
    umount2(Path("a/hung").c_str(), MNT_DETACH);
    StoreMountsTest::TearDown();
  }
  // Ends all calls that wait for the file system.
  void EndHang() { close(std::exchange(device_, -1)); }
  // Returns whether `ask` returns in time. At most one call in a test.
  bool Answers(std::function<void()> ask) {
    std::promise<void> done;
    std::future<void> future = done.get_future();
    asked_ = std::thread([ask = std::move(ask), done = std::move(done)]() mutable {
      ask();
      done.set_value();
    });
    return future.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  }

 private:
  int device_ = -1;
  std::thread asked_;
};

// A FUSE file system may lose its handles whenever caches are dropped. The server must not access
// it, because it hangs.
TEST_F(StoreHungMountTest, FuseExportIsRefusedUnlessItsHandlesPersist) {
  exports_ = {Named("/a", "a"), Named("/hung", "a/hung")};
  ASSERT_TRUE(Answers([this] {
    const absl::Status status = Store::Open(Options()).status();
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr("/hung="), testing::HasSubstr("(fuse.hung)"),
                               testing::HasSubstr("handles=lasting")));
  }));
}

TEST_F(StoreHungMountTest, FuseMountInsideExportIsClosedUnlessItsHandlesPersist) {
  for (Export& e : exports_) e.lasting_handles = false;
  ASSERT_TRUE(Answers([this] {
    Start();
    EXPECT_DAFS(kAcces, Lookup(root_, A(), "hung"));
    EXPECT_OK(Lookup(root_, A(), "m"));
  }));
}

TEST_F(StoreHungMountTest, HungMountDoesNotBlockLookupsOfOtherMounts) {
  Start();
  EXPECT_TRUE(Answers([this] {
    EXPECT_EQ(Read(root_, {Handle({"a", "m", "f"}), {}}), "in m");
    EXPECT_EQ(Read(root_, {Handle({"a", "n", "f"}), {}}), "in n");
  }));
}

TEST_F(StoreHungMountTest, HungMountDoesNotBlockHandlesOfOtherMounts) {
  wire::FileHandle f;
  Start();
  ASSERT_TRUE(Answers([&] {
    f = Handle({"a", "m", "f"});
    Start();
    EXPECT_EQ(Attributes(f).object_size, 4u);  // found by its FSHandle alone
  }));
}

TEST_F(StoreMountsTest, FileSystemWithoutHandlesInsideExportIsClosed) {
  ASSERT_EQ(mount("proc", Path("a/n").c_str(), "proc", 0, nullptr), 0);
  Start();
  EXPECT_DAFS(kAcces, Lookup(root_, A(), "n"));
  EXPECT_OK(Lookup(root_, A(), "m"));
  Store::RestoreServerIdentity();
  umount(Path("a/n").c_str());
}

TEST_F(StoreMountsTest, OverlayWithoutHandlesIsRefusedWithRemedy) {
  for (const char* dir : {"o", "a/m/l", "a/m/u", "a/m/w"}) mkdir(Path(dir).c_str(), 0777);
  const std::string options =
      "lowerdir=" + Path("a/m/l") + ",upperdir=" + Path("a/m/u") + ",workdir=" + Path("a/m/w");
  if (mount("overlay", Path("o").c_str(), "overlay", 0, options.c_str()) != 0) {
    GTEST_SKIP() << "no overlay file system here";
  }
  exports_ = {Named("/o", "o")};
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(Options());
  EXPECT_THAT(std::string(store.status().message()), testing::HasSubstr("nfs_export=on"));
}

class StoreReplacedExportTest : public StoreTest {
 protected:
  // Returns what the store logs meanwhile.
  static std::string Logged(absl::FunctionRef<void()> call) {
    testing::internal::CaptureStderr();
    call();
    return testing::internal::GetCapturedStderr();
  }
  std::string LogOfLookup() {
    return Logged([this] { Handle({"a"}); });
  }
  void Replace() {
    std::filesystem::rename(Path("a"), Path("old"));
    mkdir(Path("a").c_str(), 0777);
  }
  DafsStatus Stat(const wire::FileHandle& handle) {
    wire::FileAttributes attributes;
    return store_->attributes().Getattr(root_, handle, wire::kFattrObjectSize, &attributes);
  }
};

TEST_F(StoreReplacedExportTest, NothingAtThePathLeavesTheDirectoryServedAndIsLoggedOnce) {
  Start();
  const wire::FileHandle before = A();
  EXPECT_EQ(LogOfLookup(), "");
  std::filesystem::rename(Path("a"), Path("old"));
  EXPECT_THAT(LogOfLookup(),
              testing::HasSubstr("export /a=" + Path("a") + ": nothing is at this path"));
  EXPECT_EQ(LogOfLookup(), "");
  EXPECT_EQ(A(), before);
  std::filesystem::rename(Path("old"), Path("a"));
  EXPECT_THAT(LogOfLookup(), testing::HasSubstr("leads to a directory again"));
  EXPECT_EQ(A(), before);
}

TEST_F(StoreReplacedExportTest, LookupLeadsToTheDirectoryThatIsAtThePathNow) {
  WriteFile(Path("a/f"), "old");
  Start();
  const wire::FileHandle root = A();
  const wire::FileHandle file = Handle({"a", "f"});
  Replace();
  WriteFile(Path("a/f"), "new");
  EXPECT_THAT(LogOfLookup(), testing::HasSubstr("leads to another directory"));
  EXPECT_EQ(LogOfLookup(), "");
  EXPECT_NE(A(), root);
  EXPECT_EQ(Read(root_, {Handle({"a", "f"}), {}}), "new");
  EXPECT_DAFS(kStale, Stat(root));
  EXPECT_DAFS(kStale, Lookup(root_, root, "f"));
  EXPECT_EQ(Read(root_, {file, {}}), "old");  // as of a file that was moved out of an export
}

TEST_F(StoreReplacedExportTest, IsFoundWithoutALookupOfThePath) {
  Start();
  const wire::FileHandle root = A();
  store_->directories().FollowPaths();
  EXPECT_OK(Stat(root));
  Replace();
  EXPECT_OK(Stat(root));
  const std::string log = Logged([this] {
    store_->directories().FollowPaths();
    store_->directories().FollowPaths();
  });
  EXPECT_THAT(log, testing::HasSubstr("leads to another directory"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_DAFS(kStale, Stat(root));
}

TEST_F(StoreReplacedExportTest, DirectoryThatReturnsHasItsHandleAgain) {
  Start();
  const wire::FileHandle root = A();
  Replace();
  store_->directories().FollowPaths();
  EXPECT_DAFS(kStale, Stat(root));
  std::filesystem::remove_all(Path("a"));
  std::filesystem::rename(Path("old"), Path("a"));
  EXPECT_EQ(A(), root);
  EXPECT_OK(Stat(root));
}

TEST_F(StoreReplacedExportTest, OpenFileOfTheRemovedDirectoryStaysUsable) {
  Start();
  auto open = MustOpen(root_, CreateArgs(A(), "f"));
  std::filesystem::remove_all(Path("a"));
  mkdir(Path("a").c_str(), 0777);
  store_->directories().FollowPaths();
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), "f"));
  EXPECT_EQ(Read(root_, {open.filehandle, open.state_id}), "");
  // Files that are removed while open are kept in the new directory.
  MustOpen(user_, CreateArgs(A(), "g"));
  EXPECT_OK(Remove(user_, A(), "g"));
  EXPECT_NE(FilesIn(Path("a/.dafsd-orphans")), 0u);
}

TEST_F(StoreReplacedExportTest, StateDirectoryBelowTheNewDirectoryRefusesIt) {
  Start();
  const wire::FileHandle root = A();
  std::filesystem::rename(Path("a"), Path("old"));
  std::filesystem::create_directory_symlink(base_, Path("a"));
  const auto look_up = [this] { EXPECT_DAFS(kAcces, Lookup(root_, Handle({}), "a")); };
  EXPECT_THAT(Logged(look_up), testing::AllOf(testing::HasSubstr("cannot be served"),
                                              testing::HasSubstr("clients of export /a can reach"),
                                              testing::HasSubstr("--state-dir")));
  EXPECT_EQ(Logged(look_up), "");
  EXPECT_OK(Stat(root));
  std::filesystem::remove(Path("a"));
  mkdir(Path("a").c_str(), 0777);
  EXPECT_OK(Lookup(root_, Handle({}), "a"));
  EXPECT_DAFS(kStale, Stat(root));
}

// Otherwise a user who may replace the directory could export any other.
TEST_F(StoreReplacedExportTest, SymbolicLinkIsNotFollowedToAnotherDirectory) {
  Start();
  std::filesystem::rename(Path("a"), Path("old"));
  std::filesystem::create_directory_symlink(Path("b"), Path("a"));
  const auto look_up = [this] { EXPECT_DAFS(kAcces, Lookup(root_, Handle({}), "a")); };
  EXPECT_THAT(Logged(look_up), testing::AllOf(testing::HasSubstr("a symbolic link now leads to"),
                                              testing::HasSubstr("restart dafsd")));
  EXPECT_EQ(Logged(look_up), "");
  std::filesystem::remove(Path("a"));
  std::filesystem::create_directory_symlink(Path("old"), Path("a"));
  EXPECT_OK(Lookup(root_, Handle({}), "a"));  // the directory that is served already
}

TEST_F(StoreMountsTest, MountOnTheExportIsServedUntilItIsUnmounted) {
  WriteFile(Path("a/f"), "below");
  Start();
  const wire::FileHandle root = A();
  const wire::FileHandle below = Handle({"a", "f"});
  Store::RestoreServerIdentity();
  ASSERT_TRUE(MountTmpfs("a"));
  WriteFile(Path("a/f"), "above");
  EXPECT_EQ(Read(root_, {Handle({"a", "f"}), {}}), "above");
  EXPECT_EQ(Read(root_, {below, {}}), "below");
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale,
              store_->attributes().Getattr(root_, root, wire::kFattrObjectSize, &attributes));
  Store::RestoreServerIdentity();
  umount2(Path("a").c_str(), MNT_DETACH);
  EXPECT_EQ(A(), root);
  EXPECT_EQ(Read(root_, {Handle({"a", "f"}), {}}), "below");
}

// The handles are the same as before, and the descriptors of the former mount are not used.
TEST_F(StoreMountsTest, FileSystemMountedAgainIsServed) {
  exports_ = {Named("/m", "a/m")};
  WriteFile(Path("a/m/f"), "f");
  Start();
  const wire::FileHandle file = Handle({"m", "f"});
  Store::RestoreServerIdentity();
  mkdir(Path("o").c_str(), 0777);
  ASSERT_EQ(mount(Path("a/m").c_str(), Path("o").c_str(), nullptr, MS_BIND, nullptr), 0);
  umount2(Path("a/m").c_str(), MNT_DETACH);
  ASSERT_EQ(mount(Path("o").c_str(), Path("a/m").c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(mount("none", Path("a/m").c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  store_->directories().FollowPaths();
  EXPECT_EQ(Handle({"m", "f"}), file);
  EXPECT_DAFS(kRofs, Remove(root_, Handle({"m"}), "f"));
  Store::RestoreServerIdentity();
}

// An export that is late, without a file system that hangs: its journals take long.
class StoreLateExportTest : public StoreTest {
 protected:
  static constexpr size_t kLate = 1;
  void TearDown() override {
    if (!settled_.HasBeenNotified()) settled_.Notify();
    StoreTest::TearDown();
  }
  void Begin() {
    StoreOptions options = Options();
    options.keep_orphans = true;
    store_.reset();
    Store::RestoreServerIdentity();
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    const auto settle = [this](size_t index) {
      if (index == kLate) settled_.WaitForNotification();
    };
    ASSERT_TRUE(store_->directories().OpenAll(settle, absl::Milliseconds(100)).ok());
  }
  void Settle() {
    settled_.Notify();
    ASSERT_TRUE(store_->directories().AwaitOpened(absl::InfiniteFuture()));
  }
  void LeaveOrphan(const wire::FileHandle& directory) {
    MustOpen(user_, CreateArgs(directory, "f"));
    ASSERT_OK(Remove(user_, directory, "f"));
  }
  bool HasOrphans(const std::string& dir) { return FilesIn(Path(dir + "/.dafsd-orphans")) != 0; }

  absl::Notification settled_;
};

TEST_F(StoreLateExportTest, NoRequestReachesItBeforeItsJournalsAreSettled) {
  Start();
  const wire::FileHandle b = Handle({"deep", "b"});
  Begin();
  wire::FileAttributes attributes;
  EXPECT_DAFS(kDelay, store_->attributes().Getattr(root_, b, wire::kFattrObjectSize, &attributes));
  EXPECT_DAFS(kDelay, Lookup(root_, Handle({"deep"}), "b"));
  EXPECT_OK(Lookup(root_, Handle({}), "a"));
  Settle();
  EXPECT_OK(store_->attributes().Getattr(root_, b, wire::kFattrObjectSize, &attributes));
  EXPECT_EQ(Handle({"deep", "b"}), b);
}

// It would get threads of its own, and no delegations, until the server's next start.
TEST_F(StoreLateExportTest, SlowExportIsNotMarkedAsHanging) {
  Start();
  const wire::FsHandle b = Handle({"deep", "b"}).fshandle;
  Begin();
  Settle();
  EXPECT_FALSE(store_->export_threads().ExportThatMayHang(b).has_value());
}

TEST_F(StoreLateExportTest, OrphansAreKeptUntilItsGracePeriodEnds) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  LeaveOrphan(A());
  LeaveOrphan(Handle({"deep", "b"}));
  Begin();
  Holdings held{};
  held.lost_opens = 2;
  Grace::Owed owed;
  owed.expected = {{"client", &held}};
  const absl::Time now = absl::Now();
  store_->grace().Start(std::move(owed), now, {kLate});
  store_->EndGrace(now);
  EXPECT_FALSE(HasOrphans("a"));
  EXPECT_TRUE(HasOrphans("b"));
  Settle();
  store_->grace().Arrived(kLate, {}, now + absl::Hours(1));
  store_->EndGrace(now + absl::Minutes(59));
  EXPECT_TRUE(HasOrphans("b"));
  store_->EndGrace(now + absl::Hours(1));
  EXPECT_FALSE(HasOrphans("b"));
}

TEST_F(StoreLateExportTest, RemovedOpenFileIsReclaimedByHandleAfterItAnswers) {
  StoreOptions options = Options();
  options.keep_orphans = true;
  Start(options);
  const wire::FileHandle b = Handle({"deep", "b"});
  const Opened f = MustOpen(user_, CreateArgs(b, "f"));
  ASSERT_OK(Write(user_, f, 0, "data", wire::StableHow::kUnstable));
  ASSERT_OK(Remove(user_, b, "f"));
  Begin();
  Holdings held = {};
  held.lost_opens = 1;
  user_.client_name = "client";
  user_.holdings = &held;
  Grace::Owed owed;
  owed.expected = {{"client", &held}};
  const absl::Time now = absl::Now();
  store_->grace().Start(std::move(owed), now, {kLate});
  store_->EndGrace(now);
  wire::OpenArgs args = OpenArgs(b, "");
  args.pathname.clear();
  args.claim_type = wire::OpenClaimType::kPrevious;
  args.claim_handle() = f.filehandle;
  wire::OpenRes res;
  EXPECT_DAFS(kDelay, store_->opens().Open(user_, args, &res));
  Settle();
  store_->grace().Arrived(kLate, {}, now + absl::Hours(1));
  const Opened again = MustOpen(user_, args);
  store_->EndGrace(now + absl::Hours(2));
  EXPECT_EQ(Read(user_, again), "data");
  ASSERT_OK(Close(user_, again));
  EXPECT_FALSE(HasOrphans("b"));
}

class StoreHungExportTest : public StoreHungMountTest {
 protected:
  void SetUp() override {
    StoreHungMountTest::SetUp();
    if (IsSkipped()) return;
    // A handle of an export that the store does not know yet.
    exports_ = {Named("/gone", "b")};
    Start();
    of_unknown_ = Handle({"gone"});
    exports_ = {Named("/n", "a/n"), Named("/hung", "a/hung")};
    exports_[1].lasting_handles = true;
  }
  void Begin() {
    store_.reset();
    Store::RestoreServerIdentity();
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Create(Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    const auto settle = [this](size_t index) {
      absl::MutexLock lock(&mutex_);
      settled_.push_back(index);
    };
    const absl::Status status = store_->directories().OpenAll(settle, absl::Milliseconds(200));
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<size_t> settled() {
    absl::MutexLock lock(&mutex_);
    return settled_;
  }

  wire::FileHandle of_unknown_;
  absl::Mutex mutex_;
  std::vector<size_t> settled_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(StoreHungExportTest, IsDelayedWhileOtherExportsAreServed) {
  ASSERT_TRUE(Answers([this] {
    Begin();
    EXPECT_EQ(Read(root_, {Handle({"n", "f"}), {}}), "in n");
    EXPECT_EQ(settled(), std::vector<size_t>{0});
    EXPECT_EQ(store_->directories().Opening(), std::vector<size_t>{1});
    EXPECT_FALSE(store_->directories().AwaitOpened(absl::Now()));
    const wire::FileHandle root = Handle({});
    EXPECT_DAFS(kDelay, Lookup(root_, root, "hung"));
    wire::FileAttributes attributes;
    EXPECT_DAFS(kDelay, store_->attributes().Getattr(root_, of_unknown_, wire::kFattrObjectSize,
                                                     &attributes));
    wire::FileHandle forged = of_unknown_;
    forged.fileid.bytes.back() ^= 1;
    EXPECT_DAFS(kBadHandle,
                store_->attributes().Getattr(root_, forged, wire::kFattrObjectSize, &attributes));
    EXPECT_EQ(Names(root_, root), (std::vector<std::string>{"hung", "n"}));
    EXPECT_TRUE(store_->export_threads()
                    .ExportThatMayHang(root, std::vector<std::string>{"hung"})
                    .has_value());
    store_->directories().FollowPaths();
  }));
}

// Its journals would otherwise stay unsettled forever.
TEST_F(StoreHungExportTest, IsSettledOnceAfterAReloadRemovedItAndAnotherAddsIt) {
  ASSERT_TRUE(Answers([this] {
    Begin();
    EndHang();  // its directory cannot be served, and is tried again
    ASSERT_TRUE(store_->reload().Reload({exports_[0]}, absl::Seconds(60)).ok());
    EXPECT_EQ(settled(), std::vector<size_t>{0});
    Store::RestoreServerIdentity();
    umount2(Path("a/hung").c_str(), MNT_DETACH);
    for (int i = 0; i < 2; ++i) {
      const auto added = store_->reload().Reload(exports_, absl::Seconds(60));
      ASSERT_TRUE(added.ok()) << added.status();
      EXPECT_EQ(settled(), (std::vector<size_t>{0, 1}));
      EXPECT_OK(Lookup(root_, Handle({}), "hung"));
      ASSERT_TRUE(store_->reload().Reload({exports_[0]}, absl::Seconds(60)).ok());
    }
  }));
}

// Each attempt must not leave another thread.
TEST_F(StoreHungExportTest, ReloadsThatWantItUseOneThread) {
  ASSERT_TRUE(Answers([this] {
    Export hung = exports_[1];
    exports_.pop_back();
    Start();
    const size_t before = FilesIn("/proc/self/task");
    for (int i = 0; i < 5; ++i) {
      const auto failed = store_->reload().Reload({exports_[0], hung}, absl::Milliseconds(20));
      EXPECT_EQ(failed.status().code(), absl::StatusCode::kDeadlineExceeded);
    }
    EXPECT_LE(FilesIn("/proc/self/task"), before + 1);
    EndHang();
    ASSERT_TRUE(store_->directories().AwaitOpened(absl::Now() + absl::Seconds(30)));
  }));
}

TEST_F(StoreHungExportTest, RefusalAfterTheStartDelaysRequestsUntilTheExportCanBeServed) {
  ASSERT_TRUE(Answers([this] {
    Begin();
    EndHang();
    EXPECT_FALSE(store_->directories().AwaitOpened(absl::Now() + absl::Milliseconds(200)));
    EXPECT_EQ(settled(), std::vector<size_t>{0});
    EXPECT_DAFS(kDelay, Lookup(root_, Handle({}), "hung"));
    wire::FileAttributes attributes;
    EXPECT_DAFS(kDelay, store_->attributes().Getattr(root_, of_unknown_, wire::kFattrObjectSize,
                                                     &attributes));
    EXPECT_EQ(Read(root_, {Handle({"n", "f"}), {}}), "in n");
    Store::RestoreServerIdentity();
    umount2(Path("a/hung").c_str(), MNT_DETACH);
    ASSERT_TRUE(store_->directories().AwaitOpened(absl::Now() + absl::Seconds(30)));
    EXPECT_EQ(settled(), (std::vector<size_t>{0, 1}));
    EXPECT_OK(Lookup(root_, Handle({}), "hung"));
  }));
}

}  // namespace
}  // namespace dafs::server
