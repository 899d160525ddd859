// Chains over a live session: order, current filehandle and state id, form, failure.
#include <algorithm>

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

using wire::kChfBack;
using wire::kChfFh;
using wire::kChfForw;
using wire::kChfSave;
using wire::kChfStateId;

class ChainTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    StartServer();
    WriteFile("a/f", "content of f");
    client_ = Session();
    ActAsRoot(*client_);
    directory_ = LookUp(*client_, {"a"});
  }
  void TearDown() override {
    client_.reset();
    ServerTest::TearDown();
  }

  template <class Args>
  void SendOn(uint16_t stream, uint16_t flags, const Args& args) {
    ASSERT_TRUE(client_->SendRequest(args, stream, flags));
  }
  template <class Args>
  std::string NextName() {
    return client_->ReceiveReply<Args>().name();
  }

  std::unique_ptr<RawClient> client_;
  wire::FileHandle directory_;
};

// Shows DAFS-4.3-02, DAFS-4.3-04, DAFS-4.3.2-01, FAST03-3.1-13; WIRE 8.3. Also DAFS-6.5.24-02: the
// READ uses the state id of the OPEN directly before it.
TEST_F(ChainTest, FilehandleAndStateIdPassFromOpenToReadToClose) {
  wire::OpenArgs open = OpenArgs(directory_, "f", false);
  open.share_access = 1;
  wire::ReadInlineArgs read;
  read.byte_count = 100;
  SendOn(0, kChfForw, open);
  SendOn(1, kChfForw | kChfBack, wire::NullArgs());  // filehandle and state id pass through
  SendOn(2, kChfForw | kChfBack | kChfFh | kChfStateId, read);
  SendOn(3, kChfBack | kChfFh, wire::GetattrInlineArgs());
  EXPECT_EQ(client_->ReceiveReply<wire::OpenArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFS_STATUS_OK");
  auto got = client_->ReceiveReply<wire::ReadInlineArgs>();
  ASSERT_EQ(got.name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(got.res.eof);
  auto data = wire::FindInlineData(got.message, got.res);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data->data()), data->size()), "content of f");
  EXPECT_EQ(NextName<wire::GetattrInlineArgs>(), "DAFS_STATUS_OK");
  // The next request inherits nothing from the chain.
  SendOn(0, kChfForw, wire::NullArgs());
  SendOn(1, kChfBack | kChfFh, wire::GetattrInlineArgs());
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextName<wire::GetattrInlineArgs>(), "DAFSERR_NOFILEHANDLE");
  SendOn(0, kChfForw, wire::NullArgs());
  SendOn(1, kChfBack | kChfStateId, read);
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextName<wire::ReadInlineArgs>(), "DAFSERR_BAD_STATEID");
}

// Shows DAFS-4.1.3.1-01, DAFS-4.3.2-08, DAFS-3.2.3.2.2-02 (GETATTR, inline)
TEST_F(ChainTest, MemberUsesItsOwnFilehandleUnlessItsFlagIsSet) {
  wire::LookupArgs lookup;
  lookup.directory = directory_;
  lookup.path = {"f"};
  wire::GetattrInlineArgs of_directory;
  of_directory.filehandle = directory_;
  of_directory.attr_request_bitmap = wire::kFattrObjectType;
  wire::GetattrInlineArgs of_nothing = of_directory;
  of_nothing.filehandle = {};
  SendOn(0, kChfForw, lookup);
  SendOn(1, kChfForw | kChfBack | kChfFh, of_directory);  // of f, despite its argument
  SendOn(2, kChfForw | kChfBack, of_directory);
  SendOn(3, kChfBack | kChfFh, of_nothing);  // the object that the previous member used
  EXPECT_EQ(NextName<wire::LookupArgs>(), "DAFS_STATUS_OK");
  for (const wire::ObjectType type :
       {wire::ObjectType::kReg, wire::ObjectType::kDir, wire::ObjectType::kDir}) {
    auto reply = client_->ReceiveReply<wire::GetattrInlineArgs>();
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.res.obj_attributes.object_type, type);
  }
}

// Shows DAFS-4.3-03; WIRE 8.2: up to and including the member without FORW.
TEST_F(ChainTest, FailureBreaksOnlyTheRestOfItsChain) {
  wire::LookupArgs missing;
  missing.directory = directory_;
  missing.path = {"missing"};
  SendOn(0, kChfForw, missing);
  SendOn(1, kChfForw | kChfBack, wire::NullArgs());
  wire::RequestHeader unknown = client_->Header(2, kChfForw | kChfBack);
  unknown.cred_handle.bytes = {9, 9, 9, 9};  // step 9, after the check for a broken chain (step 7)
  ASSERT_TRUE(client_->Send(client_->Encode(unknown, wire::NullArgs())));
  SendOn(3, kChfBack, wire::NullArgs());
  SendOn(4, 0, wire::NullArgs());
  EXPECT_EQ(NextName<wire::LookupArgs>(), "DAFSERR_NOENT");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFSERR_CHAIN_BROKEN");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFSERR_CHAIN_BROKEN");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFSERR_CHAIN_BROKEN");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFS_STATUS_OK");
}

