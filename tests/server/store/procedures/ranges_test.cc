// ALLOCATE, SEEK, COPY_RANGE, and the stability of APPEND.
#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::AllocateMode;
using wire::SeekWhat;

class StoreRangesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  DafsStatus Allocate(const Caller& caller, const Opened& f, AllocateMode mode, uint64_t offset,
                      uint64_t length) {
    wire::AllocateArgs args;
    args.filehandle = f.filehandle;
    args.state_id = f.state_id;
    args.mode = mode;
    args.offset = offset;
    args.length = length;
    return store_->data().Allocate(caller, args);
  }
  DafsStatus Seek(const Caller& caller, const Opened& f, SeekWhat what, uint64_t offset,
                  uint64_t* found) {
    wire::SeekArgs args;
    args.filehandle = f.filehandle;
    args.state_id = f.state_id;
    args.what = what;
    args.offset = offset;
    wire::SeekRes res;
    const DafsStatus status = store_->data().Seek(caller, args, &res);
    *found = res.offset;
    return status;
  }
  DafsStatus Copy(const Caller& caller, const Opened& from, uint64_t source_offset,
                  const Opened& to, uint64_t offset, uint64_t length, uint64_t* count) {
    wire::CopyRangeArgs args;
    args.source_filehandle = from.filehandle;
    args.source_state_id = from.state_id;
    args.source_offset = source_offset;
    args.filehandle = to.filehandle;
    args.state_id = to.state_id;
    args.offset = offset;
    args.length = length;
    wire::CopyRangeRes res;
    const DafsStatus status = store_->data().CopyRange(caller, args, &res);
    *count = res.count;
    return status;
  }
  // The same file without a state id.
  static Opened Stateless(const Opened& f) { return {f.filehandle, {}}; }
};

TEST_F(StoreRangesTest, AllocateGrowsFileOrKeepsItsSize) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  const uint64_t before = Attributes(f.filehandle).change;
  ASSERT_OK(Allocate(user_, f, AllocateMode::kAllocate, 100, 10000));
  EXPECT_EQ(Stat(Path("a/f")).st_size, 10100);
  EXPECT_GT(Stat(Path("a/f")).st_blocks, 0);
  EXPECT_NE(Attributes(f.filehandle).change, before);
  ASSERT_OK(Allocate(user_, f, AllocateMode::kAllocateKeepSize, 0, 1 << 20));
  EXPECT_EQ(Stat(Path("a/f")).st_size, 10100);
  EXPECT_GE(Stat(Path("a/f")).st_blocks, (1 << 20) / 512);
}

TEST_F(StoreRangesTest, PunchedHolesReadAsZerosAndAreFoundBySeek) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, std::string(16384, 'x')));
  ASSERT_OK(Allocate(user_, f, AllocateMode::kPunchHole, 4096, 4096));
  EXPECT_EQ(Read(user_, f, 4096, 4096), std::string(4096, '\0'));
  EXPECT_EQ(Stat(Path("a/f")).st_size, 16384);
  uint64_t found = 0;
  ASSERT_OK(Seek(user_, f, SeekWhat::kHole, 0, &found));
  EXPECT_EQ(found, 4096u);
  ASSERT_OK(Seek(user_, f, SeekWhat::kData, 5000, &found));
  EXPECT_EQ(found, 8192u);
  ASSERT_OK(Seek(user_, f, SeekWhat::kHole, 8192, &found));
  EXPECT_EQ(found, 16384u);
  EXPECT_DAFS(kNxio, Seek(user_, f, SeekWhat::kData, 16384, &found));
  EXPECT_DAFS(kNxio, Seek(user_, f, SeekWhat::kHole, UINT64_MAX, &found));
}

// SEEK moves the file position of the descriptor from which APPEND determines its offset.
TEST_F(StoreRangesTest, AppendReportsItsOffsetDuringConcurrentSeeks) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "x"));
  std::atomic<bool> ended = false;
  std::thread seeker([&] {
    uint64_t found = 0;
    while (!ended.load()) {
      EXPECT_EQ(Seek(user_, f, SeekWhat::kData, 0, &found), DafsStatus::kOk);
    }
  });
  std::string data = "0123456789";
  const iovec from = {data.data(), data.size()};
  for (uint64_t i = 0; i < 3000; ++i) {
    AppendResult res;
    const DafsStatus status = store_->data().Append(user_, f.filehandle, f.state_id, {&from, 1},
                                                    wire::StableHow::kDataSync, &res);
    EXPECT_EQ(status, DafsStatus::kOk);
    EXPECT_EQ(res.offset, 1 + 10 * i);
    if (HasFailure()) break;
  }
  ended.store(true);
  seeker.join();
}

