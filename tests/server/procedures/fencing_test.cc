// SET_FENCING_LIST while clients work: what they have begun, what they hold, and when it is
// answered. Spec: 4.4.4.4, 6.4.2.
#include "wire/messages/fencing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/server/procedures/batch_fixture.h"
#include "tests/server/promises_fixture.h"
#include "wire/messages/back_control.h"

namespace dafs::server {
namespace {

using wire::FenceAccess;
using wire::FenceObject;
using wire::FenceUpdate;

std::string Set(RawClient& client, const wire::FileHandle& file, FenceObject object,
                FenceAccess access, FenceUpdate update, std::vector<std::string> ids) {
  const wire::SetFencingListArgs args{file, object, access, update, std::move(ids)};
  return client.Call(args).name();
}
std::string Init(RawClient& client, const wire::FileHandle& file, std::vector<std::string> ids) {
  return Set(client, file, FenceObject::kFile, FenceAccess::kAllow, FenceUpdate::kOverwrite,
             std::move(ids));
}
std::string Deny(RawClient& client, const wire::FileHandle& file, std::vector<std::string> ids) {
  return Set(client, file, FenceObject::kFile, FenceAccess::kDeny, FenceUpdate::kRemove,
             std::move(ids));
}

// The session of the batches is that of "node1". Another one changes lists.
class FencedTransfersTest : public BatchTest {
 protected:
  void SetUp() override {
    BatchTest::SetUp();
    fence_id_ = "node1";
  }
  void StartOperator() {
    operator_ = Session("operator");
    ASSERT_EQ(Init(*operator_, file_, {"node1", "operator"}), "DAFS_STATUS_OK");
  }
  void TearDown() override {
    operator_.reset();
    End();
    BatchTest::TearDown();
  }

