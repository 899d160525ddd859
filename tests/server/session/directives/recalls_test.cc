// Recalls of delegations over the Back-control Channel, and the requests that wait for them.
// Spec: 6.5.11, 6.5.24, 6.6.3, 6.6.4.
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <type_traits>

#include "absl/time/clock.h"
#include "tests/server/files_in.h"
#include "tests/server/promises_fixture.h"
#include "wire/messages/back_control.h"
#include "wire/messages/open_close.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;
using Type = wire::OpenDelegationType;

class RecallsTest : public PromisesTest {
 protected:
  // Starts a server with the file "a/f" and a holder of a delegation of it.
  void Serve(uint32_t access, bool only_clients_change = true) {
    options_.exports[0].only_clients_change = only_clients_change;
    StartServer();
    WriteFile("a/f", "content");
    holder_ = Connect("holder");
    EXPECT_GT(Admit(*holder_), 0u);
    other_ = Connect("other");
    file_ = LookUp(*holder_->session, {"a", "f"});
    delegation_ = OpenDelegated(*holder_, access);
  }
  wire::OpenDelegatedRes OpenDelegated(PromisedClient& client, uint32_t access) {
    wire::OpenDelegatedArgs args;
    args.filehandle = file_;
    args.share_access = access;
    args.owner = "o";
    args.want = Type::kWrite;
    auto reply = client.session->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res;
  }
  wire::OpenHandleArgs OpenFor(uint32_t access) const {
    wire::OpenHandleArgs args;
    args.filehandle = file_;
    args.share_access = access;
    args.owner = "o";
    return args;
  }
  std::string Return(PromisedClient& client) const {
    wire::DelegreturnArgs args;
    args.state_id = delegation_.delegation_state_id;
    return std::string(client.session->Call(args).name());
  }
  // Takes the next directive of the holder's channel.
  template <class Args>
  wire::RequestHeader Take(Args* args) {
    std::optional<Bytes> message = holder_->back->Receive();
    EXPECT_TRUE(message.has_value());
    if (!message) return {};
    auto header = wire::DecodeRequestHeader(*message, holder_->back->order);
    EXPECT_EQ(header->header.procedure, Args::kProc);
    EXPECT_EQ(wire::DecodeArgs(*message, holder_->back->order, *args), DafsStatus::kOk);
    return header->header;
  }
  void TakeRecall(DafsStatus status) {
    wire::BcRecallArgs args;
    const wire::RequestHeader header = Take(&args);
    EXPECT_EQ(args.filehandle, file_);
    EXPECT_EQ(args.state_id, delegation_.delegation_state_id);
    EXPECT_FALSE(args.truncate);
    holder_->Answer({header, {}}, status);
  }

  // The open of the holder also got a promise of the attributes, which another client changes.
  void AnswerChange() {
    auto announced = holder_->Take();
    ASSERT_TRUE(announced);
    holder_->Answer(*announced);
  }

  // The holder reads with the state id of its delegation. Returns the status.
  std::string ReadOfHolder() {
    wire::ReadInlineArgs read;
    read.filehandle = file_;
    read.state_id = delegation_.delegation_state_id;
    read.byte_count = 1;
    return std::string(holder_->session->Call(read).name());
  }

  std::unique_ptr<PromisedClient> holder_, other_;
  wire::FileHandle file_;
  wire::OpenDelegatedRes delegation_;
};

// Shows DAFS-6.6.4-01, DAFS-3.2.6.1-01
TEST_F(RecallsTest, AConflictingOpenWaitsForTheReturnOfTheDelegation) {
  Serve(wire::kShareRead);
  ASSERT_EQ(delegation_.delegation_type, Type::kRead);
  ASSERT_TRUE(other_->session->SendRequest(OpenFor(wire::kShareWrite)));
  TakeRecall(DafsStatus::kOk);
  AnswerChange();
  // The answer to BC_RECALL does not complete the recall.
  EXPECT_EQ(holder_->session->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  other_->session->Poll();
  EXPECT_FALSE(other_->session->ready());
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  EXPECT_EQ(other_->session->ReceiveReply<wire::OpenHandleArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Return(*holder_), "DAFSERR_BAD_STATEID");
}

TEST_F(RecallsTest, ADelegationThatIsNotReturnedInTimeIsRevoked) {
  options_.recall_time = absl::Milliseconds(300);
  Serve(wire::kShareBoth);
  ASSERT_EQ(delegation_.delegation_type, Type::kWrite);
  const absl::Time start = Loop::Now();
  EXPECT_EQ(other_->session->Call(OpenFor(wire::kShareRead)).name(), "DAFS_STATUS_OK");
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(300));
  EXPECT_EQ(ReadOfHolder(), "DAFSERR_EXPIRED");
}

