// READ, WRITE, APPEND, COMMIT.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/server/mounts_differ.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::StableHow;

class StoreDataTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  DafsStatus Append(const Caller& caller, const Opened& f, std::vector<std::string> parts,
                    AppendResult* res, StableHow stable = StableHow::kDataSync) {
    std::vector<iovec> vecs;
    for (std::string& part : parts) vecs.push_back({part.data(), part.size()});
    return store_->data().Append(caller, f.filehandle, f.state_id, vecs, stable, res);
  }
  DafsStatus Commit(const wire::FileHandle& handle, wire::CommitRes* res) {
    wire::CommitArgs args;
    args.filehandle = handle;
    return store_->data().Commit(user_, args, res);
  }
};

// Shows DAFS-6.5.27-01, DAFS-6.5.27-02, DAFS-6.5.27-03 (as R85 words it)
TEST_F(StoreDataTest, ReadReportsEndOfFileExactly) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ReadResult result;
  EXPECT_EQ(Read(user_, f, 0, 10, &result), "");
  EXPECT_TRUE(result.eof);
  EXPECT_EQ(Read(user_, f, 0, 0, &result), "");
  EXPECT_TRUE(result.eof);
  ASSERT_OK(Write(user_, f, 0, "0123456789"));
  EXPECT_EQ(Read(user_, f, 2, 3, &result), "234");
  EXPECT_FALSE(result.eof);
  EXPECT_EQ(Read(user_, f, 0, 10, &result), "0123456789");
  EXPECT_TRUE(result.eof);
  EXPECT_EQ(Read(user_, f, 8, 100, &result), "89");
  EXPECT_TRUE(result.eof);
  EXPECT_EQ(Read(user_, f, 0, 0, &result), "");
  EXPECT_FALSE(result.eof);
  EXPECT_EQ(Read(user_, f, 10, 0, &result), "");
  EXPECT_TRUE(result.eof);
  for (const uint64_t far : {uint64_t{11}, uint64_t{INT64_MAX}, UINT64_MAX}) {
    EXPECT_EQ(Read(user_, f, far, 10, &result), "") << far;
    EXPECT_TRUE(result.eof) << far;
  }
}

TEST_F(StoreDataTest, NonblockingReadReturnsOnlyCachedData) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, std::string(100000, 'x'), StableHow::kFileSync));
  std::string into(200000, '\0');
  const auto bytes = std::as_writable_bytes(std::span(into));
  ReadResult r = store_->data().Read(user_, f.filehandle, f.state_id, 0, bytes, ReadMode::kNoWait);
  EXPECT_EQ(r.status, DafsStatus::kOk);
  if (!r.would_block) {
    EXPECT_EQ(r.bytes_read, 100000u);
    EXPECT_TRUE(r.eof);
  }
  Store::RestoreServerIdentity();
  const int fd = open(Path("a/f").c_str(), O_RDONLY);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  r = store_->data().Read(user_, f.filehandle, f.state_id, 0, bytes, ReadMode::kNoWait);
  EXPECT_TRUE(r.would_block);
  r = store_->data().Read(user_, f.filehandle, f.state_id, 0, bytes, ReadMode::kWait);
  EXPECT_FALSE(r.would_block);
  EXPECT_EQ(r.bytes_read, 100000u);
  r = store_->data().Read(user_, f.filehandle, f.state_id, 0, bytes, ReadMode::kNoWait);
  EXPECT_EQ(r.bytes_read, 100000u);
}

TEST_F(StoreDataTest, BufferListIsTransferredAsOneByteString) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  std::string x = "abc", y, z = "defgh";
  const iovec from[] = {{x.data(), 3}, {y.data(), 0}, {z.data(), 5}};
  WriteResult written;
  ASSERT_OK(store_->data().Write(user_, f.filehandle, f.state_id, 4, from, StableHow::kUnstable,
                                 &written));
  EXPECT_EQ(written.count, 8u);
  EXPECT_EQ(Read(user_, f), std::string(4, '\0') + "abcdefgh");
  char p[5], q[100];
  const iovec into[] = {{p, 5}, {q, 100}};
  const ReadResult r =
      store_->data().Readv(user_, f.filehandle, f.state_id, 4, into, ReadMode::kWait);
  EXPECT_EQ(r.bytes_read, 8u);
  EXPECT_EQ(std::string(p, 5) + std::string(q, 3), "abcdefgh");
}