// Shows DAFS-7-12: the client has as many opens of named attributes as the server permits.
TEST_F(ChainTest, MemberThatExceedsALimitBreaksItsChain) {
  wire::OpenattrArgs directory;
  directory.filehandle = LookUp(*client_, {"a", "f"});
  const wire::FileHandle attributes = client_->Call(directory).res.filehandle;
  wire::OpenArgs open = OpenArgs(attributes, "name", true);
  open.owner = "first";
  std::string status = client_->Call(open).name();
  for (int i = 0; i < 10000 && status == "DAFS_STATUS_OK"; ++i) {
    open.owner = std::to_string(i);
    status = client_->Call(open).name();
  }
  EXPECT_EQ(status, "DAFSERR_RESOURCE");
  SendOn(0, kChfForw, directory);
  SendOn(1, kChfForw | kChfBack | kChfFh, open);
  SendOn(2, kChfBack, wire::NullArgs());
  EXPECT_EQ(NextName<wire::OpenattrArgs>(), "DAFS_STATUS_OK");
  EXPECT_EQ(NextName<wire::OpenArgs>(), "DAFSERR_RESOURCE");
  EXPECT_EQ(NextName<wire::NullArgs>(), "DAFSERR_CHAIN_BROKEN");
}

// Shows DAFS-4.3.1-03, DAFS-4.3.2-02, DAFS-4.3.2-04, DAFS-4.3.2-05, DAFS-4.3.2-07, DAFS-4.3.2-09,
// DAFS-4.3.2-11; R82.
TEST_F(ChainTest, InvalidChainFormIsRefused) {
  auto expect = [&](uint16_t stream, uint16_t flags, auto args, const char* name) {
    ASSERT_TRUE(client_->SendRequest(args, stream, flags));
    EXPECT_EQ(client_->ReceiveReply<decltype(args)>().name(), name) << flags;
  };
  const wire::NullArgs null;
  wire::GetattrInlineArgs getattr;
  getattr.filehandle = directory_;
  wire::CommitArgs commit;
  commit.filehandle = directory_;
  expect(0, kChfForw, wire::SecinfoArgs(), "DAFSERR_CHAIN_FORM");
  expect(1, kChfBack, null, "DAFSERR_CHAIN_BROKEN");  // refers to a chain that never existed
  expect(0, kChfBack, null, "DAFSERR_CHAIN_FORM");
  expect(0, 0x20, null, "DAFSERR_CHAIN_FORM");
  expect(0, kChfSave, null, "DAFSERR_CHAIN_FORM");
  expect(0, kChfFh, getattr, "DAFSERR_CHAIN_FORM");
  expect(0, kChfStateId, null, "DAFSERR_CHAIN_FORM");
  expect(0, kChfForw | kChfSave, getattr, "DAFSERR_CHAIN_FORM");
  expect(1, kChfBack, null, "DAFSERR_CHAIN_BROKEN");
  expect(0, kChfForw | kChfSave, null, "DAFS_STATUS_OK");
  expect(1, 0, null, "DAFSERR_CHAIN_FORM");  // BACK is missing
  expect(0, kChfForw, getattr, "DAFS_STATUS_OK");
  expect(1, kChfBack | kChfForw, commit, "DAFSERR_CHAIN_FORM");  // after a bulk fetch
  expect(2, kChfBack, null, "DAFSERR_CHAIN_BROKEN");
  expect(0, 0, null, "DAFS_STATUS_OK");
}

// A request that waits for a disk delays only its own chain. Shows DAFS-4.3-02: the next member
// waits for it.
TEST_F(ChainTest, LongChainsInterleavedKeepTheirOwnOrder) {
  for (int round = 0; round < 20; ++round) {
    wire::LookupArgs lookup;
    lookup.directory = directory_;
    lookup.path = {"f"};
    wire::CommitArgs commit;  // runs in the pool
    SendOn(0, kChfForw, lookup);
    SendOn(1, kChfBack | kChfForw | kChfFh, commit);
    SendOn(2, kChfBack | kChfFh, wire::GetattrInlineArgs());
    SendOn(3, 0, wire::NullArgs());
    SendOn(4, kChfForw, lookup);
    SendOn(5, kChfBack | kChfFh, wire::GetattrInlineArgs());
    std::vector<uint16_t> streams;
    for (int i = 0; i < 6; ++i) {
      std::optional<Bytes> message = client_->Receive();
      ASSERT_TRUE(message.has_value());
      auto header = wire::DecodeResponseHeader(*message, client_->order);
      ASSERT_TRUE(header.ok());
      EXPECT_EQ(header->header.status, wire::DafsStatus::kOk);
      streams.push_back(header->header.stream_id);
    }
    auto at = [&](uint16_t s) { return std::find(streams.begin(), streams.end(), s); };
    EXPECT_LT(at(0), at(1));
    EXPECT_LT(at(1), at(2));
    EXPECT_LT(at(4), at(5));
  }
}

// Shows DAFS-4.3.3-05, DAFS-4.3.3-06: a client with one credit cannot send the next member before
// it has the response to this one.
TEST_F(ChainTest, EachMemberIsAnsweredWithoutWaitingForTheNext) {
  wire::ClientConnectAuthArgs args = ConnectArgs("one credit");
  args.max_requests = 1;
  client_ = Session(args);
  ASSERT_EQ(negotiated_.max_requests, 1u);
  ActAsRoot(*client_);
  wire::LookupArgs lookup;
  lookup.directory = LookUp(*client_, {"a"});
  lookup.path = {"f"};
  SendOn(0, kChfForw, lookup);
  EXPECT_EQ(NextName<wire::LookupArgs>(), "DAFS_STATUS_OK");
  SendOn(0, kChfForw | kChfBack | kChfFh, wire::CommitArgs());  // runs in the pool
  EXPECT_EQ(NextName<wire::CommitArgs>(), "DAFS_STATUS_OK");
  SendOn(0, kChfBack | kChfFh, wire::GetattrInlineArgs());
  EXPECT_EQ(NextName<wire::GetattrInlineArgs>(), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
