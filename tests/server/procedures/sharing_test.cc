// How clients that share a file affect each other over their sessions. Locks are advisory and
// reservations are mandatory for every way that data moves. Spec: 4.2.3, 4.4.1.2, 6.5.24.
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr const char* kOk = "DAFS_STATUS_OK";

class SharingTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    StartServer();
    WriteFile("a/f", "content");
    first_ = Session("first");
    ActAsRoot(*first_);
    second_ = Session("second");
    ActAsRoot(*second_);
    memory_ = second_->NewMemory(4096, dat::Access::kRemoteBoth);
    directory_ = LookUp(*second_, {"a"});
  }
  void TearDown() override {
    memory_ = DirectMemory();
    second_.reset();
    first_.reset();
    ServerTest::TearDown();
  }

  wire::OpenRes Open(RawClient& client, uint32_t deny = 0) {
    wire::OpenArgs args = OpenArgs(directory_, "f", false);
    args.share_deny = deny;
    auto reply = client.Call(args);
    EXPECT_EQ(reply.name(), kOk);
    return reply.res;
  }
  // Each of these returns the status that the second client gets when it moves the first byte in
  // one of the possible ways.
  std::string Read(const wire::OpenRes& open) {
    wire::ReadInlineArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.byte_count = 1;
    return second_->Call(args).name();
  }
  std::string ReadDirect(const wire::OpenRes& open) {
    wire::ReadDirectArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.byte_count = 1;
    args.read_data_buffers = {memory_.At(0, 1)};
    return second_->Call(args).name();
  }
  std::string Write(const wire::OpenRes& open) {
    wire::WriteInlineArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.byte_count = 1;
    return second_->Call(args, std::as_bytes(std::span("C", 1))).name();
  }
  std::string WriteDirect(const wire::OpenRes& open) {
    wire::WriteDirectArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.byte_count = 1;
    args.write_data_buffers = {memory_.At(kWritten, 1)};
    return second_->Call(args).name();
  }
  std::string Batch(const wire::OpenRes& open, wire::RwFlag flag) {
    wire::RwRequest item;
    item.filehandle = open.filehandle;
    item.state_id = open.state_id;
    item.request_id = 1;
    item.rw_flag = flag;
    item.chunks = {{.offset = 0, .byte_count = 1}};
    item.request_buffers = {memory_.At(flag == wire::RwFlag::kWrite ? kWritten : 0, 1)};
    wire::BatchSubmitArgs args;
    args.requests = {item};
    args.synchronous = true;
    auto reply = second_->Call(args);
    EXPECT_EQ(reply.name(), kOk);
    if (reply.res.completions.size() != 1) return "no completion";
    return std::string(wire::Name(DafsStatus(reply.res.completions[0].status)));
  }
  void ExpectAll(const std::string& status, const wire::OpenRes& open) {
    EXPECT_EQ(Read(open), status);
    EXPECT_EQ(ReadDirect(open), status);
    EXPECT_EQ(Batch(open, wire::RwFlag::kRead), status);
    EXPECT_EQ(Write(open), status);
    EXPECT_EQ(WriteDirect(open), status);
    EXPECT_EQ(Batch(open, wire::RwFlag::kWrite), status);
  }

  // Returns `message` with the u32 at `at` replaced.
  static Bytes With(Bytes message, size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) message[at + i] = static_cast<std::byte>(value >> (8 * i));
    return message;
  }

  static constexpr size_t kWritten = 64;  // where its memory holds the data to write

  std::unique_ptr<RawClient> first_, second_;
  DirectMemory memory_;  // of the second client
  wire::FileHandle directory_;
};

// Shows DAFS-4.2.3-02, DAFS-4.4.1.2-01 (this server decides: locks are advisory without PERSIST and
// AUTORECOVERY), DAFS-6.5.24-22, DAFS-6.5.24-01 (the result flags): such locks bind only clients
// that lock. No OPEN result says that they are mandatory. They keep no client from the data, in a
// batch or in single requests.
TEST_F(SharingTest, LocksWithoutOptionsAreAdvisory) {
  const wire::OpenRes holder = Open(*first_), other = Open(*second_);
  EXPECT_EQ(holder.result_flags, 0u);
  EXPECT_EQ(other.result_flags, 0u);
  wire::LockArgs lock;
  lock.filehandle = holder.filehandle;
  lock.state_id = holder.state_id;
  lock.lock_type = wire::LockType::kWrite;
  lock.length = wire::kLockToEnd;
  ASSERT_EQ(first_->Call(lock).name(), kOk);
  lock.state_id = other.state_id;
  EXPECT_EQ(second_->Call(lock).name(), "DAFSERR_DENIED");
  memory_.bytes[kWritten] = std::byte{'C'};
  ExpectAll(kOk, other);
  EXPECT_EQ(ReadFile("a/f"), "Content");
  // An OPEN of a locked file does not report mandatory locks either.
  EXPECT_EQ(Open(*second_).result_flags, 0u);
}

// Shows DAFS-4.2.3-02, DAFS-4.4.1.2-49: the server checks reservations and state ids for every way
// that data moves.
TEST_F(SharingTest, ReservationsHoldForEveryWayThatDataMoves) {
  const wire::OpenRes open = Open(*second_);
  ExpectAll(kOk, open);
  wire::CloseArgs close;
  close.filehandle = open.filehandle;
  close.state_id = open.state_id;
  ASSERT_EQ(second_->Call(close).name(), kOk);
  ExpectAll("DAFSERR_BAD_STATEID", open);
  wire::OpenRes none = open;
  none.state_id = {};
  ExpectAll(kOk, none);
  Open(*first_, wire::kShareBoth);
  ExpectAll("DAFSERR_DENIED", none);
}

// Shows DAFS-6.5.24-25; WIRE 9.4, 2.2
TEST_F(SharingTest, ShareKeyTypeIsNoneOrBoth) {
  constexpr size_t kOpenType = 40 + 128, kDowngradeType = 40 + 80;
  const wire::OpenRes open = Open(*second_);
  wire::OpenDowngradeArgs downgrade;
  downgrade.filehandle = open.filehandle;
  downgrade.state_id = open.state_id;
  downgrade.share_access = wire::kShareBoth;
  for (const uint32_t type : {1u, 2u, 4u, 0x80000000u, 0xffffffffu}) {
    SCOPED_TRACE(type);
    ASSERT_TRUE(second_->Send(With(
        second_->Encode(second_->Header(), OpenArgs(directory_, "f", false)), kOpenType, type)));
    EXPECT_EQ(second_->ReceiveReply<wire::OpenArgs>().name(), "DAFSERR_INVAL");
    ASSERT_TRUE(
        second_->Send(With(second_->Encode(second_->Header(), downgrade), kDowngradeType, type)));
    EXPECT_EQ(second_->ReceiveReply<wire::OpenDowngradeArgs>().name(), "DAFSERR_INVAL");
  }
  ASSERT_TRUE(second_->Send(
      With(second_->Encode(second_->Header(), OpenArgs(directory_, "f", false)), kOpenType, 3)));
  EXPECT_EQ(second_->ReceiveReply<wire::OpenArgs>().name(), kOk);
}

}  // namespace
}  // namespace dafs::server