// Shows DAFS-6.5.38-07, DAFS-6.5.38-09
TEST_F(StoreDataTest, WritesReachRequestedStability) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  WriteResult res;
  for (StableHow how : {StableHow::kUnstable, StableHow::kDataSync, StableHow::kFileSync}) {
    ASSERT_OK(Write(user_, f, 0, "xyz", how, &res));
    EXPECT_EQ(res.committed, how);
    EXPECT_EQ(res.count, 3u);
    EXPECT_EQ(res.verifier, CommitVerifier(f));
  }
  const wire::FileAttributes before = Attributes(f.filehandle);
  ASSERT_OK(Write(user_, f, 100, "", StableHow::kUnstable, &res));
  EXPECT_EQ(res.count, 0u);
  EXPECT_EQ(Attributes(f.filehandle), before);
}

// Shows DAFS-6.5.38-15, DAFS-6.1.6-14
TEST_F(StoreDataTest, OversizedTransferIsRefusedEntirely) {
  StoreOptions options = Options();
  options.max_write = 1000;
  options.max_append = 65536;
  Start(options);
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  EXPECT_DAFS(kWriteTooBig, Write(user_, f, 0, std::string(1001, 'x')));
  EXPECT_OK(Write(user_, f, 0, std::string(1000, 'x')));
  AppendResult res;
  EXPECT_DAFS(kWriteTooBig, Append(user_, f, {std::string(65537, 'x')}, &res));
  EXPECT_EQ(Attributes(f.filehandle).object_size, 1000u);
  EXPECT_DAFS(kFbig, Write(user_, f, UINT64_MAX, "x"));
  EXPECT_DAFS(kFbig, Write(user_, f, INT64_MAX, "x"));
}

TEST_F(StoreDataTest, DataAccessNeedsRightFromOpenOrKernel) {
  Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  ASSERT_OK(Write(user_, f, 0, "x"));
  ASSERT_OK(Close(user_, f));
  f = MustOpen(user_, OpenArgs(A(), "f", wire::kShareRead));
  EXPECT_DAFS(kAcces, Write(user_, f, 0, "y"));
  AppendResult res;
  EXPECT_DAFS(kAcces, Append(user_, f, {"y"}, &res));
  // State id 0 (R64): the kernel decides for the caller of each request.
  const Opened none = {f.filehandle, {}};
  EXPECT_OK(Write(user_, none, 0, "z"));
  EXPECT_EQ(Read(user_, none), "z");
  EXPECT_DAFS(kAcces, Write(other_, none, 0, "y"));
  EXPECT_EQ(Read(other_, none), "DAFSERR_ACCES");
  EXPECT_EQ(Read(user_, {A(), {}}), "DAFSERR_INVAL");
  // A change of the mode does not revoke the access of an OPEN, as with a file descriptor.
  Store::RestoreServerIdentity();
  chmod(Path("a/f").c_str(), 0);
  EXPECT_EQ(Read(user_, f), "z");
  EXPECT_EQ(Read(user_, none), "DAFSERR_ACCES");
}

// Shows DAFS-6.5.38-01
TEST_F(StoreDataTest, WriteOfNoBytesIsCheckedAndChangesNothing) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  ASSERT_OK(Write(user_, f, 0, "data"));
  const wire::FileAttributes before = Attributes(f.filehandle);
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareRead);
  args.owner = "reader";
  const Opened reader = MustOpen(user_, args);
  WriteResult res;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{100}}) {
    for (const StableHow how : {StableHow::kUnstable, StableHow::kFileSync}) {
      res.count = 7;
      EXPECT_OK(Write(user_, f, offset, "", how, &res));
      EXPECT_EQ(res.count, 0u);
    }
    EXPECT_OK(Write(user_, {f.filehandle, {}}, offset, ""));
    EXPECT_DAFS(kAcces, Write(user_, reader, offset, ""));
    EXPECT_DAFS(kAcces, Write(other_, {f.filehandle, {}}, offset, ""));
    EXPECT_DAFS(kBadStateId, Write(other_, f, offset, ""));
  }
  EXPECT_EQ(Attributes(f.filehandle), before);
}

