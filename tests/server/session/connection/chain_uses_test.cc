// Uses of chains: reading several regions under one lock, and requests that run only if an object
// is still, or is no longer, in the state that the client knows.
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

using wire::kChfBack;
using wire::kChfFh;
using wire::kChfForw;
using wire::kChfStateId;

class ChainUsesTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    StartServer();
    WriteFile("a/f", "0123456789");
    client_ = Session();
    ActAsRoot(*client_);
    directory_ = LookUp(*client_, {"a"});
    file_ = LookUp(*client_, {"a", "f"});
  }
  void TearDown() override {
    client_.reset();
    ServerTest::TearDown();
  }

  template <class Args>
  void SendOn(uint16_t stream, unsigned flags, const Args& args) {
    ASSERT_TRUE(client_->SendRequest(args, stream, static_cast<uint16_t>(flags)));
  }
  template <class Args>
  std::string NextName() {
    return client_->ReceiveReply<Args>().name();
  }
  static wire::ReadInlineArgs Read(uint64_t offset) {
    wire::ReadInlineArgs args;
    args.offset = offset;
    args.byte_count = 3;
    return args;
  }
  // Returns the data of the next response, that of a READ_INLINE.
  std::string NextData() {
    auto reply = client_->ReceiveReply<wire::ReadInlineArgs>();
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    auto data = wire::FindInlineData(reply.message, reply.res);
    if (!data.ok()) return "";
    return std::string(reinterpret_cast<const char*>(data->data()), data->size());
  }
  // The arguments of VERIFY or NVERIFY for a size of f.
  template <class Args>
  Args SizeIs(uint64_t size) const {
    Args args;
    args.filehandle = file_;
    args.obj_attributes.set(wire::kFattrObjectSize);
    args.obj_attributes.object_size = size;
    return args;
  }

  std::unique_ptr<RawClient> client_;
  wire::FileHandle directory_;
  wire::FileHandle file_;
};

// Shows DAFS-4.3.1-10: no other client holds the lock between the two reads. The lock is free
// afterwards.
TEST_F(ChainUsesTest, SeveralRegionsAreReadUnderOneLock) {
  auto opened = client_->Call(OpenArgs(directory_, "f", false));
  ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
  auto other = Session("other");
  ActAsRoot(*other);
  wire::LocktArgs test;
  test.filehandle = opened.res.filehandle;
  test.lock_type = wire::LockType::kWrite;
  test.length = 10;
  wire::LockArgs lock;
  lock.filehandle = opened.res.filehandle;
  lock.state_id = opened.res.state_id;
  lock.lock_type = wire::LockType::kWrite;
  lock.length = 10;
  wire::LockuArgs unlock;
  unlock.lock_type = wire::LockType::kWrite;
  unlock.length = 10;
  constexpr unsigned kOn = kChfBack | kChfFh | kChfStateId;
  SendOn(0, kChfForw, lock);
  SendOn(1, kChfForw | kOn, Read(0));
  EXPECT_EQ(NextName<wire::LockArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextData(), "012");
  EXPECT_EQ(other->Call(test).name(), "DAFSERR_DENIED");
  SendOn(2, kChfForw | kOn, Read(7));
  SendOn(3, kOn, unlock);
  EXPECT_EQ(NextData(), "789");
  EXPECT_EQ(NextName<wire::LockuArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(other->Call(test).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-6.5.23-02: unchanged data is not read again.
TEST_F(ChainUsesTest, NverifyRunsTheRestOnlyIfTheObjectHasChanged) {
  SendOn(0, kChfForw, SizeIs<wire::NverifyArgs>(10));
  SendOn(1, kChfBack | kChfFh, Read(0));
  EXPECT_EQ(NextName<wire::NverifyArgs>(), "DAFSERR_SAME");
  EXPECT_EQ(NextName<wire::ReadInlineArgs>(), "DAFSERR_CHAIN_BROKEN");
  SendOn(0, kChfForw, SizeIs<wire::NverifyArgs>(9));
  SendOn(1, kChfBack | kChfFh, Read(0));
  EXPECT_EQ(NextName<wire::NverifyArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextData(), "012");
}

// Shows DAFS-6.5.37-02 and, of DAFS-4.3-03, that the rest of a broken chain is not executed.
TEST_F(ChainUsesTest, VerifyRunsTheRestOnlyIfTheObjectIsAsAssumed) {
  wire::RemoveArgs remove;
  remove.filehandle = directory_;
  remove.target = "f";
  SendOn(0, kChfForw, SizeIs<wire::VerifyArgs>(9));
  SendOn(1, kChfBack, remove);
  EXPECT_EQ(NextName<wire::VerifyArgs>(), "DAFSERR_NOT_SAME");
  EXPECT_EQ(NextName<wire::RemoveArgs>(), "DAFSERR_CHAIN_BROKEN");
  EXPECT_EQ(ReadFile("a/f"), "0123456789");
  SendOn(0, kChfForw, SizeIs<wire::VerifyArgs>(10));
  SendOn(1, kChfBack, remove);
  EXPECT_EQ(NextName<wire::VerifyArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextName<wire::RemoveArgs>(), "DAFS_STATUS_OK");
  EXPECT_FALSE(std::filesystem::exists(Path("a/f")));
}

}  // namespace
}  // namespace dafs::server
