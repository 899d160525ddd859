// The order of checks of WIRE 9.2 and the chaining rules of section 8.
#include "wire/rules/request_check.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "wire/codec/checksum.h"
#include "wire/messages/chain.h"

namespace dafs::wire {
namespace {

constexpr auto kLittle = ByteOrder::kLittle;

RequestContext Authenticated() {
  RequestContext context;
  context.order = kLittle;
  context.has_session = true;
  context.authenticated = true;
  context.granted_nreq = 4;
  return context;
}

template <class Args>
std::vector<std::byte> Message(const Args& args, uint16_t chain_flags = 0,
                               RequestHeader header = {}, bool checksum = false) {
  header.chain_flags = chain_flags;
  std::vector<std::byte> out(EncodedSize(args));
  EXPECT_TRUE(EncodeRequest(header, args, kLittle, out, {.checksum = checksum}).ok());
  return out;
}

LookupArgs Lookup() {
  LookupArgs args;
  args.path = {"x"};
  return args;
}
CloseArgs Close() { return {}; }
ReadInlineArgs Read() { return {}; }

// Sends requests one after the other, each done before the next. Send returns the status.
class Chain {
 public:
  template <class Args>
  DafsStatus Send(const Args& args, uint16_t flags, DafsStatus executed = DafsStatus::kOk) {
    last = CheckRequest(Message(args, flags), Authenticated(), state);
    if (last.status != DafsStatus::kOk) return last.status;
    if (executed != DafsStatus::kOk) state.broken = true;
    return executed;
  }
  ChainState state;
  RequestVerdict last;
};

DafsStatus StatusOf(const std::vector<std::byte>& message, const RequestContext& context) {
  ChainState chain;
  return CheckRequest(message, context, chain).status;
}

// Shows DAFS-4.3.1-01, DAFS-4.3.2-02, DAFS-4.3.2-07: the classes of the table are checked below.
TEST(RequestCheckTest, EveryProcedureAcceptsOnlyTheChainFlagsOfTheTable) {
  for (const ProcInfo& info : kProcedures) {
    for (const uint16_t flag : {kChfForw, kChfSave, kChfFh, kChfStateId}) {
      VisitProc(info.number, [&]<Proc kProc>() {
        ChainState chain;
        const bool needs_back = flag == kChfFh || flag == kChfStateId;
        uint16_t flags = flag;
        if (flag == kChfSave) flags |= kChfForw;
        if (needs_back) {
          flags |= kChfBack;
          chain.forw = true;
        }
        RequestContext context = Authenticated();
        context.back_control = info.direction == Direction::kToClient;
        typename ProcTraits<kProc>::Args args;
        RequestVerdict v = CheckRequest(Message(args, flags), context, chain);
        if (v.status == DafsStatus::kIllegalState) return;  // a connect procedure on a session
        const bool allowed = flag == kChfForw   ? info.chainable()
                             : flag == kChfSave ? info.category == Category::kSimple
                             : flag == kChfFh   ? info.chf_fh
                                                : info.chf_state_id;
        EXPECT_EQ(v.status, allowed ? DafsStatus::kOk : DafsStatus::kChainForm)
            << info.name << " flag " << flag;
      });
    }
  }
}

// WIRE 9.8.
TEST(RequestCheckTest, AttributesAfterTheRequestNeedTheExtensionAndAFilehandle) {
  RequestContext context = Authenticated();
  for (const uint16_t flags : {kChfAttributes, kChfOtherAttributes, kChfAnyAttributes}) {
    context.attributes_after = false;
    EXPECT_EQ(StatusOf(Message(Lookup(), flags), context), DafsStatus::kChainForm);
    context.attributes_after = true;
    EXPECT_EQ(StatusOf(Message(Lookup(), flags), context), DafsStatus::kOk);
    EXPECT_EQ(StatusOf(Message(Close(), flags), context), DafsStatus::kOk);
    // A bulk fetch, one that leaves no filehandle, and one that is special.
    EXPECT_EQ(StatusOf(Message(GetattrInlineArgs(), flags), context), DafsStatus::kChainForm);
    EXPECT_EQ(StatusOf(Message(NullArgs(), flags), context), DafsStatus::kChainForm);
    EXPECT_EQ(StatusOf(Message(PromisesArgs(), flags), context), DafsStatus::kChainForm);
  }
}

// Shows DAFS-4.3.2-04, DAFS-4.3.2-05.
TEST(RequestCheckTest, BackMustEqualForwOfThePreviousRequest) {
  Chain c;
  EXPECT_EQ(c.Send(Lookup(), kChfBack), DafsStatus::kChainForm);  // at first FORW counts as 0
  EXPECT_EQ(c.Send(Lookup(), kChfForw), DafsStatus::kOk);
  EXPECT_FALSE(c.last.continues_chain);
  EXPECT_EQ(c.Send(Lookup(), 0), DafsStatus::kChainForm);
  EXPECT_EQ(c.Send(Lookup(), 0), DafsStatus::kOk);
}

// Shows DAFS-4.3.3-03. WIRE 8.2: requests that depend on the invalid one are broken too.
TEST(RequestCheckTest, MissingBackEndsTheChainAndBreaksTheNext) {
  Chain c;
  EXPECT_EQ(c.Send(Lookup(), kChfForw), DafsStatus::kOk);
  EXPECT_EQ(c.Send(Lookup(), kChfForw), DafsStatus::kChainForm);
  EXPECT_EQ(c.Send(Lookup(), kChfForw | kChfBack), DafsStatus::kChainBroken);
  EXPECT_EQ(c.Send(Lookup(), kChfBack), DafsStatus::kChainBroken);
  EXPECT_EQ(c.Send(Lookup(), 0), DafsStatus::kOk);
}

// Shows DAFS-4.3-03, DAFS-4.3.2-01, DAFS-4.3.2-03.
TEST(RequestCheckTest, FailureBreaksOnlyTheRestOfTheChain) {
  Chain c;
  EXPECT_EQ(c.Send(Lookup(), kChfForw, DafsStatus::kNoEnt), DafsStatus::kNoEnt);
  EXPECT_EQ(c.Send(Close(), kChfForw | kChfBack | kChfFh), DafsStatus::kChainBroken);
  EXPECT_EQ(c.Send(Read(), kChfBack | kChfFh), DafsStatus::kChainBroken);
  EXPECT_EQ(c.Send(Lookup(), kChfForw), DafsStatus::kOk);
  EXPECT_EQ(c.Send(Close(), kChfBack | kChfFh | kChfStateId), DafsStatus::kOk);
  EXPECT_TRUE(c.last.continues_chain);
}

// WIRE 8.2: a request is a member of its chain, whatever step it fails at.
TEST(RequestCheckTest, MemberThatFailsBeforeStep7BreaksItsChain) {
  ChainState chain;
  EXPECT_EQ(CheckRequest(Message(Lookup(), kChfForw), Authenticated(), chain).status,
            DafsStatus::kOk);
  RequestHeader old;
  old.protocol_version = 2;
  const auto wrong = Message(Lookup(), kChfForw | kChfBack, old);
  EXPECT_EQ(CheckRequest(wrong, Authenticated(), chain).status, DafsStatus::kIllegalProt);
  EXPECT_EQ(CheckRequest(Message(Lookup(), kChfBack), Authenticated(), chain).status,
            DafsStatus::kChainBroken);
}

// Shows DAFS-4.3.1-03, DAFS-4.3.1-08, DAFS-4.3.1-09.
TEST(RequestCheckTest, ModifyingRequestAfterABulkFetchIsRefused) {
  Chain c;
  EXPECT_EQ(c.Send(Read(), kChfForw), DafsStatus::kOk);
  EXPECT_EQ(c.Send(LockuArgs(), kChfForw | kChfBack | kChfFh), DafsStatus::kOk);
  EXPECT_EQ(c.Send(Close(), kChfBack | kChfFh), DafsStatus::kChainForm);
  EXPECT_EQ(c.Send(Close(), 0), DafsStatus::kOk);
}

// Shows DAFS-4.3.2-07, DAFS-4.3.2-09, DAFS-4.3.2-11.
TEST(RequestCheckTest, MisplacedFlagsReturnChainForm) {
  EXPECT_EQ(Chain().Send(DisconnectArgs(), kChfForw), DafsStatus::kChainForm);
  EXPECT_EQ(Chain().Send(Lookup(), kChfSave), DafsStatus::kChainForm);
  EXPECT_EQ(Chain().Send(Close(), kChfSave | kChfForw), DafsStatus::kChainForm);
  EXPECT_EQ(Chain().Send(Lookup(), kChfFh), DafsStatus::kChainForm);
  EXPECT_EQ(Chain().Send(Close(), kChfStateId), DafsStatus::kChainForm);
  EXPECT_EQ(Chain().Send(Lookup(), 0x20), DafsStatus::kChainForm);
}

TEST(RequestCheckTest, StateIdFlagOfOpenNeedsClaimDelegateCur) {
  OpenArgs args;
  args.pathname = {"f"};
  args.share_access = kShareRead;
  Chain c;
  ASSERT_EQ(c.Send(Lookup(), kChfForw), DafsStatus::kOk);
  ASSERT_EQ(c.Send(args, kChfBack | kChfStateId), DafsStatus::kOk);
  OpenArgs decoded;
  std::span<const std::byte> data;
  const auto message = Message(args, kChfBack | kChfStateId);
  EXPECT_EQ(CheckArgs(message, c.last, 0, decoded, data), DafsStatus::kChainForm);
  args.claim_type = OpenClaimType::kDelegateCur;
  EXPECT_EQ(CheckArgs(Message(args), c.last, 0, decoded, data), DafsStatus::kOk);
  EXPECT_EQ(ChainStateId(decoded), &decoded.claimdelcur_stateid);
}

// Shows DAFS-3.2.5-03, DAFS-3.2.5-04.
TEST(RequestCheckTest, ChecksumIsCheckedIfOneIsDue) {
  RequestContext context = Authenticated();
  context.checksum_due = true;
  std::vector<std::byte> message = Message(Lookup(), 0, {}, /*checksum=*/true);
  EXPECT_EQ(StatusOf(message, context), DafsStatus::kOk);
  for (size_t i = 0; i < message.size(); ++i) {
    std::vector<std::byte> bad = message;
    bad[i] ^= std::byte{0x10};
    ChainState chain;
    const RequestVerdict v = CheckRequest(bad, context, chain);
    EXPECT_TRUE(v.close_channel || v.status == DafsStatus::kChksum) << i;
  }
  EXPECT_EQ(StatusOf(Message(Lookup()), context), DafsStatus::kChksum);
}

// Shows DAFS-6.1.3-03: the version in the response to a failed connect.
TEST(RequestCheckTest, OtherVersionsGetTheNextLowerOneInTheResponse) {
  RequestContext fresh;
  ClientConnectArgs connect;
  connect.client_id_string = "c";
  for (const uint32_t version : {0u, 2u, 0xffffffffu}) {
    RequestHeader header;
    header.protocol_version = version;
    ChainState chain;
    const RequestVerdict v = CheckRequest(Message(connect, 0, header), fresh, chain);
    EXPECT_EQ(v.status, DafsStatus::kIllegalProt);
    EXPECT_TRUE(v.header_only);
    EXPECT_EQ(v.response_version, version == 0 ? 0u : 1u);
  }
  EXPECT_EQ(StatusOf(Message(connect), fresh), DafsStatus::kOk);
}

TEST(RequestCheckTest, ChannelStateDecidesWhichProceduresAreAllowed) {
  RequestContext none;
  EXPECT_EQ(StatusOf(Message(NullArgs()), none), DafsStatus::kIllegalState);
  EXPECT_EQ(StatusOf(Message(ConnectBindArgs()), none), DafsStatus::kOk);
  EXPECT_EQ(StatusOf(Message(ClientConnectArgs()), Authenticated()), DafsStatus::kIllegalState);
  EXPECT_EQ(StatusOf(Message(ConnectBindArgs()), Authenticated()), DafsStatus::kIllegalState);
  RequestContext half = Authenticated();
  half.authenticated = false;
  EXPECT_EQ(StatusOf(Message(Lookup()), half), DafsStatus::kNotAuthenticated);
  EXPECT_EQ(StatusOf(Message(ServerAuthArgs()), half), DafsStatus::kNotAuthenticated);
  EXPECT_EQ(StatusOf(Message(ClientAuthArgs()), half), DafsStatus::kOk);
  EXPECT_EQ(StatusOf(Message(SecinfoArgs()), half), DafsStatus::kOk);
  EXPECT_EQ(StatusOf(Message(DisconnectArgs()), half), DafsStatus::kOk);
  RequestContext bound = Authenticated();
  bound.bound_channel = true;
  EXPECT_EQ(StatusOf(Message(ConnectBindArgs()), bound), DafsStatus::kOk);
  EXPECT_EQ(StatusOf(Message(Lookup()), bound), DafsStatus::kNotSupp);
}

// The table of section 6. Shows DAFS-3.2.5-06, DAFS-3.2.5-07.
TEST(RequestCheckTest, ConnectRequestCarriesAChecksumOnlyIfItRenewsABind) {
  RequestContext context = Authenticated();
  context.checksum_due = true;
  ChainState chain;
  RequestVerdict v = CheckRequest(Message(ClientConnectArgs()), context, chain);
  EXPECT_EQ(v.status, DafsStatus::kIllegalState);
  EXPECT_FALSE(v.checksum_due);
  context.bound_channel = true;
  v = CheckRequest(Message(ConnectBindArgs()), context, chain);
  EXPECT_EQ(v.status, DafsStatus::kChksum);
  EXPECT_TRUE(v.checksum_due);
  v = CheckRequest(Message(ClientConnectArgs()), context, chain);
  EXPECT_EQ(v.status, DafsStatus::kIllegalState);
  EXPECT_FALSE(v.checksum_due);
}

// Shows DAFS-4.3.1-04, DAFS-4.3.1-06, DAFS-4.3.1-07, and which procedures DAFS-4.3.1-01 (all
// others), DAFS-4.3.1-03, DAFS-4.3.1-08 and DAFS-4.3.1-09 are about.
TEST(RequestCheckTest, ClassesAreThoseOfTheDraft) {
  const std::map<Category, std::string> classes = {
      {Category::kSimple,
       "ACCESS CACHE_HINT CHECK_RESPONSE FETCH_RESPONSE GET_ROOT_HANDLE LOOKUP LOOKUPP NULL "
       "NVERIFY OPENATTR VERIFY"},
      {Category::kBulkFetch,
       "GETATTR_DIRECT GETATTR_INLINE GET_FSATTR READDIR_DIRECT READDIR_INLINE READLINK_DIRECT "
       "READLINK_INLINE READ_DIRECT READ_INLINE"},
      {Category::kFsStateModifying,
       "APPEND_DIRECT APPEND_INLINE BATCH_SUBMIT CLOSE COMMIT CREATE DELEGPURGE DELEGRETURN "
       "HURRY_UP LINK OPEN REMOVE RENAME SETATTR_DIRECT SETATTR_INLINE WRITE_DIRECT WRITE_INLINE"},
      {Category::kLockStateModifying, "LOCK LOCKT LOCKU OPEN_DOWNGRADE"},
  };
  for (const auto& [category, expected] : classes) {
    std::set<std::string> names;
    for (const ProcInfo& info : kProcedures) {
      if (info.category == category && info.section != "private") names.emplace(info.name);
    }
    EXPECT_EQ(absl::StrJoin(names, " "), expected);
  }
}

// Shows DAFS-4.3-01.
TEST(RequestCheckTest, BackControlAcceptsItsOwnProceduresWithoutChains) {
  RequestContext client = Authenticated();
  client.back_control = true;
  EXPECT_EQ(StatusOf(Message(BcNullArgs()), client), DafsStatus::kOk);
  EXPECT_EQ(StatusOf(Message(BcRecallArgs(), kChfForw), client), DafsStatus::kChainForm);
  EXPECT_EQ(StatusOf(Message(NullArgs()), client), DafsStatus::kNotSupp);
  EXPECT_EQ(StatusOf(Message(BcNullArgs()), Authenticated()), DafsStatus::kNotSupp);
}

TEST(RequestCheckTest, UnofferedProceduresAndUnknownCredentialsAreRefused) {
  RequestContext context = Authenticated();
  context.implements = [](Proc proc) { return proc != Proc::kLookup; };
  EXPECT_EQ(StatusOf(Message(Lookup()), context), DafsStatus::kNotSupp);
  EXPECT_EQ(StatusOf(Message(NullArgs()), context), DafsStatus::kOk);
  RequestHeader header;
  header.cred_handle = {{1, 2, 3, 4}};
  EXPECT_EQ(StatusOf(Message(NullArgs(), 0, header), context), DafsStatus::kNoCreds);
  context.knows_cred = [](const CredHandle& c) { return c.bytes[0] == 1; };
  EXPECT_EQ(StatusOf(Message(NullArgs(), 0, header), context), DafsStatus::kOk);
  header.stream_id = 4;  // beyond the four granted; step 8 comes before step 9
  header.cred_handle = {{2, 2, 2, 2}};
  EXPECT_EQ(StatusOf(Message(NullArgs(), 0, header), context), DafsStatus::kInval);
}

// Shows DAFS-6.1.1.5-02 (no change within a session).
TEST(RequestCheckTest, OtherByteOrderClosesTheChannel) {
  std::vector<std::byte> big(40);
  ASSERT_TRUE(EncodeRequest({}, NullArgs(), ByteOrder::kBig, big).ok());
  ChainState chain;
  EXPECT_TRUE(CheckRequest(big, Authenticated(), chain).close_channel);
  RequestContext either = Authenticated();
  either.order = std::nullopt;
  EXPECT_FALSE(CheckRequest(big, either, chain).close_channel);
}

// Shows DAFS-6.1.1.1-04.
TEST(RequestCheckTest, TwoRequestsInOneMessageCloseTheChannel) {
  const std::vector<std::byte> one = Message(NullArgs());
  std::vector<std::byte> two = one;
  two.insert(two.end(), one.begin(), one.end());
  ChainState chain;
  EXPECT_FALSE(CheckRequest(one, Authenticated(), chain).close_channel);
  EXPECT_TRUE(CheckRequest(two, Authenticated(), chain).close_channel);
}

}  // namespace
}  // namespace dafs::wire