TEST_F(StoreRangesTest, InvalidRangesAreRefused) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  EXPECT_DAFS(kInval, Allocate(user_, f, AllocateMode::kAllocate, 0, 0));
  EXPECT_DAFS(kFbig, Allocate(user_, f, AllocateMode::kAllocate, INT64_MAX, 1));
  EXPECT_DAFS(kFbig, Allocate(user_, f, AllocateMode::kAllocate, UINT64_MAX, UINT64_MAX));
  uint64_t count = 0;
  EXPECT_DAFS(kFbig, Copy(user_, f, 0, f, UINT64_MAX, 1, &count));
  EXPECT_DAFS(kInval, Copy(user_, f, UINT64_MAX, f, 0, 1, &count));
  ASSERT_OK(Write(user_, f, 0, "0123456789"));
  EXPECT_DAFS(kInval, Copy(user_, f, 0, f, 1, 5, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(Read(user_, f), "0123456789");
}

TEST_F(StoreRangesTest, CopyStopsAtEndOfSource) {
  const Opened from = MustOpen(user_, CreateArgs(A(), "from"));
  const Opened to = MustOpen(user_, CreateArgs(A(), "to"));
  ASSERT_OK(Write(user_, from, 0, "0123456789"));
  uint64_t count = 0;
  ASSERT_OK(Copy(user_, from, 3, to, 2, 100, &count));
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(Read(user_, to), std::string("\0\0", 2) + "3456789");
  ASSERT_OK(Copy(user_, from, 10, to, 0, 100, &count));
  EXPECT_EQ(count, 0u);
  // More than one part of a copy.
  ASSERT_EQ(truncate(Path("a/from").c_str(), 20 << 20), 0);
  ASSERT_OK(Copy(user_, from, 0, to, 0, 20 << 20, &count));
  EXPECT_EQ(count, 20u << 20);
  EXPECT_EQ(Stat(Path("a/to")).st_size, 20 << 20);
}

TEST_F(StoreRangesTest, OpenOrKernelDecidesRights) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  const Opened reader = MustOpen(user_, OpenArgs(A(), "f", wire::kShareRead));
  wire::OpenArgs writing = OpenArgs(A(), "f", wire::kShareWrite);
  writing.owner = "writer";
  const Opened writer = MustOpen(user_, writing);
  ASSERT_OK(Write(user_, f, 0, "data"));
  uint64_t found = 0;
  EXPECT_OK(Seek(user_, writer, SeekWhat::kHole, 0, &found));  // any open is sufficient
  EXPECT_OK(Seek(user_, Stateless(f), SeekWhat::kHole, 0, &found));
  EXPECT_DAFS(kAcces, Seek(other_, Stateless(f), SeekWhat::kHole, 0, &found));
  EXPECT_DAFS(kBadStateId, Seek(other_, f, SeekWhat::kHole, 0, &found));
  EXPECT_OK(Allocate(user_, Stateless(f), AllocateMode::kAllocate, 0, 10));
  EXPECT_DAFS(kAcces, Allocate(other_, Stateless(f), AllocateMode::kAllocate, 0, 10));
  uint64_t count = 0;
  EXPECT_OK(Copy(user_, reader, 0, writer, 10, 4, &count));
  EXPECT_DAFS(kAcces, Copy(other_, Stateless(f), 0, Stateless(f), 10, 4, &count));
  ASSERT_EQ(Close(user_, reader), DafsStatus::kOk);
  EXPECT_DAFS(kInval, Allocate(root_, {A(), {}}, AllocateMode::kAllocate, 0, 1));
  EXPECT_DAFS(kInval, Seek(root_, {A(), {}}, SeekWhat::kData, 0, &found));
  EXPECT_DAFS(kBadHandle, Allocate(root_, {}, AllocateMode::kAllocate, 0, 1));
}

TEST_F(StoreRangesTest, OpenForReadingPermitsNoChange) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  wire::OpenArgs reading = OpenArgs(A(), "f", wire::kShareRead);
  reading.owner = "reader";
  const Opened reader = MustOpen(user_, reading);
  EXPECT_DAFS(kAcces, Allocate(user_, reader, AllocateMode::kAllocate, 0, 10));
  uint64_t count = 0;
  EXPECT_DAFS(kAcces, Copy(user_, f, 0, reader, 10, 4, &count));
  EXPECT_EQ(Stat(Path("a/f")).st_size, 0);
}

TEST_F(StoreRangesTest, ReadOnlyExportRefusesRangeChanges) {
  exports_[0].read_only = true;
  WriteFile(Path("a/f"), "data", 0666);
  Start();
  const Opened f = {Handle({"a", "f"}), {}};
  EXPECT_DAFS(kRofs, Allocate(root_, f, AllocateMode::kAllocate, 0, 100));
  uint64_t count = 0;
  EXPECT_DAFS(kRofs, Copy(root_, f, 0, f, 10, 1, &count));
  uint64_t found = 0;
  EXPECT_OK(Seek(root_, f, SeekWhat::kHole, 0, &found));
  EXPECT_EQ(found, 4u);
}

// Shows DAFS-6.5.3-04.
TEST_F(StoreRangesTest, AppendReportsRequestedStabilityInEveryStableMode) {
  for (const Stable stable : {Stable::kPower, Stable::kProcess}) {
    StoreOptions options = Options();
    options.stable = stable;
    Start(std::move(options));
    const Opened f = MustOpen(user_, CreateArgs(A(), "log"));
    for (const wire::StableHow how : {wire::StableHow::kDataSync, wire::StableHow::kFileSync}) {
      std::string data = "line\n";
      const iovec v = {data.data(), data.size()};
      AppendResult res;
      ASSERT_OK(store_->data().Append(user_, f.filehandle, f.state_id, {&v, 1}, how, &res));
      EXPECT_EQ(res.committed, how);
      EXPECT_EQ(res.verifier, CommitVerifier(f));
    }
    ASSERT_OK(Close(user_, f));
  }
  EXPECT_EQ(FileContent(Path("a/log")), "line\nline\nline\nline\n");
}

}  // namespace
}  // namespace dafs::server
