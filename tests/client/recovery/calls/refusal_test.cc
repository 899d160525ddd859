// The remedy for a refused request, how often it may be tried, and the meaning of an answer about a
// lost request.
#include "client/recovery/calls/refusal.h"

#include "client/recovery/calls/chain_members.h"
#include "client/recovery/request_outcome.h"
#include "gtest/gtest.h"
#include "wire/protocol/broken_lock.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

Remedy RemedyOf(DafsStatus status, bool as_user = true, bool is_first = true) {
  Call<wire::GetattrInlineArgs> call;
  call.status = status;
  return RemedyFor(call, as_user, is_first);
}

TEST(RefusalTest, MostRefusalsAreTheResult) {
  for (const DafsStatus status : {DafsStatus::kNoEnt, DafsStatus::kAcces, DafsStatus::kIo,
                                  DafsStatus::kNotSupp, DafsStatus::kLocked}) {
    EXPECT_EQ(RemedyOf(status), Remedy::kNone);
  }
}

TEST(RefusalTest, EachRefusalHasItsRemedy) {
  EXPECT_EQ(RemedyOf(DafsStatus::kDelay), Remedy::kWait);
  EXPECT_EQ(RemedyOf(DafsStatus::kGrace), Remedy::kWait);
  EXPECT_EQ(RemedyOf(DafsStatus::kChksum), Remedy::kSendAgain);
  EXPECT_EQ(RemedyOf(DafsStatus::kStaleClientId), Remedy::kNewSession);
  EXPECT_EQ(RemedyOf(DafsStatus::kFhExpired), Remedy::kRenewRoot);
  EXPECT_EQ(RemedyOf(DafsStatus::kStale), Remedy::kRenewRoot);
  EXPECT_EQ(RemedyOf(DafsStatus::kBadHandle), Remedy::kRenewRoot);
}

TEST(RefusalTest, CredentialIsRegisteredAgainOnlyForAUser) {
  EXPECT_EQ(RemedyOf(DafsStatus::kNoCreds, true), Remedy::kRegister);
  EXPECT_EQ(RemedyOf(DafsStatus::kNoCreds, false), Remedy::kNone);
}

TEST(RefusalTest, LackOfResourcesIsRetriedWithAShorterChain) {
  EXPECT_EQ(RemedyOf(DafsStatus::kResource, true, false), Remedy::kSendRest);
  EXPECT_EQ(RemedyOf(DafsStatus::kResource, true, true), Remedy::kNone);
}

TEST(RefusalTest, UnknownOpenIsReclaimedExceptForItsClose) {
  for (const DafsStatus status : {DafsStatus::kStaleStateId, DafsStatus::kOldStateId,
                                  DafsStatus::kBadStateId, DafsStatus::kExpired}) {
    Call<wire::ReadInlineArgs> read;
    read.status = status;
    EXPECT_EQ(RemedyFor(read, true, true), Remedy::kNone);  // it uses no open
    read.open.emplace();
    EXPECT_EQ(RemedyFor(read, true, true), Remedy::kReclaim);
    read.open.reset();
    read.source_open.emplace();
    EXPECT_EQ(RemedyFor(read, true, true), Remedy::kReclaim);
    Call<wire::CloseArgs> close;
    close.status = status;
    close.open.emplace();
    EXPECT_EQ(RemedyFor(close, true, true), Remedy::kNone);
  }
}

// A reclaim would give up the locks that the client holds in other ranges of the file.
TEST(RefusalTest, AnOpenThatABrokenLockRefusesIsNotReclaimed) {
  Call<wire::ReadInlineArgs> read;
  read.status = DafsStatus::kStaleStateId;
  read.open.emplace();
  read.spec_cond = wire::kSpcondBrokenLock;
  EXPECT_EQ(RemedyFor(read, true, true), Remedy::kNone);
}

TEST(RefusalTest, RemediesEndAfterSomeTriesExceptWaiting) {
  Remedies remedies;
  EXPECT_FALSE(remedies.Allow(Remedy::kNone));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(remedies.Allow(Remedy::kWait));
    EXPECT_TRUE(remedies.Allow(Remedy::kSendRest));
  }
  for (const Remedy remedy : {Remedy::kSendAgain, Remedy::kRegister, Remedy::kReclaim}) {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(remedies.Allow(remedy));
    EXPECT_FALSE(remedies.Allow(remedy));
  }
  EXPECT_FALSE(remedies.Allow(Remedy::kNewSession));  // counts with kReclaim
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(remedies.Allow(Remedy::kRenewRoot));
  EXPECT_FALSE(remedies.Allow(Remedy::kRenewRoot));
}

