// Write-behind: which requests are answered early, which requests wait, and which calls report an
// error. A test can hold back the server's replies.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include "absl/time/clock.h"
#include "tests/fuse/holding_fixture.h"

namespace dafs::fuse {
namespace {

// Milliseconds without a reply after which a request counts as waiting.
constexpr int kNotYet = 100;

class WriteBehindTest : public HoldingWorkerTest {
 protected:
  static std::string FlushBody(const Created& file) {
    fuse_flush_in in = {};
    in.fh = file.open.fh;
    return Raw(in);
  }
  static std::string FsyncBody(const Created& file) {
    fuse_fsync_in in = {};
    in.fh = file.open.fh;
    return Raw(in);
  }
  static std::string ReadBody(const Created& file, uint64_t offset, uint32_t size) {
    fuse_read_in in = {};
    in.fh = file.open.fh;
    in.offset = offset;
    in.size = size;
    return Raw(in);
  }
  static std::string WriteBody(const Created& file, uint64_t offset, const std::string& data,
                               uint32_t flags = 0, uint32_t write_flags = 0) {
    fuse_write_in in = {};
    in.fh = file.open.fh;
    in.offset = offset;
    in.size = static_cast<uint32_t>(data.size());
    in.flags = flags;
    in.write_flags = write_flags;
    return Raw(in) + data;
  }
  int Flush(const Created& file) {
    return kernel_.Call(FUSE_FLUSH, file.entry.nodeid, FlushBody(file)).error;
  }
  // Sends a request that must wait while replies are held. Then releases them and returns its
  // reply.
  FakeKernel::Answer WaitsForServer(uint32_t opcode, uint64_t nodeid, const std::string& body) {
    const uint64_t unique = kernel_.Send(opcode, nodeid, body);
    EXPECT_EQ(kernel_.Receive(kNotYet).unique, 0u) << "opcode " << opcode << " did not wait";
    holding_->hold = false;
    for (;;) {
      FakeKernel::Answer answer = kernel_.Receive();
      if (answer.unique != 0 || answer.error == 0) {
        EXPECT_EQ(answer.unique, unique);
        return answer;
      }
    }
  }
};

TEST_F(WriteBehindTest, WritesAreAnsweredEarlyAndLaterOnesAreSentTogether) {
  Created file = Create("file");
  const uint64_t before = holding_->sent;
  holding_->hold = true;
  std::string all;
  for (int i = 0; i < 20; ++i) {
    std::string data(1000, static_cast<char>('a' + i));
    EXPECT_EQ(Write(file, all.size(), data).error, 0);
    all += data;
  }
  EXPECT_EQ(holding_->sent - before, 1u);
  EXPECT_EQ(WaitsForServer(FUSE_FLUSH, file.entry.nodeid, FlushBody(file)).error, 0);
  EXPECT_EQ(Content("file"), all);
  EXPECT_EQ(holding_->sent - before, 2u);
  EXPECT_TRUE(state_->write_behind.idle());
}

TEST_F(WriteBehindTest, RequestsThatCouldSeeMissingDataWait) {
  Created file = Create("file");
  Created other = Create("other");
  fuse_setattr_in truncate = {};
  truncate.valid = FATTR_SIZE;
  truncate.size = 2;
  fuse_fallocate_in allocate = {};
  allocate.fh = file.open.fh;
  allocate.length = 10;
  fuse_lseek_in seek = {};
  seek.fh = file.open.fh;
  seek.whence = SEEK_HOLE;
  fuse_copy_file_range_in copy = {};
  copy.fh_in = copy.fh_out = file.open.fh;
  copy.nodeid_out = file.entry.nodeid;
  copy.off_out = 100;
  copy.len = 2;
  fuse_copy_file_range_in copy_to = copy;
  copy_to.fh_in = other.open.fh;
  fuse_lk_in lock = {};
  lock.fh = file.open.fh;
  lock.owner = 5;
  lock.lk = {.start = 0, .end = 9, .type = F_WRLCK, .pid = 1};
  const struct {
    uint32_t opcode;
    uint64_t nodeid;
    std::string body;
  } requests[] = {
      {FUSE_GETATTR, file.entry.nodeid, Raw(fuse_getattr_in{})},
      {FUSE_READ, file.entry.nodeid, ReadBody(file, 0, 100)},
      {FUSE_FSYNC, file.entry.nodeid, FsyncBody(file)},
      {FUSE_FLUSH, file.entry.nodeid, FlushBody(file)},
      {FUSE_OPEN, file.entry.nodeid, Raw(fuse_open_in{.flags = O_RDONLY, .open_flags = 0})},
      {FUSE_LOOKUP, kRootNode, Name("file")},
      {FUSE_LINK, kRootNode, Raw(fuse_link_in{file.entry.nodeid}) + Name("linked")},
      {FUSE_CREATE, kRootNode,
       Raw(fuse_create_in{
           .flags = O_CREAT | O_RDWR, .mode = S_IFREG | 0644, .umask = 0, .open_flags = 0}) +
           Name("linked")},
      {FUSE_FALLOCATE, file.entry.nodeid, Raw(allocate)},
      {FUSE_LSEEK, file.entry.nodeid, Raw(seek)},
      {FUSE_COPY_FILE_RANGE, file.entry.nodeid, Raw(copy)},
      {FUSE_COPY_FILE_RANGE, other.entry.nodeid, Raw(copy_to)},
      {FUSE_SETLK, file.entry.nodeid, Raw(lock)},
      {FUSE_SETATTR, file.entry.nodeid, Raw(truncate)},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 0, "over")},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 50, "app", O_APPEND)},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 50, "sync", O_SYNC)},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 50, "data", O_DSYNC)},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 50, "direct", O_DIRECT)},
      {FUSE_WRITE, file.entry.nodeid, WriteBody(file, 50, "mapped", 0, FUSE_WRITE_CACHE)},
  };
  for (const auto& [opcode, nodeid, body] : requests) {
    SCOPED_TRACE(opcode);
    ASSERT_EQ(Flush(file), 0);
    holding_->hold = true;
    ASSERT_EQ(Write(file, 0, "1234567").error, 0);
    EXPECT_EQ(WaitsForServer(opcode, nodeid, body).error, 0);
  }
}