  std::unique_ptr<RawClient> operator_;
};

// Shows DAFS-4.4.4.1-01, DAFS-4.4.4.4-04, DAFS-4.4.4.4-05, FAST03-3.2-02: the denial does not wait
// for a client that does not deliver its data, and the data that it delivers later is not written.
TEST_F(FencedTransfersTest, DataThatArrivesAfterTheDenialIsRefused) {
  StartBusy(100000);
  StartOperator();
  const std::string before = ReadFile("a/f");
  EXPECT_EQ(Deny(*operator_, file_, {"node1"}), "DAFS_STATUS_OK");
  read_channel_polled_ = true;
  const absl::Time deadline = Loop::Now() + kPatience;
  while (!session_->ready() && Loop::Now() < deadline) {
    session_->Poll();
    read_channel_->Poll();
  }
  EXPECT_EQ(session_->ReceiveReply<wire::WriteDirectArgs>().name(), "DAFSERR_ACCES");
  EXPECT_TRUE(ReadFile("a/f") == before);
  // Once admitted again, the same open may write.
  EXPECT_EQ(Set(*operator_, file_, FenceObject::kFile, FenceAccess::kAllow, FenceUpdate::kAppend,
                {"node1"}),
            "DAFS_STATUS_OK");
  wire::WriteInlineArgs write;
  write.filehandle = file_;
  write.state_id = state_id_;
  write.byte_count = 3;
  EXPECT_EQ(session_->Call(write, std::as_bytes(std::span("new", 3))).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(ReadFile("a/f").substr(0, 3), "new");
}

// Shows DAFS-4.4.4.4-04: requests of a batch that have not begun end, too.
TEST_F(FencedTransfersTest, BatchRequestsThatHaveNotBegunAreRefused) {
  StartBusy();
  StartOperator();
  EXPECT_EQ(
      Submit(Batch({Item(wire::RwFlag::kWrite, 1, 0, 10), Item(wire::RwFlag::kRead, 2, 0, 10, 100)},
                   kHour)),
      "DAFS_STATUS_OK");
  const std::string before = ReadFile("a/f");
  EXPECT_EQ(Deny(*operator_, file_, {"node1"}), "DAFS_STATUS_OK");
  read_channel_polled_ = true;
  const auto all = Collect(2);
  EXPECT_EQ(all.at(1).status, static_cast<uint32_t>(DafsStatus::kAcces));
  EXPECT_EQ(all.at(2).status, static_cast<uint32_t>(DafsStatus::kAcces));
  EXPECT_EQ(all.at(2).bytes_transferred, 0u);
  EXPECT_TRUE(ReadFile("a/f") == before);
}

// Shows DAFS-6.4.2-01, DAFS-6.4.2-03.
TEST_F(FencedTransfersTest, ErrorsOfTheArguments) {
  Start();
  StartOperator();
  EXPECT_EQ(Set(*operator_, file_, FenceObject::kFile, FenceAccess::kDeny, FenceUpdate::kOverwrite,
                {"node1"}),
            "DAFSERR_INVAL");
  EXPECT_EQ(Deny(*operator_, file_, {"node1", "operator"}), "DAFSERR_INVAL");
  EXPECT_EQ(Init(*operator_, file_, {""}), "DAFSERR_INVAL");
  wire::GetFencingListArgs get{file_};
  EXPECT_EQ(operator_->Call(get).res.fence_list, (std::vector<std::string>{"node1", "operator"}));
}

class FencedHoldersTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    options_.exports[0].only_clients_change = true;
    StartServer();
    WriteFile("a/f", "content");
  }
  std::unique_ptr<PromisedClient> ConnectAs(const std::string& fence_id) {
    fence_id_ = fence_id;
    auto client = Connect(fence_id);
    EXPECT_GT(Admit(*client), 0u);
    return client;
  }
};

// Another client need not wait for the one that is shut out, which may have stopped.
TEST_F(FencedHoldersTest, ADeniedHolderLosesItsDelegationAtOnce) {
  auto denied = ConnectAs("node1");
  auto other = ConnectAs("node2");
  const wire::FileHandle file = LookUp(*denied->session, {"a", "f"});
  wire::OpenDelegatedArgs open;
  open.filehandle = file;
  open.share_access = wire::kShareBoth;
  open.owner = "o";
  open.want = wire::OpenDelegationType::kWrite;
  auto opened = denied->session->Call(open);
  ASSERT_EQ(opened.res.delegation_type, wire::OpenDelegationType::kWrite);
  ASSERT_EQ(Init(*other->session, file, {"node1", "node2"}), "DAFS_STATUS_OK");
  EXPECT_EQ(Deny(*other->session, file, {"node1"}), "DAFS_STATUS_OK");
  wire::OpenHandleArgs use;
  use.filehandle = file;
  use.share_access = wire::kShareRead;
  use.owner = "o";
  EXPECT_EQ(other->session->Call(use).name(), "DAFS_STATUS_OK");
  // BC_RECALL makes the holder drop what it has cached.
  const std::optional<Bytes> message = denied->back->Receive();
  ASSERT_TRUE(message.has_value());
  const auto header = wire::DecodeRequestHeader(*message, denied->back->order);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->header.procedure, wire::Proc::kBcRecall);
  wire::WriteInlineArgs write;
  write.filehandle = file;
  write.state_id = opened.res.delegation_state_id;
  EXPECT_EQ(denied->session->Call(write, std::as_bytes(std::span("new", 3))).name(),
            "DAFSERR_ACCES");
}

TEST_F(FencedHoldersTest, ADeniedClientLosesItsPromisesAndOthersKeepTheirs) {
  auto denied = ConnectAs("node1");
  auto other = ConnectAs("node2");
  EXPECT_TRUE(PromisedNames(*denied, denied->directory));
  EXPECT_TRUE(PromisedNames(*other, other->directory));
  const wire::FileHandle file = LookUp(*other->session, {"a", "f"});
  ASSERT_EQ(Init(*other->session, file, {"node1", "node2"}), "DAFS_STATUS_OK");
  EXPECT_EQ(Deny(*other->session, file, {"node1"}), "DAFS_STATUS_OK");
  const auto announced = denied->Take();
  ASSERT_TRUE(announced.has_value());
  ASSERT_EQ(announced->changed.size(), 1u);
  EXPECT_EQ(announced->changed[0].what, kPromisedAll);
  EXPECT_EQ(other->session->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  other->back->Poll();
  EXPECT_FALSE(other->back->ready());
}

}  // namespace
}  // namespace dafs::server
