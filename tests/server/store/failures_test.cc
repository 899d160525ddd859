// Failures, arguments and results of system calls. This program replaces the calls in question.
// Spec: 6.5.8, 6.5.13, 6.5.15, 6.5.29, 6.5.38.
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/durable/journal.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/procedures/shared/restart_check.h"
#include "server/store/system/mapped_file.h"
#include "tests/server/store/store_fixture.h"

namespace {

// These control the calls below. They publish nothing else.
std::atomic<bool> no_xattrs{false};
std::atomic<bool> no_usage{false};
std::atomic<bool> no_new_xattrs{false};
std::atomic<int> whole_syncs{0};
std::atomic<ino_t> synced_file{0};  // of the last fsync
std::atomic<int> write_calls{0};    // of pwritev2
std::atomic<int> write_flags{0};    // of the last pwritev2
std::atomic<ssize_t> written{0};    // by the last pwritev2
std::atomic<int> write_error{0};    // of pwritev2, unless 0
std::atomic<int> sync_error{0};     // of fsync, unless 0
std::atomic<int> failing_names{0};  // calls of name_to_handle_at that fail yet
std::atomic<int> name_error{EIO};   // with this error
std::atomic<int> failing_stats{0};  // calls of statx that fail yet

}  // namespace

extern "C" {

ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  if (no_xattrs) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_getxattr, path, name, value, size);
}

int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) noexcept {
  errno = EOPNOTSUPP;
  if (no_new_xattrs) return -1;
  return static_cast<int>(syscall(SYS_fsetxattr, fd, name, value, size, flags));
}

int fstatvfs(int, struct statvfs* usage) noexcept {
  *usage = {};
  usage->f_bsize = 8192;
  usage->f_frsize = 1024;
  usage->f_blocks = 100;
  usage->f_bfree = 60;
  usage->f_bavail = 50;
  usage->f_files = 40;
  usage->f_ffree = 30;
  usage->f_favail = 20;
  if (!no_usage) return 0;
  errno = EIO;
  return -1;
}

int fsync(int fd) {
  ++whole_syncs;
  struct stat st = {};
  fstat(fd, &st);
  synced_file = st.st_ino;
  errno = sync_error;
  if (sync_error != 0) return -1;
  return static_cast<int>(syscall(SYS_fsync, fd));
}

int name_to_handle_at(int directory, const char* name, file_handle* handle, int* mount,
                      int flags) noexcept {
  errno = name_error;
  if (failing_names.fetch_sub(1) > 0) return -1;
  failing_names = 0;
  return static_cast<int>(syscall(SYS_name_to_handle_at, directory, name, handle, mount, flags));
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* stx) noexcept {
  errno = EIO;
  if (failing_stats.fetch_sub(1) > 0) return -1;
  failing_stats = 0;
  return static_cast<int>(syscall(SYS_statx, directory, path, flags, mask, stx));
}

ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) {
  errno = write_error;
  if (write_error != 0) return -1;
  ++write_calls;
  write_flags = flags;
  written = syscall(SYS_pwritev2, fd, from, count, offset, 0, flags);
  return written;
}

}  // extern "C"

namespace dafs::server {
namespace {

class StoreFailuresTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  void TearDown() override {
    no_xattrs = no_usage = no_new_xattrs = false;
    write_error = sync_error = failing_names = 0;
    failing_stats = 0;
    name_error = EIO;
    StoreTest::TearDown();
  }

  wire::Verifier CommitVerifier(const Opened& f) {
    wire::CommitArgs args;
    args.filehandle = f.filehandle;
    wire::CommitRes res;
    EXPECT_OK(store_->data().Commit(root_, args, &res));
    return res.writeverf;
  }

  bool Recheck(wire::Proc procedure, const Intent& intent, Result* result) {
    return store_->restart_check().Recheck(procedure, intent, absl::InfiniteFuture(), result);
  }
};

// Shows DAFS-6.5.13-02
TEST_F(StoreFailuresTest, UnreadableAttributeFailsGetattr) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  no_xattrs = true;
  wire::FileAttributes attributes;
  EXPECT_DAFS(kIo, store_->attributes().Getattr(root_, f.filehandle,
                                                wire::kFattrAcl | wire::kFattrMode, &attributes));
  EXPECT_OK(store_->attributes().Getattr(root_, f.filehandle, wire::kFattrMode, &attributes));
  // A listing omits the attribute: R36 permits this for any attribute that may fail.
  ReaddirRequest request;
  request.filehandle = A();
  request.attr_request_bitmap = wire::kFattrAcl | wire::kFattrMode;
  int entries = 0;
  ReaddirResult res;
  auto sink = [&](uint64_t, std::string_view, wire::FileAttributes& of_entry) {
    EXPECT_EQ(of_entry.included, request.attr_request_bitmap);
    EXPECT_EQ(of_entry.valid, 0u);
    ++entries;
    return true;
  };
  EXPECT_OK(store_->names().Readdir(root_, request, sink, &res));
  EXPECT_EQ(entries, 1);
}