TEST_F(WriteBehindTest, LookupReturnsTheSizeAfterEarlierWrites) {
  Created file = Create("file");
  for (uint64_t size = 1; size < 200; ++size) {
    ASSERT_EQ(Write(file, size - 1, "x").error, 0);
    fuse_entry_out entry = Lookup(kRootNode, "file");
    ASSERT_EQ(entry.attr.size, size);
  }
}

TEST_F(WriteBehindTest, CloseIsSentAfterTheWritesOfItsDescriptor) {
  Created file = Create("file");
  ASSERT_EQ(Flush(file), 0);
  holding_->hold = true;
  ASSERT_EQ(Write(file, 0, "late").error, 0);
  ASSERT_EQ(Write(file, 4, "later").error, 0);
  Release(file);  // the reply does not wait
  EXPECT_EQ(server_->open_count(), 1u);
  holding_->hold = false;
  for (int i = 0; i < 1000 && server_->open_count() > 0; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(server_->open_count(), 0u);
  EXPECT_EQ(Content("file"), "latelater");
}

TEST_F(WriteBehindTest, ASecondLargeWriteWaitsForItsReply) {
  Created file = Create("file");
  holding_->hold = true;
  const std::string large(200'000, 'x');  // too large to be combined with other writes
  ASSERT_EQ(Write(file, 0, large).error, 0);
  FakeKernel::Answer second =
      WaitsForServer(FUSE_WRITE, file.entry.nodeid, WriteBody(file, large.size(), large));
  EXPECT_EQ(second.error, 0);
  EXPECT_EQ(second.As<fuse_write_out>().size, large.size());
  ASSERT_EQ(Flush(file), 0);
  EXPECT_EQ(Content("file"), large + large);
}

TEST_F(WriteBehindTest, RandomWritesAllReachTheServer) {
  Created file = Create("file");
  std::string expected(64 << 10, '\0');
  uint32_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1664525 + 1013904223;
    const uint32_t at = (random >> 8) % 60000;
    const std::string data(1 + random % 3000, static_cast<char>('a' + i % 26));
    const uint32_t size = static_cast<uint32_t>(std::min(data.size(), expected.size() - at));
    ASSERT_EQ(Write(file, at, data.substr(0, size)).error, 0);
    expected.replace(at, size, data, 0, size);
    if (i % 100 == 0) {
      FakeKernel::Answer read = Read(file, at, size);
      ASSERT_EQ(read.body, expected.substr(at, size));
    }
  }
  ASSERT_EQ(Flush(file), 0);
  EXPECT_EQ(Read(file, 0, 64 << 10).body, expected.substr(0, Content("file").size()));
  EXPECT_EQ(Content("file"), expected.substr(0, Content("file").size()));
}

TEST_F(WriteBehindTest, CloseAndFsyncReportAnErrorAndWritesAreSynchronousUntilAnFsyncSucceeds) {
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, SIG_IGN);
  Created file = Create("file");
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;  // for the server, which is in this process
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(Write(file, 8192, "too far").error, 0);
  const fuse_getattr_in ask = {};
  // The reply comes after the write has failed.
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, file.entry.nodeid, Raw(ask)).error, 0);
  EXPECT_EQ(Write(file, 8192, "too far").error, EFBIG);
  EXPECT_EQ(Flush(file), EFBIG);
  EXPECT_EQ(Flush(file), EFBIG);
  EXPECT_EQ(kernel_.Call(FUSE_FSYNC, file.entry.nodeid, FsyncBody(file)).error, EFBIG);
  EXPECT_EQ(Flush(file), 0);
  EXPECT_EQ(Write(file, 8192, "too far").error, EFBIG);
  EXPECT_EQ(kernel_.Call(FUSE_FSYNC, file.entry.nodeid, FsyncBody(file)).error, 0);
  EXPECT_EQ(Write(file, 0, "near").error, 0);
  EXPECT_EQ(Write(file, 8192, "too far").error, 0);  // answered early again
  EXPECT_EQ(kernel_.Call(FUSE_FSYNC, file.entry.nodeid, FsyncBody(file)).error, EFBIG);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_EQ(Content("file"), "near");
}

TEST_F(WriteBehindTest, UnmountDoesNotWaitForAnUnresponsiveServer) {
  Created file = Create("file");
  holding_->hold = true;
  ASSERT_EQ(Write(file, 0, "never answered").error, 0);
  kernel_.Send(FUSE_GETATTR, file.entry.nodeid, Raw(fuse_getattr_in{}));
  EXPECT_EQ(kernel_.Receive(kNotYet).unique, 0u);
  kernel_.HangUp();
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

}  // namespace
}  // namespace dafs::fuse