TEST(RequestOutcomeTest, StoredResponseIsTheAnswer) {
  EXPECT_EQ(OutcomeOf(true, DafsStatus::kOk), RequestOutcome::kAnswered);
  EXPECT_EQ(OutcomeOf(true, DafsStatus::kExist), RequestOutcome::kAnswered);
  EXPECT_EQ(OutcomeOf(true, DafsStatus::kDelay), RequestOutcome::kAnswered);
}

TEST(RequestOutcomeTest, AnswersAboutTheQueryItself) {
  for (const bool check_ok : {true, false}) {
    EXPECT_EQ(OutcomeOf(check_ok, DafsStatus::kNoXidMatch), RequestOutcome::kNotExecuted);
    EXPECT_EQ(OutcomeOf(check_ok, DafsStatus::kChainBroken), RequestOutcome::kNotExecuted);
    EXPECT_EQ(OutcomeOf(check_ok, DafsStatus::kBadSession), RequestOutcome::kUnsettled);
    EXPECT_EQ(OutcomeOf(check_ok, DafsStatus::kUnknownSession), RequestOutcome::kForgotten);
  }
  for (const DafsStatus status : {DafsStatus::kDelay, DafsStatus::kGrace, DafsStatus::kResource}) {
    EXPECT_EQ(OutcomeOf(false, status), RequestOutcome::kUnsettled);
  }
  EXPECT_EQ(OutcomeOf(false, DafsStatus::kNotSupp), RequestOutcome::kForgotten);
  EXPECT_EQ(OutcomeOf(false, DafsStatus::kChksum), RequestOutcome::kForgotten);
}

// ---- Members of a chain ----------------------------------------------------------------------

struct Chain {
  Call<wire::LookupArgs> lookup;
  Call<wire::RemoveArgs> remove;
  Call<wire::GetattrInlineArgs> getattr;
  CallBase* const members[3] = {&lookup, &remove, &getattr};
};

TEST(ChainMembersTest, CountsThoseThatSucceededBeforeTheFirstFailure) {
  Chain chain;
  EXPECT_EQ(AnsweredWell(chain.members), 0u);
  for (CallBase* call : chain.members) call->answered = true;
  EXPECT_EQ(AnsweredWell(chain.members), 3u);
  chain.remove.status = DafsStatus::kNoEnt;
  EXPECT_EQ(AnsweredWell(chain.members), 1u);
}

TEST(ChainMembersTest, FindsTheMemberThatMustNotBeIssuedTwice) {
  Chain chain;
  EXPECT_EQ(FateUnknown(chain.members), nullptr);  // not sent
  chain.lookup.sent = chain.getattr.sent = true;
  EXPECT_EQ(FateUnknown(chain.members), nullptr);
  chain.remove.sent = true;
  EXPECT_EQ(FateUnknown(chain.members), &chain.remove);
  chain.remove.answered = true;
  EXPECT_EQ(FateUnknown(chain.members), &chain.remove);  // executed
  chain.remove.status = DafsStatus::kNoEnt;
  EXPECT_EQ(FateUnknown(chain.members), nullptr);  // refused
}

TEST(ChainMembersTest, RestStartsWithWhatTheMembersBeforeLeave) {
  Chain chain;
  chain.lookup.res.filehandle.fileid.bytes[0] = 5;
  chain.getattr.chf_fh = true;
  CallBase* const members[] = {&chain.lookup, &chain.getattr};
  const OriginalFlags flags(members);
  std::span<CallBase* const> rest = Rest(members, 1);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest.front(), &chain.getattr);
  EXPECT_FALSE(chain.getattr.chf_fh);
  EXPECT_EQ(chain.getattr.args.filehandle, chain.lookup.res.filehandle);
  flags.Restore(members);
  EXPECT_TRUE(chain.getattr.chf_fh);
}

}  // namespace
}  // namespace dafs::client