// Shows DAFS-6.5.3-01: clients append, one writes at growing offsets, and a program on the server
// appends, all at once. None of the data is overwritten.
TEST_F(StoreDataTest, ConcurrentAppendsAreAtomic) {
  constexpr size_t kThreads = 3, kEach = 300, kRecord = 64, kWrites = 20;
  constexpr uint64_t kApart = uint64_t{1} << 20;  // more than all appended data
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0666));
  std::vector<uint64_t> offsets[kThreads];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string half(kRecord / 2, static_cast<char>('a' + i));
      for (size_t n = 0; n < kEach; ++n) {
        AppendResult res;
        EXPECT_OK(Append(user_, f, {half, half}, &res));
        offsets[i].push_back(res.offset);
      }
      Store::RestoreServerIdentity();
    });
  }
  threads.emplace_back([&] {
    for (uint64_t n = 1; n <= kWrites; ++n) {
      EXPECT_OK(Write(user_, f, n * kApart, std::string(kRecord, 'w')));
      std::this_thread::yield();
    }
    Store::RestoreServerIdentity();
  });
  threads.emplace_back([&] {
    const int fd = open(Path("a/f").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    const std::string record(kRecord, 'p');
    for (size_t n = 0; n < kEach; ++n) {
      EXPECT_EQ(write(fd, record.data(), kRecord), static_cast<ssize_t>(kRecord));
    }
    close(fd);
  });
  for (std::thread& thread : threads) thread.join();
  const std::string all = FileContent(Path("a/f"));
  for (size_t i = 0; i < kThreads; ++i) {
    for (const uint64_t offset : offsets[i]) {
      EXPECT_EQ(all.substr(offset, kRecord), std::string(kRecord, static_cast<char>('a' + i)));
    }
  }
  const auto zeros = static_cast<size_t>(std::count(all.begin(), all.end(), '\0'));
  EXPECT_EQ(all.size() - zeros, ((kThreads + 1) * kEach + kWrites) * kRecord);
}

TEST_F(StoreDataTest, WriteClearsSetIdBits) {
  const Opened f = MustOpen(root_, CreateArgs(A(), "f", 06777));
  Opened mine = MustOpen(user_, OpenArgs(A(), "f"));
  ASSERT_OK(Write(root_, f, 0, "x"));
  EXPECT_EQ(Attributes(f.filehandle).mode, 06777u);  // root may keep them
  ASSERT_OK(Write(user_, mine, 0, "x"));
  EXPECT_EQ(Attributes(f.filehandle).mode, 0777u);
}

// Shows DAFS-6.5.3-04
TEST_F(StoreDataTest, AppendWritesAtEndOfFile) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "12345"));
  AppendResult res;
  ASSERT_OK(Append(user_, f, {"abc", "", "de"}, &res));
  EXPECT_EQ(res.offset, 5u);
  EXPECT_EQ(res.committed, StableHow::kDataSync);
  EXPECT_EQ(res.verifier, CommitVerifier(f));
  ASSERT_OK(Append(user_, f, {"!"}, &res, StableHow::kFileSync));
  EXPECT_EQ(res.offset, 10u);
  EXPECT_EQ(res.committed, StableHow::kFileSync);
  ASSERT_OK(Append(user_, f, {""}, &res));
  EXPECT_EQ(res.offset, 11u);
  EXPECT_EQ(Read(user_, f), "12345abcde!");
  EXPECT_DAFS(kInval, Append(user_, f, {"x"}, &res, StableHow::kUnstable));
}