// Shows DAFS-6.5.24-10: without a place for the verifier the file is not created.
TEST_F(StoreFailuresTest, ExclusiveCreateFailsIfVerifierCannotBeStored) {
  wire::OpenArgs args = OpenArgs(A(), "f");
  args.open_type = wire::OpenType::kCreate;
  args.createmode = wire::CreateMode::kExclusive;
  args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(7);
  no_new_xattrs = true;
  wire::OpenRes res;
  EXPECT_DAFS(kNotSupp, store_->opens().Open(root_, args, &res));
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), "f"));
  EXPECT_EQ(store_->inventory().open_count(), 0u);
  EXPECT_OK(Close(root_, MustOpen(root_, CreateArgs(A(), "f"))));
  no_new_xattrs = false;
  args.pathname = {"g"};
  EXPECT_OK(Close(root_, MustOpen(root_, args)));
}

// Shows DAFS-6.5.15-02
TEST_F(StoreFailuresTest, StatfsErrorFailsGetFsattr) {
  wire::FsAttributes attributes;
  EXPECT_OK(store_->attributes().GetFsattr(root_, A(), wire::kFsattrSpaceFree, &attributes));
  no_usage = true;
  EXPECT_DAFS(kIo, store_->attributes().GetFsattr(root_, A(), wire::kFsattrSpaceFree, &attributes));
}

// Shows DAFS-6.1.6-09: each count is that of statfs, in bytes or files.
TEST_F(StoreFailuresTest, GetFsattrReportsCountsOfStatfs) {
  wire::FsAttributes a;
  ASSERT_OK(store_->attributes().GetFsattr(root_, A(), wire::kFsattrAll, &a));
  EXPECT_EQ(a.space_total, 100u * 1024);
  EXPECT_EQ(a.space_free, 60u * 1024);
  EXPECT_EQ(a.space_available, 50u * 1024);
  EXPECT_EQ(a.files_total, 40u);
  EXPECT_EQ(a.files_free, 30u);
  EXPECT_EQ(a.files_available, 20u);
}

// Shows DAFS-6.5.8-01, DAFS-6.5.8-02: any range is committed by fsync(2) of the file, which
// includes its other data and the metadata.
TEST_F(StoreFailuresTest, CommitOfAnyRangeSyncsFile) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  const Opened other = MustOpen(root_, CreateArgs(A(), "other", 0644));
  struct Range {
    uint64_t offset;
    uint32_t count;
  };
  for (const Range& range : {Range{0, 0}, Range{2, 0}, Range{0, 2}, Range{1, 2}, Range{9, 1}}) {
    SCOPED_TRACE(range.offset);
    ASSERT_OK(Write(root_, f, 0, "data"));
    ASSERT_OK(Write(root_, other, 0, "data"));
    wire::CommitArgs commit;
    commit.filehandle = f.filehandle;
    commit.offset = range.offset;
    commit.count = range.count;
    wire::CommitRes res;
    const int before = whole_syncs;
    EXPECT_OK(store_->data().Commit(root_, commit, &res));
    EXPECT_EQ(whole_syncs, before + 1);
    EXPECT_EQ(synced_file, Stat(Path("a/f")).st_ino);
  }
}

// Shows DAFS-6.5.38-05, DAFS-6.5.38-06: a write with RWF_SYNC or RWF_DSYNC returns after the device
// has the data and the metadata, or the data and the metadata to retrieve it.
TEST_F(StoreFailuresTest, StableWriteIsOnDeviceBeforeItsResponse) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  const std::pair<wire::StableHow, int> cases[] = {{wire::StableHow::kUnstable, 0},
                                                   {wire::StableHow::kDataSync, RWF_DSYNC},
                                                   {wire::StableHow::kFileSync, RWF_SYNC}};
  for (const auto& [how, flags] : cases) {
    SCOPED_TRACE(flags);
    const int before = write_calls;
    WriteResult res;
    ASSERT_OK(Write(root_, f, 5, std::string(100000, 'x'), how, &res));
    EXPECT_EQ(write_calls, before + 1);
    EXPECT_EQ(write_flags, flags);
    EXPECT_EQ(written, 100000);
    EXPECT_EQ(res.count, 100000u);
    EXPECT_EQ(res.committed, how);
  }
}

// Shows DAFS-6.5.8-05: the error of a stable write may be caused by the loss of earlier data.
TEST_F(StoreFailuresTest, FailedStableWriteChangesVerifier) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    SCOPED_TRACE(error);
    write_error = 0;
    WriteResult written;
    ASSERT_OK(Write(root_, f, 0, "data", wire::StableHow::kUnstable, &written));
    write_error = error;
    EXPECT_NE(wire::Name(Write(root_, f, 4096, "more", wire::StableHow::kUnstable)),
              wire::Name(DafsStatus::kOk));
    EXPECT_EQ(CommitVerifier(f), written.verifier);
    EXPECT_NE(wire::Name(Write(root_, f, 4096, "more", wire::StableHow::kDataSync)),
              wire::Name(DafsStatus::kOk));
    EXPECT_NE(CommitVerifier(f), written.verifier);
  }
}

