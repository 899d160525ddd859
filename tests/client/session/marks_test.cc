// The flags that a session sets on members of chains, and its count of credits after a damaged
// reply.
#include "client/session/session.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::kChfBack;
using wire::kChfFh;
using wire::kChfForw;
using wire::kChfSave;

class SessionMarksTest : public ScriptedTest {
 protected:
  // Returns the flags with which the members of `chain` were sent.
  std::vector<int> FlagsOf(std::span<CallBase* const> chain) {
    server_.log.clear();
    EXPECT_OK(Await(session_->Run(wire::CredHandle(), chain, absl::InfiniteFuture())));
    std::vector<int> flags;
    for (const auto& seen : server_.log) flags.push_back(seen.chain_flags);
    return flags;
  }
};

// Shows DAFS-4.3.1-05, DAFS-4.3.2-06, FAST03-3.1-14.
TEST_F(SessionMarksTest, MembersBeforeAChangeAreMarkedForSaving) {
  ASSERT_OK(MakeSession());
  Call<wire::LookupArgs> lookup;
  lookup.args.path = {"name"};
  Call<wire::GetattrInlineArgs> getattr;
  getattr.chf_fh = true;
  Call<wire::SetattrInlineArgs> setattr;
  setattr.chf_fh = true;
  Call<wire::NullArgs> null, last;
  CallBase* const changes[] = {&null, &lookup, &setattr, &last};
  EXPECT_THAT(FlagsOf(changes),
              ::testing::ElementsAre(kChfForw | kChfSave, kChfForw | kChfBack | kChfSave,
                                     kChfForw | kChfBack | kChfFh, kChfBack));
  CallBase* const looks[] = {&lookup, &getattr};
  EXPECT_THAT(FlagsOf(looks), ::testing::ElementsAre(kChfForw, kChfBack | kChfFh));
  CallBase* const alone[] = {&null};
  EXPECT_THAT(FlagsOf(alone), ::testing::ElementsAre(0));
}

// Shows DAFS-3.2.6.3-10 for a damaged reply: it may have withdrawn a credit, so the client assumes
// that it did. The scripted server records each request beyond its credits.
TEST_F(SessionMarksTest, DamagedReplyMayHaveWithdrawnACredit) {
  options_.checksums = true;
  server_.max_requests = server_.target_nreq = 4;
  ASSERT_OK(MakeSession());
  server_.target_nreq = 2;
  server_.script = [&, done = false](ScriptedConnection& c, const Request& request) mutable {
    if (std::exchange(done, true)) return false;
    std::vector<std::byte> bytes(40);
    wire::EncodeResponseHeaderOnly(c.HeaderFor(request, wire::DafsStatus::kOk), request.order,
                                   bytes, true);
    bytes[8] ^= std::byte{1};  // in target_nreq
    c.Send(std::move(bytes));
    return true;
  };
  Call<wire::NullArgs> null;
  CallBase* const first[] = {&null};
  EXPECT_TRUE(
      absl::IsUnavailable(Await(session_->Run(wire::CredHandle(), first, absl::InfiniteFuture()))));
  EXPECT_EQ(session_->nreq(), 3u);
  Call<wire::NullArgs> nulls[4];  // with three credits they are sent one at a time
  CallBase* const four[] = {&nulls[0], &nulls[1], &nulls[2], &nulls[3]};
  EXPECT_OK(Await(session_->Run(wire::CredHandle(), four, absl::InfiniteFuture())));
  EXPECT_EQ(session_->nreq(), 2u);
  // The client uses the target in later replies again.
  server_.target_nreq = 8;
  EXPECT_OK(Await(session_->Run(wire::CredHandle(), first, absl::InfiniteFuture())));
  EXPECT_EQ(session_->nreq(), 8u);
}

}  // namespace
}  // namespace dafs::client::testing