// Shows DAFS-6.5.3-02: if only a part fits, nothing is appended.
TEST_F(StoreDataTest, FailedAppendRestoresSize) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, std::string(1000, 'x')));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit = {5000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  AppendResult res;
  EXPECT_DAFS(kFbig, Append(user_, f, {std::string(8000, 'y')}, &res));
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(Attributes(f.filehandle).object_size, 1000u);
  ASSERT_OK(Append(user_, f, {"z"}, &res));
  EXPECT_EQ(res.offset, 1000u);
}

// Shows DAFS-6.5.38-02, DAFS-6.5.38-03: a write stores the part that fits.
TEST_F(StoreDataTest, PartialWriteReportsItsLength) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit = {5000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  WriteResult res;
  EXPECT_OK(Write(user_, f, 1000, std::string(8000, 'y'), StableHow::kUnstable, &res));
  EXPECT_EQ(res.count, 4000u);
  EXPECT_DAFS(kFbig, Write(user_, f, 5000, std::string(4000, 'y'), StableHow::kUnstable, &res));
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(Read(user_, f, 0, 10000), std::string(1000, '\0') + std::string(4000, 'y'));
}

// Shows DAFS-6.5.8-03, DAFS-6.5.8-04, DAFS-6.5.8-05, DAFS-6.5.38-08
TEST_F(StoreDataTest, CommitReturnsVerifierThatChangesWhenDataMayBeLost) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  WriteResult written;
  ASSERT_OK(Write(user_, f, 0, "x", StableHow::kUnstable, &written));
  wire::CommitRes res;
  ASSERT_OK(Commit(f.filehandle, &res));
  EXPECT_EQ(res.writeverf, written.verifier);
  ASSERT_OK(Commit(f.filehandle, &res));  // nothing to flush
  EXPECT_DAFS(kIsDir, Commit(A(), &res));
  Start();  // the page cache outlives the process
  ASSERT_OK(Commit(f.filehandle, &res));
  EXPECT_EQ(res.writeverf == written.verifier, MountsDiffer());
  store_.reset();
  std::filesystem::remove(Path("state/write-verifier"));  // the file of this start of the machine
  Start();
  ASSERT_OK(Commit(f.filehandle, &res));
  EXPECT_NE(res.writeverf, written.verifier);
}

// After a crash of the machine the latest ctime may be lost although the data is not.
TEST_F(StoreDataTest, ChangeDiffersAfterTimesMayHaveBeenLost) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "x", StableHow::kUnstable));
  const auto change = [&] {
    wire::FileAttributes attributes;
    EXPECT_OK(store_->attributes().Getattr(user_, f.filehandle, wire::kFattrChange, &attributes));
    return attributes.change;
  };
  const uint64_t before = change();
  Start();  // only the server restarts: nothing is lost
  EXPECT_EQ(change(), before);
  store_.reset();
  std::filesystem::remove(Path("state/write-verifier"));  // the file of this start of the machine
  Start();
  EXPECT_NE(change(), before);
}

// Clients commit files after they have closed them, thousands in a row.
TEST_F(StoreDataTest, CommitOfClosedFileKeepsNoDescriptor) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "x", StableHow::kUnstable));
  ASSERT_OK(Close(user_, f));
  wire::CommitRes res;
  const size_t before = store_->inventory().descriptor_count();
  ASSERT_OK(Commit(f.filehandle, &res));
  EXPECT_EQ(store_->inventory().descriptor_count(), before);
}

// Shows DAFS-6.1.5-10: every change of a file changes the attribute, even in quick succession.
TEST_F(StoreDataTest, ChangeDiffersAfterEveryWrite) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  uint64_t last = Attributes(f.filehandle, wire::kFattrChange).change;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_OK(Write(user_, f, 0, "x"));
    const uint64_t now = Attributes(f.filehandle, wire::kFattrChange).change;
    ASSERT_GT(now, last) << i;
    EXPECT_EQ(Attributes(f.filehandle, wire::kFattrChange).change, now);
    last = now;
  }
}

}  // namespace
}  // namespace dafs::server