TEST_F(RecallsTest, AHolderThatDoesNotAnswerDelaysOthersOnce) {
  options_.recall_time = absl::Seconds(2);
  Serve(wire::kShareBoth);
  const wire::FileHandle first = file_;
  WriteFile("a/g", "content");
  const wire::FileHandle second = file_ = LookUp(*holder_->session, {"a", "g"});
  ASSERT_EQ(OpenDelegated(*holder_, wire::kShareBoth).delegation_type, Type::kWrite);
  file_ = first;
  EXPECT_EQ(other_->session->Call(OpenFor(wire::kShareRead)).name(), "DAFS_STATUS_OK");
  file_ = second;
  const absl::Time start = Loop::Now();
  EXPECT_EQ(other_->session->Call(OpenFor(wire::kShareRead)).name(), "DAFS_STATUS_OK");
  EXPECT_LT(Loop::Now() - start, options_.recall_time);
}

// So a holder that was stopped uses none of its delegations when it runs again.
TEST_F(RecallsTest, AHolderThatIsLateLosesItsPromisesBeforeTheDelegation) {
  options_.recall_time = absl::Seconds(2);
  Serve(wire::kShareRead);
  ASSERT_TRUE(other_->session->SendRequest(OpenFor(wire::kShareWrite)));
  TakeRecall(DafsStatus::kOk);
  AnswerChange();
  EXPECT_FALSE(holder_->IsVoid());
  const absl::Time end = Loop::Now() + absl::Seconds(30);
  while (!holder_->IsVoid()) ASSERT_LT(Loop::Now(), end);
  other_->session->Poll();
  EXPECT_FALSE(other_->session->ready());
  EXPECT_EQ(other_->session->ReceiveReply<wire::OpenHandleArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(RecallsTest, ALocalProgramWaitsForTheReturn) {
  options_.recall_time = absl::Seconds(30);
  Serve(wire::kShareRead, /*only_clients_change=*/false);
  ASSERT_EQ(delegation_.delegation_type, Type::kRead);
  std::future<int> truncation =
      std::async(std::launch::async, [this] { return truncate(Path("a/f").c_str(), 3); });
  TakeRecall(DafsStatus::kOk);
  EXPECT_NE(truncation.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  EXPECT_EQ(truncation.get(), 0);
  wire::ReadInlineArgs read;
  read.filehandle = file_;
  read.byte_count = 10;
  EXPECT_EQ(holder_->session->Call(read).name(), "DAFS_STATUS_OK");
}

TEST_F(RecallsTest, ALocalProgramWaitsAtMostRecallTimeForAHolderThatIsStopped) {
  options_.recall_time = absl::Milliseconds(300);
  Serve(wire::kShareRead, /*only_clients_change=*/false);
  ASSERT_EQ(delegation_.delegation_type, Type::kRead);
  const absl::Time start = Loop::Now();
  EXPECT_EQ(truncate(Path("a/f").c_str(), 3), 0);
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(300));
  EXPECT_LT(Loop::Now() - start, absl::Seconds(20)) << "not the time of the kernel";
  EXPECT_EQ(ReadOfHolder(), "DAFSERR_EXPIRED");
}

// An open of the server's own must not wait for the lease of the kernel.
TEST_F(RecallsTest, TheHolderWritesToItsFileAtOnce) {
  options_.recall_time = absl::Seconds(30);
  Serve(wire::kShareRead, /*only_clients_change=*/false);
  ASSERT_EQ(delegation_.delegation_type, Type::kRead);
  const absl::Time start = Loop::Now();
  wire::SetattrInlineArgs size;
  size.filehandle = file_;
  size.obj_attributes.set(wire::kFattrObjectSize);
  EXPECT_EQ(holder_->session->Call(size).name(), "DAFS_STATUS_OK");
  EXPECT_LT(Loop::Now() - start, absl::Seconds(20));
  TakeRecall(DafsStatus::kOk);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
}

// The response that grants the delegation may be on its way, so the recall is repeated once.
TEST_F(RecallsTest, ADelegationThatTheClientDoesNotKnowEnds) {
  Serve(wire::kShareRead);
  ASSERT_TRUE(other_->session->SendRequest(OpenFor(wire::kShareWrite)));
  TakeRecall(DafsStatus::kBadHandle);
  AnswerChange();
  TakeRecall(DafsStatus::kBadStateId);
  EXPECT_EQ(other_->session->ReceiveReply<wire::OpenHandleArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(RecallsTest, ARecallIsRepeatedOnANewChannel) {
  Serve(wire::kShareRead);
  holder_->back.reset();
  ASSERT_TRUE(other_->session->SendRequest(OpenFor(wire::kShareWrite)));
  holder_ = Connect("holder");
  EXPECT_GT(Admit(*holder_), 0u);
  TakeRecall(DafsStatus::kOk);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  EXPECT_EQ(other_->session->ReceiveReply<wire::OpenHandleArgs>().name(), "DAFS_STATUS_OK");
}

// Shows DAFS-6.6.3-03
TEST_F(RecallsTest, GetattrOfAnotherClientAsksTheHolder) {
  Serve(wire::kShareBoth);
  wire::GetattrInlineArgs get;
  get.filehandle = file_;
  get.attr_request_bitmap = wire::kFattrObjectSize | wire::kFattrFileId;
  ASSERT_TRUE(other_->session->SendRequest(get));
  wire::BcGetattrArgs args;
  const wire::RequestHeader header = Take(&args);
  EXPECT_EQ(args.filehandle, file_);
  wire::BcGetattrRes res;
  res.obj_attributes.set(wire::kFattrObjectSize);
  res.obj_attributes.object_size = 1000;
  Bytes out(256);
  const auto size = wire::EncodeResponse(wire::ResponseTo(header, DafsStatus::kOk, 8), res,
                                         holder_->back->order, out);
  ASSERT_TRUE(size.ok());
  out.resize(*size);
  EXPECT_TRUE(holder_->back->Send(out));
  auto reply = other_->session->ReceiveReply<wire::GetattrInlineArgs>();
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.res.obj_attributes.object_size, 1000u);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
}

// Shows DAFS-6.5.24-16
TEST_F(RecallsTest, AClientThatStartedAgainClaimsItsWriteDelegation) {
  Serve(wire::kShareBoth);
  auto again = Connect("holder", /*verifier=*/2);
  EXPECT_GT(Admit(*again), 0u);
  wire::OpenArgs args;
  args.claim_type = wire::OpenClaimType::kDelegatePrev;
  args.dir_handle = again->directory;
  args.pathname = {"f"};
  args.owner = "o";
  args.share_access = wire::kShareBoth;
  auto reply = again->session->Call(args);
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.res.delegation_type, Type::kWrite);
  EXPECT_FALSE(reply.res.recall);
}

// WIRE 9.7.
TEST_F(RecallsTest, ADelegationInPlaceOfAnOpenIsTheCurrentStateIdOfTheChain) {
  Serve(wire::kShareRead);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  wire::ExtensionsArgs extensions;
  extensions.wanted = wire::kExtensionOpenXorDelegation;
  EXPECT_EQ(holder_->session->Call(extensions).res.granted, extensions.wanted);
  WriteFile("a/g", "0123");
  wire::OpenArgs open = OpenArgs(holder_->directory, "g", false);
  open.share_access = wire::kShareRead | wire::kShareWantOpenXorDelegation;
  wire::OpenDelegatedArgs by_handle;
  by_handle.filehandle = LookUp(*holder_->session, {"a", "g"});
  by_handle.share_access = open.share_access;
  by_handle.want = Type::kRead;
  const auto expect_returned = [&](const auto& opens) {
    using Args = std::decay_t<decltype(opens)>;
    RawClient& client = *holder_->session;
    ASSERT_TRUE(client.SendRequest(opens, 0, wire::kChfForw));
    ASSERT_TRUE(client.SendRequest(wire::DelegreturnArgs(), 1, wire::kChfBack | wire::kChfStateId));
    auto opened = client.ReceiveReply<Args>();
    EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(opened.res.delegation_type, Type::kRead);
    EXPECT_TRUE(opened.res.state_id.is_zero());
    EXPECT_EQ(client.ReceiveReply<wire::DelegreturnArgs>().name(), "DAFS_STATUS_OK");
  };
  expect_returned(open);
  expect_returned(by_handle);
}

// A file that its holder removes is kept until DELEGRETURN, unless that comes first.
TEST_F(RecallsTest, AHolderThatReturnsADelegationFirstLeavesNoOrphan) {
  Serve(wire::kShareRead);
  wire::CloseArgs close;
  close.filehandle = file_;
  close.state_id = delegation_.state_id;
  EXPECT_EQ(holder_->session->Call(close).name(), "DAFS_STATUS_OK");
  wire::DelegreturnArgs give_back;
  give_back.state_id = delegation_.delegation_state_id;
  RawClient& client = *holder_->session;
  ASSERT_TRUE(client.SendRequest(give_back, 0, wire::kChfForw));
  ASSERT_TRUE(client.SendRequest(Remove(holder_->directory, "f"), 1, wire::kChfBack));
  EXPECT_EQ(client.ReceiveReply<wire::DelegreturnArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(client.ReceiveReply<wire::RemoveArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(Exists("a/f"));
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  WriteFile("a/f", "content");
  file_ = LookUp(client, {"a", "f"});
  EXPECT_EQ(OpenDelegated(*holder_, wire::kShareRead).delegation_type, Type::kRead);
  EXPECT_EQ(client.Call(Remove(holder_->directory, "f")).name(), "DAFS_STATUS_OK");
  EXPECT_NE(FilesIn(Path("a/.dafsd-orphans")), 0u);
}

// ---- Opens and delegations that the client may not know -----------------------------------------

class UnnamedFileTest : public RecallsTest {
 protected:
  void SetUp() override {
    RecallsTest::SetUp();
    options_.recall_time = absl::Milliseconds(300);
  }
  // The holder keeps the delegation alone.
  void ServeToHolder() {
    Serve(wire::kShareRead);
    wire::CloseArgs close;
    close.filehandle = file_;
    close.state_id = delegation_.state_id;
    EXPECT_EQ(holder_->session->Call(close).name(), "DAFS_STATUS_OK");
  }
  void RemoveFile() {
    EXPECT_EQ(holder_->session->Call(Remove(holder_->directory, "f")).name(), "DAFS_STATUS_OK");
    EXPECT_TRUE(IsKept());
  }
  // Ends the sessions of the holder without DISCONNECT, and connects it again.
  void LoseSession() {
    holder_.reset();
    holder_ = Connect("holder");
    EXPECT_GT(Admit(*holder_), 0u);
  }
  bool IsKept() const { return FilesIn(Path("a/.dafsd-orphans")) != 0; }
  void ExpectGone() {
    const absl::Time end = Loop::Now() + absl::Seconds(20);
    while (IsKept() && Loop::Now() < end) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_FALSE(IsKept());
  }
};

TEST_F(UnnamedFileTest, EndsIfTheClientDoesNotKnowTheDelegationOfALostSession) {
  ServeToHolder();
  LoseSession();
  RemoveFile();
  TakeRecall(DafsStatus::kBadStateId);
  TakeRecall(DafsStatus::kBadStateId);  // the response may have been on its way
  ExpectGone();
}

TEST_F(UnnamedFileTest, EndsIfTheSessionIsLostAfterTheRemoval) {
  ServeToHolder();
  RemoveFile();
  LoseSession();
  TakeRecall(DafsStatus::kBadHandle);
  TakeRecall(DafsStatus::kBadHandle);
  ExpectGone();
}

TEST_F(UnnamedFileTest, IsKeptUntilTheClientAnswers) {
  ServeToHolder();
  LoseSession();
  RemoveFile();
  absl::SleepFor(2 * options_.recall_time);
  EXPECT_EQ(ReadOfHolder(), "DAFS_STATUS_OK");
  TakeRecall(DafsStatus::kOk);
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  ExpectGone();
}

TEST_F(UnnamedFileTest, EndsIfTheClientDoesNotKnowAnOpenOfALostSession) {
  ServeToHolder();
  EXPECT_EQ(Return(*holder_), "DAFS_STATUS_OK");
  auto opened = holder_->session->Call(OpenFor(wire::kShareRead));
  EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
  LoseSession();
  RemoveFile();
  const auto answer = [&](DafsStatus status) {
    wire::BcRecallArgs args;
    const wire::RequestHeader header = Take(&args);
    EXPECT_EQ(args.state_id, opened.res.state_id);
    holder_->Answer({header, {}}, status);
  };
  answer(DafsStatus::kBadStateId);
  answer(DafsStatus::kOk);  // it has got to know it
  EXPECT_TRUE(IsKept());
  LoseSession();
  answer(DafsStatus::kBadStateId);
  answer(DafsStatus::kBadStateId);
  ExpectGone();
}

TEST_F(UnnamedFileTest, HasNoQuestionWithoutALostSession) {
  ServeToHolder();
  RemoveFile();
  holder_->back->Poll();
  EXPECT_FALSE(holder_->back->ready());
  EXPECT_EQ(ReadOfHolder(), "DAFS_STATUS_OK");
}

TEST_F(RecallsTest, NoDelegationWithoutPromisesOrIfTheServerGrantsNone) {
  options_.delegations.most = Type::kRead;
  Serve(wire::kShareBoth);
  EXPECT_EQ(delegation_.delegation_type, Type::kNone);
  EXPECT_EQ(OpenDelegated(*other_, wire::kShareRead).delegation_type, Type::kNone);
}

}  // namespace
}  // namespace dafs::server
