// Against the kernel's NFS server: tests/rdma/rpcping.py starts it in a guest, and gives its
// address (DAFS_TEST_NFS_RDMA) and the handle of a file of 256 KiB with the bytes of Pattern
// (DAFS_TEST_NFS_HANDLE, hexadecimal). Skips without.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/wire/rpcrdma/hex.h"
#include "tests/wire/rpcrdma/rig.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::rpcrdma {
namespace {

using testing::Hex;
using testing::Pattern;

constexpr uint32_t kNfs = 100003, kNfs3 = 3;
constexpr uint32_t kNull = 0, kRead = 6, kWrite = 7;
constexpr size_t kAttributes = 84;  // fattr3
constexpr uint32_t kBytes = 65536;

class RpcRdmaNfs : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const server = std::getenv("DAFS_TEST_NFS_RDMA");
    if (server == nullptr) GTEST_SKIP() << "DAFS_TEST_NFS_RDMA is not set: run tests/rdma/run";
    handle_ = Hex(std::getenv("DAFS_TEST_NFS_HANDLE"));
    loop_ = *Loop::Create();
    provider_ = dat::NewVerbsProvider();
    std::string host;
    uint16_t port = 20049;
    ASSERT_TRUE(dat::SplitHostPort(server, &host, &port).ok());
    const auto addresses = dat::ResolveHost(host, port);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    const auto pending = provider_->Resolve(addresses->front(), "", absl::Seconds(20));
    ASSERT_TRUE(pending.ok()) << pending.status();
    auto connection = Connection::Connect(*loop_, **pending, Options());
    ASSERT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }
  void TearDown() override {
    memory_.region.reset();
    connection_.reset();
  }

  // The message of an NFS call, up to the arguments that start with the file handle.
  Bytes Message(uint32_t procedure) {
    const AuthSys root = {.machine = "test"};
    return EncodeCall({++xid_, kNfs, kNfs3, procedure}, &root);
  }
  absl::StatusOr<Reply> Run(Call call) {
    std::optional<absl::StatusOr<Reply>> result;
    connection_->Start(std::move(call), [&](auto reply) { result = std::move(reply); });
    while (!result.has_value()) loop_->RunOnce(absl::Milliseconds(100));
    return *std::move(result);
  }
  // The words of the results of an RPC reply, after its header and `skip` bytes.
  static std::vector<uint32_t> Words(const Reply& reply, size_t skip) {
    const auto decoded = DecodeReply(reply.message);
    if (!decoded.ok() || decoded->reply.status != ReplyStatus::kSuccess) return {};
    XdrDecoder xdr(std::span(reply.message).subspan(decoded->results_at));
    xdr.Skip(skip);
    std::vector<uint32_t> words;
    while (xdr.ok() && xdr.remaining() >= 4) xdr(words.emplace_back());
    return words;
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<dat::Provider> provider_;
  std::unique_ptr<Connection> connection_;
  dat::testing::Memory memory_;
  Bytes handle_;
  uint32_t xid_ = 0x5000;
};

TEST_F(RpcRdmaNfs, NullEndsInVersion1) {
  const auto reply = Run({.message = Message(kNull)});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(connection_->version(), 1u);
  EXPECT_TRUE(connection_->requester().refused_version().has_value());
  EXPECT_GT(connection_->requester().granted(), 1u);
}

TEST_F(RpcRdmaNfs, AReadArrivesInItsWriteChunk) {
  memory_ = dat::testing::NewMemory(connection_->domain(), kBytes, dat::Access::kRemoteWrite);
  for (uint64_t offset = 0; offset < 4 * kBytes; offset += kBytes) {
    Bytes message = Message(kRead);
    XdrEncoder xdr(message);
    xdr(handle_, offset, kBytes);
    const auto reply = Run({.message = message, .results = {memory_.All()}});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->placed, std::vector<uint32_t>{kBytes});
    const std::vector<uint32_t> words = Words(*reply, 0);
    ASSERT_GE(words.size(), 2u);
    ASSERT_EQ(words[0], 0u) << "nfsstat3";
    const std::vector<uint32_t> rest = Words(*reply, 8 + (words[1] != 0 ? kAttributes : 0));
    ASSERT_GE(rest.size(), 3u);
    EXPECT_EQ(rest[0], kBytes);  // count; then eof, and the length of the data
    EXPECT_EQ(rest[2], kBytes);
    const Bytes whole = Pattern(4 * kBytes);
    EXPECT_TRUE(std::equal(memory_.bytes.begin(), memory_.bytes.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
}

TEST_F(RpcRdmaNfs, AWriteIsReadFromItsReadChunkAndLongCallsArrive) {
  const Bytes data = Pattern(kBytes);
  memory_ = dat::testing::NewMemory(connection_->domain(), kBytes, dat::Access::kRemoteRead);
  std::copy(data.begin(), data.end(), memory_.bytes.begin());
  Bytes message = Message(kWrite);
  XdrEncoder xdr(message);
  xdr(handle_, uint64_t{0}, kBytes, uint32_t{2}, kBytes);
  const auto position = static_cast<uint32_t>(message.size());
  const auto reply = Run({.message = message, .arguments = {{position, memory_.All()}}});
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_FALSE(Words(*reply, 0).empty());
  EXPECT_EQ(Words(*reply, 0)[0], 0u) << "nfsstat3";
  // The same data in the message itself: a position-zero chunk.
  Bytes whole = Message(kWrite);
  XdrEncoder all(whole);
  all(handle_, uint64_t{0}, uint32_t{20000}, uint32_t{2},
      Bytes(data.begin(), data.begin() + 20000));
  const auto again = Run({.message = whole});
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_FALSE(Words(*again, 0).empty());
  EXPECT_EQ(Words(*again, 0)[0], 0u) << "nfsstat3";
}

}  // namespace
}  // namespace dafs::rpcrdma