// Shows DAFS-6.5.8-05: the same for every sync of a file, because the kernel reports a loss only
// once.
TEST_F(StoreFailuresTest, FailedSyncOfSetattrChangesVerifier) {
  auto slots = MappedFile::Create(Path("state/slots"), 2 * JournalSlot::kBytes);
  ASSERT_TRUE(slots.ok()) << slots.status();
  auto* slot = reinterpret_cast<JournalSlot*>(slots->bytes().data());
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  WriteResult written;
  ASSERT_OK(Write(root_, f, 0, "data", wire::StableHow::kUnstable, &written));
  Operation operation(*slot, &*slots, &store_->write_verifiers(), 1, wire::Proc::kSetattrInline);
  Caller caller = root_;
  caller.operation = &operation;
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrMode);
  attributes.mode = 0600;
  uint64_t set = 0;
  sync_error = EIO;
  EXPECT_OK(store_->attributes().Setattr(caller, f.filehandle, f.state_id, attributes, &set));
  sync_error = 0;
  EXPECT_NE(CommitVerifier(f), written.verifier);
}

// Shows DAFS-6.5.8-05
TEST_F(StoreFailuresTest, FailedCommitOfNamedAttributeChangesVerifier) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  WriteResult written;
  ASSERT_OK(Write(root_, f, 0, "data", wire::StableHow::kUnstable, &written));
  wire::CommitArgs commit;
  ASSERT_OK(store_->names().Openattr(root_, f.filehandle, &commit.filehandle));
  wire::CommitRes unused;
  sync_error = EIO;
  EXPECT_DAFS(kIo, store_->data().Commit(root_, commit, &unused));
  sync_error = 0;
  EXPECT_NE(CommitVerifier(f), written.verifier);
}

// Shows DAFS-5.2.4-02: the server finds that the append was not executed, so the client repeats it.
TEST_F(StoreFailuresTest, UncertainAppendIsUndone) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  ASSERT_OK(Write(root_, f, 0, "0123456789"));
  Intent intent;
  intent.object = f.filehandle;
  intent.size = 4;
  intent.length = 6;
  Result result;
  EXPECT_TRUE(Recheck(wire::Proc::kAppendInline, intent, &result));
  sync_error = EIO;
  EXPECT_FALSE(Recheck(wire::Proc::kAppendInline, intent, &result));
  sync_error = 0;
  EXPECT_EQ(Read(root_, f), "0123");
}

// Shows DAFS-5.2.4-02: an error is not an outcome. With the first reads of the name failing, a
// removal that was not executed must not become one that was, nor the reverse.
TEST_F(StoreFailuresTest, OutcomeWaitsUntilNamesCanBeRead) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  Intent intent;
  intent.directory = A();
  intent.object = f.filehandle;
  absl::SNPrintF(intent.name, sizeof(intent.name), "f");
  Result result;
  failing_names = 3;
  EXPECT_FALSE(Recheck(wire::Proc::kRemove, intent, &result));
  failing_names = 3;
  EXPECT_TRUE(Recheck(wire::Proc::kLink, intent, &result));
  ASSERT_EQ(unlink(Path("a/f").c_str()), 0);
  failing_names = 3;
  EXPECT_TRUE(Recheck(wire::Proc::kRemove, intent, &result));
}

// A local program has written the file that a CREATE was about to finish. Its size cannot be read
// at first.
TEST_F(StoreFailuresTest, FileOfUnknownSizeIsNotRemovedAsUnfinished) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 0644));
  ASSERT_OK(Write(root_, f, 0, "local data"));
  Intent intent;
  intent.directory = A();
  intent.flags = Intent::kUnfinished;
  absl::SNPrintF(intent.name, sizeof(intent.name), "f");
  Result result;
  failing_stats = 2;
  EXPECT_FALSE(Recheck(wire::Proc::kCreate, intent, &result));
  EXPECT_EQ(failing_stats, 0);
  EXPECT_EQ(access(Path("a/f").c_str(), F_OK), 0);
}

// ceph-fuse 16 does so with hard links.
TEST_F(StoreFailuresTest, NameThatExistsAndIsNotFoundFailsInsteadOfDelayingForever) {
  MustOpen(root_, CreateArgs(A(), "f", 0644));
  name_error = ENOENT;
  failing_names = 1 << 30;
  wire::OpenRes opened;
  EXPECT_DAFS(kIo, store_->opens().Open(root_, CreateArgs(A(), "f", 0644), &opened));
  failing_names = 0;
  EXPECT_OK(store_->opens().Open(root_, CreateArgs(A(), "f", 0644), &opened));
}

TEST_F(StoreFailuresTest, RequestOfUnknownOutcomeWasNotExecuted) {
  Intent intent;
  intent.directory = A();
  intent.object = MustOpen(root_, CreateArgs(A(), "f", 0644)).filehandle;
  absl::SNPrintF(intent.name, sizeof(intent.name), "f");
  Result result;
  failing_names = 1 << 30;
  EXPECT_FALSE(store_->restart_check().Recheck(wire::Proc::kRemove, intent, absl::Now(), &result));
  failing_names = 0;
}

}  // namespace
}  // namespace dafs::server
