// The answer to INIT.
#include "fuse/kernel/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "fuse/kernel/uring_protocol.h"
#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

std::span<const std::byte> BytesOfInit(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(AnswerInit, RequestsOnlyTheFlagsThatItUses) {
  std::string body = FakeKernel::InitBody();
  InitAnswer answer =
      AnswerInit(BytesOfInit(body), {.max_write = 1u << 20, .max_readahead = 1u << 20});
  EXPECT_EQ(answer.error, 0);
  EXPECT_FALSE(answer.again);
  EXPECT_EQ(answer.out.major, 7u);
  EXPECT_EQ(answer.out.max_write, 1u << 20);
  EXPECT_EQ(answer.out.max_pages, 256);
  EXPECT_EQ(answer.out.max_readahead, 128u << 10);  // at most what the kernel offers
  EXPECT_EQ(answer.out.time_gran, 1u);
  EXPECT_TRUE(answer.out.flags & FUSE_PARALLEL_DIROPS);
  EXPECT_TRUE(answer.out.flags & FUSE_MAX_PAGES);
  EXPECT_TRUE(answer.out.flags & FUSE_HANDLE_KILLPRIV_V2);
  EXPECT_TRUE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_TRUE(answer.out.flags & FUSE_FLOCK_LOCKS);
  EXPECT_FALSE(answer.out.flags & FUSE_WRITEBACK_CACHE);  // write-through
  EXPECT_TRUE(answer.out.flags & FUSE_DONT_MASK);         // a default ACL replaces the umask
  EXPECT_FALSE(answer.out.flags & FUSE_POSIX_ACL);
  EXPECT_TRUE(AnswerInit(BytesOfInit(body), {.posix_acl = true}).out.flags & FUSE_POSIX_ACL);
  EXPECT_EQ(answer.out.flags2, kInitDirectIoAllowMmap >> 32);
}

TEST(AnswerInit, LockFlagsFollowTheOptions) {
  std::string body = FakeKernel::InitBody();
  InitAnswer answer = AnswerInit(BytesOfInit(body), {.posix_locks = false});
  EXPECT_FALSE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_TRUE(answer.out.flags & FUSE_FLOCK_LOCKS);
  answer = AnswerInit(BytesOfInit(body), {.flock_locks = false});
  EXPECT_TRUE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_FALSE(answer.out.flags & FUSE_FLOCK_LOCKS);
}

TEST(AnswerInit, OlderKernelsGetOnlyFlagsThatTheyOffer) {
  fuse_init_in init = {};
  init.major = 7;
  init.minor = 31;
  init.flags = FUSE_ASYNC_READ | FUSE_MAX_PAGES;
  std::string body = Raw(init).substr(0, 16);
  InitAnswer answer = AnswerInit(BytesOfInit(body), {});
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.out.flags, init.flags);
  EXPECT_EQ(answer.out.flags2, 0u);
}

TEST(AnswerInit, RefusesAncientKernelsAndShortRequests) {
  fuse_init_in init = {};
  init.major = 7;
  init.minor = 30;
  std::string body = Raw(init);
  EXPECT_EQ(AnswerInit(BytesOfInit(body), {}).error, EPROTO);
  for (size_t size = 0; size < 16; ++size) {
    std::string part = FakeKernel::InitBody().substr(0, size);
    EXPECT_EQ(AnswerInit(BytesOfInit(part), {}).error, EPROTO) << size;
  }
}

TEST(AnswerInit, ANewerMajorVersionIsAnsweredWithOurs) {
  fuse_init_in init = {};
  init.major = 8;
  std::string body = Raw(init);
  InitAnswer answer = AnswerInit(BytesOfInit(body), {});
  EXPECT_TRUE(answer.again);
  EXPECT_EQ(answer.out.major, 7u);
}

TEST(AnswerInit, EnablesIoUringOnlyIfRequestedAndOffered) {
  std::string body = FakeKernel::InitBody();
  InitOptions options;
  EXPECT_EQ(AnswerInit(BytesOfInit(body), options).flags & kInitOverIoUring, 0u);
  options.io_uring = true;
  InitAnswer answer = AnswerInit(BytesOfInit(body), options);
  EXPECT_NE(answer.flags & kInitOverIoUring, 0u);
  EXPECT_EQ(answer.out.flags2, static_cast<uint32_t>(answer.flags >> 32));
  fuse_init_in older = {};
  std::memcpy(&older, body.data(), sizeof(older));
  older.flags2 = 0;
  body = Raw(older);
  EXPECT_EQ(AnswerInit(BytesOfInit(body), options).flags & kInitOverIoUring, 0u);
}

}  // namespace
}  // namespace dafs::fuse
