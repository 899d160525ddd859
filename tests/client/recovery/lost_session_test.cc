// State that continues in the next session: the byte order, credentials, interrupted chains, and
// the requests about them that arrive damaged.
#include <vector>

#include "client/recovery/request_executor.h"
#include "client/session/session_keeper.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::ElementsAre;
using wire::DafsStatus;
using wire::Proc;

class LostSessionTest : public ScriptedTest {
 protected:
  absl::StatusOr<Node> MakeDirectory() {
    return Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes()));
  }
  // Makes the server execute the next CREATE. Its reply is lost with the session.
  void LoseCreate() {
    server_.script = [this, done = false](ScriptedConnection& c, const Request& request) mutable {
      if (done || request.header.procedure != Proc::kCreate) return false;
      done = true;
      server_.Serve(c, request);
      c.Close(absl::OkStatus());
      return true;
    };
  }
  wire::FileHandle dir_;
};

// Shows DAFS-6.1.1.5-03: the stored replies have the byte order of the old session (R49).
TEST_F(LostSessionTest, NextSessionKeepsTheByteOrder) {
  for (wire::ByteOrder order : {wire::ByteOrder::kLittle, wire::ByteOrder::kBig}) {
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    server_.log.clear();
    options_.byte_order = order;
    MakeFiles();
    LoseCreate();
    ASSERT_OK(MakeDirectory());
    EXPECT_EQ(server_.Count(Proc::kFetchResponse), 1);
    for (const auto& seen : server_.log) EXPECT_EQ(seen.order, order);
  }
}

// Shows DAFS-6.2.8-07, DAFS-5.2.5-06 and DAFS-3.1.2.5-02 (the credentials).
TEST_F(LostSessionTest, CredentialsAreReregisteredUnderANewClientId) {
  MakeFiles();
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(server_.credentials, 1u);
  server_.Restart();
  server_.log.clear();
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(server_.credentials, 2u);
  wire::CredHandle second;
  second.bytes[0] = 2;
  for (const auto& seen : server_.log) {
    if (seen.proc != Proc::kLookup) continue;
    EXPECT_EQ(seen.cred, second);
  }
}

// Shows DAFS-2.4.3-02: all sessions of a client have one verifier; the client's next instance has
// another.
TEST_F(LostSessionTest, VerifierIsSharedByAllSessionsOfAClient) {
  std::vector<wire::Verifier> seen;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kClientConnectAuth) {
      seen.push_back(request.Decode<wire::ClientConnectAuthArgs>().client_verifier);
    }
    return false;
  };
  for (int i = 0; i < 2; ++i) {
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    MakeFiles();
    ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
    server_.Restart();
    ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  }
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_FALSE(seen[0].is_zero());
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[2], seen[3]);
  EXPECT_NE(seen[0], seen[2]);
}

// The change was executed. A damaged CHECK_RESPONSE or FETCH_RESPONSE proves nothing about it.
TEST_F(LostSessionTest, DamagedFetchResponseIsResent) {
  options_.checksums = true;
  for (const Proc question : {Proc::kCheckResponse, Proc::kFetchResponse}) {
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    MakeFiles();
    const int before = server_.executed[Proc::kCreate];
    LoseCreate();
    int damaged = 2;
    server_.script = [&, inner = std::move(server_.script)](ScriptedConnection& c,
                                                            const Request& request) {
      if (request.header.procedure != question || damaged == 0) return inner(c, request);
      --damaged;
      c.Refuse(request, DafsStatus::kChksum);
      return true;
    };
    ASSERT_OK(MakeDirectory());
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(server_.executed[Proc::kCreate], before + 1);
    server_.script = nullptr;
  }
}

// Shows DAFS-3.1.1.1.1-07 (the client's part). By the server's clock, what a session has proven may
// expire at any request: of the operation, or those that register, reclaim, fetch and discard.
TEST_F(LostSessionTest, RequestOfAnExpiredSessionIsMadeByTheNextOne) {
  bool was_refused = true;
  for (int refused = 1; was_refused; ++refused) {
    SCOPED_TRACE(refused);
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    MakeFiles();
    const int before = server_.executed[Proc::kCreate];
    LoseCreate();
    was_refused = false;
    server_.script = [&, inner = std::move(server_.script), requests = 0](
                         ScriptedConnection& c, const Request& request) mutable {
      const bool is_login = request.header.procedure == Proc::kClientConnectAuth;
      if (is_login || was_refused || ++requests != refused) return inner(c, request);
      was_refused = true;
      c.Refuse(request, DafsStatus::kNotAuthenticated);
      return true;
    };
    ASSERT_OK(MakeDirectory());
    EXPECT_EQ(server_.executed[Proc::kCreate], before + 1);
    server_.script = nullptr;
  }
}

// A chain LOCK, READ, LOCKU whose session breaks.
class CutChainTest : public ScriptedTest {
 protected:
  CutChainTest() { MakeClient(); }

  // Returns which of these three procedures the server received, in order.
  std::vector<Proc> Asked() const {
    std::vector<Proc> asked;
    for (const auto& seen : server_.log) {
      const bool ours =
          seen.proc == Proc::kLock || seen.proc == Proc::kReadInline || seen.proc == Proc::kLocku;
      if (ours) asked.push_back(seen.proc);
    }
    return asked;
  }
  void RunChain() {
    SessionKeeper session_keeper(*client_, *loop_, nullptr, "a test");
    RequestExecutor executor(*client_, *loop_, session_keeper);
    Call<wire::LockArgs> lock;
    lock.args.length = 10;
    Call<wire::ReadInlineArgs> read;
    read.args.byte_count = 10;
    Call<wire::LockuArgs> unlock;
    unlock.args.length = 10;
    CallBase* const chain[] = {&lock, &read, &unlock};
    EXPECT_OK(Await(executor.RunGated(RequestExecutor::Gate::kNone, nullptr, chain)));
    for (const CallBase* call : chain) EXPECT_TRUE(call->ok());
    EXPECT_EQ(read.res.bytes_read, 10u);
    executor.Shutdown();
    session_keeper.Shutdown();
  }
};

// Shows DAFS-4.3.1-12: the lock is still held, so the chain resumes at the interrupted read.
TEST_F(CutChainTest, CutBeforeTheUnlockOnlyTheRestIsReissued) {
  server_.script = [done = false](ScriptedConnection& c, const Request& request) mutable {
    if (done || request.header.procedure != Proc::kReadInline) return false;
    done = true;
    c.CloseAfterAnswers();
    return true;
  };
  RunChain();
  EXPECT_THAT(Asked(),
              ElementsAre(Proc::kLock, Proc::kReadInline, Proc::kReadInline, Proc::kLocku));
}

// Shows DAFS-4.3.1-11: the data that was read is lost, and a read alone would not be under that
// lock.
TEST_F(CutChainTest, CutAfterTheUnlockTheWholeChainIsReissued) {
  server_.script = [this, done = false](ScriptedConnection& c, const Request& request) mutable {
    if (done || request.header.procedure != Proc::kLocku) return false;
    done = true;
    server_.Serve(c, request);
    c.Close(absl::OkStatus());
    return true;
  };
  RunChain();
  EXPECT_THAT(Asked(), ElementsAre(Proc::kLock, Proc::kReadInline, Proc::kLocku, Proc::kLock,
                                   Proc::kReadInline, Proc::kLocku));
}

}  // namespace
}  // namespace dafs::client::testing
