// The state that a restarted server has of its clients: which clients may reclaim, which operations
// wait for them, and what a client keeps after its lease has expired.
#include <fstream>

#include "tests/server/clients/grace_fixture.h"
#include "tests/server/files_in.h"

namespace dafs::server {
namespace {

// Shows DAFS-4.4.1.2-05, DAFS-4.4.1.2-08, DAFS-6.5.24-14.
TEST_F(GraceTest, OpenIsReclaimedUnderANewClientId) {
  auto before = Client("c1");
  const wire::ClientId old_id = negotiated_.client_id;
  auto opened = Open(*before, "f");
  ASSERT_EQ(opened.name(), kOk);
  StartServer();
  auto after = Client("c1");
  EXPECT_NE(negotiated_.client_id, old_id);
  EXPECT_EQ(Read(*after, opened.res.filehandle, opened.res.state_id).name(),
            "DAFSERR_STALE_STATEID");
  auto reclaimed = Reclaim(*after, opened.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Read(*after, opened.res.filehandle, reclaimed.res.state_id).name(), kOk);
  // The client held nothing else, and no reservation.
  EXPECT_EQ(Reclaim(*after, opened.res.filehandle, 3).name(), kExpired);
}

// No client has state to reclaim, so no operation waits.
TEST_F(GraceTest, FreshServerHasNoGracePeriod) {
  auto client = Client("c1");
  auto opened = Open(*client, "f", 3);
  EXPECT_EQ(opened.name(), kOk);
  EXPECT_EQ(Reclaim(*client, opened.res.filehandle).name(), kExpired);
}

// Shows DAFS-4.4.1.2-27 (opens), DAFS-4.4.1.2-29, DAFS-4.4.1.2-30: only operations that may
// conflict wait, and at most until every client has reclaimed. An admitted operation prevents no
// reclaim.
TEST_F(GraceTest, ConflictingOperationsWaitUntilAllHaveReclaimed) {
  auto before = Client("c1");
  auto opened = Open(*before, "f");
  StartServer();
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f", 3).name(), kGrace);
  EXPECT_EQ(Open(*other, "f").name(), kOk);
  EXPECT_EQ(Read(*other, opened.res.filehandle).name(), kOk);
  auto after = Client("c1");
  ASSERT_EQ(Reclaim(*after, opened.res.filehandle).name(), kOk);
  EXPECT_EQ(Open(*other, "g", 3).name(), kOk);
  EXPECT_EQ(Open(*other, "f", 3).name(), "DAFSERR_DENIED");
}

// Shows DAFS-4.4.1.2-29: the same with a reservation to reclaim. Every OPEN might conflict with it,
// and so might I/O without an open.
TEST_F(GraceTest, ReservationToReclaimDelaysOpensAndReads) {
  auto before = Client("c1");
  auto opened = Open(*before, "f", 3);
  ASSERT_EQ(opened.name(), kOk);
  StartServer();
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f").name(), kGrace);
  EXPECT_EQ(Read(*other, opened.res.filehandle).name(), kGrace);
  auto after = Client("c1");
  ASSERT_EQ(Reclaim(*after, opened.res.filehandle, 3).name(), kOk);
  EXPECT_EQ(Open(*other, "f").name(), "DAFSERR_DENIED");
  EXPECT_EQ(Open(*other, "g").name(), kOk);
}

// Shows DAFS-4.4.1.6-05 (opens): a client that does not reclaim in time loses its state.
TEST_F(GraceTest, EndsAfterTheGracePeriod) {
  options_.grace_time = absl::Milliseconds(300);
  options_.lease_time = absl::Milliseconds(800);
  auto before = Client("c1");
  auto opened = Open(*before, "f", 3);
  StartServer();
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f", 3).name(), kGrace);
  EXPECT_EQ(OpenWhenPossible(*other, "f", 3), kOk);
  auto after = Client("c1");
  EXPECT_EQ(Reclaim(*after, opened.res.filehandle).name(), kExpired);
}

// Shows DAFS-4.4.1.2-26: at the default options, clients have one lease period to reclaim. Shows
// DAFS-4.4.1.6-05 (locks): after it, another client gets the lock that was not reclaimed.
TEST_F(GraceTest, ConflictsWaitForOneLeasePeriod) {
  ASSERT_EQ(options_.grace_time, ServerOptions().grace_time);
  options_.lease_time = absl::Milliseconds(1500);
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  if (HasFailure()) return;
  const absl::Time start = Loop::Now();
  StartServer();
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, held.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  auto other = Client("c2");
  auto others = Open(*other, "f");
  const absl::Time deadline = start + kPatience;
  std::string status;
  int waits = 0;
  do {  // the lock from byte 20 is not reclaimed
    status = Lock(*other, others.res, 20).name();
    waits += status == kGrace;
  } while (status == kGrace && Loop::Now() < deadline);
  EXPECT_EQ(status, kOk);
  EXPECT_GT(waits, 0);
  EXPECT_GE(Loop::Now() - start, options_.lease_time);
}

// Shows DAFS-4.4.1.6-07: the period has ended early, and a client reclaims more locks than were
// counted. One of them may have been granted to another client that has released it.
TEST_F(GraceTest, LockThatAnotherClientHasHeldMeanwhileIsNotReclaimed) {
  auto before = Client("c1");
  auto f = Open(*before, "f");
  auto g = Open(*before, "g");
  for (uint64_t offset : {0u, 20u, 10u}) {  // the third joins the others into one
    ASSERT_EQ(Lock(*before, f.res, offset).name(), kOk);
    ASSERT_EQ(Lock(*before, g.res, offset).name(), kOk);
  }
  StartServer();
  auto after = Client("c1");
  auto f_after = Reclaim(*after, f.res.filehandle);
  auto g_after = Reclaim(*after, g.res.filehandle);
  EXPECT_EQ(Lock(*after, f_after.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*after, g_after.res, 0, wire::kLockReclaim).name(), kOk);
  auto other = Client("c2");
  auto others = Open(*other, "f");
  ASSERT_EQ(Lock(*other, others.res, 20).name(), kOk);
  wire::LockuArgs unlock;
  unlock.filehandle = others.res.filehandle;
  unlock.state_id = others.res.state_id;
  unlock.offset = 20;
  unlock.length = 10;
  ASSERT_EQ(other->Call(unlock).name(), kOk);
  EXPECT_EQ(Lock(*after, f_after.res, 20, wire::kLockReclaim).name(), kExpired);
  EXPECT_EQ(Lock(*after, g_after.res, 20, wire::kLockReclaim).name(), kOk);
}

// A client that was itself restarted has nothing to reclaim.
TEST_F(GraceTest, EndsWhenTheClientReconnectsAsANewInstance) {
  auto before = Client("c1", 1);
  auto opened = Open(*before, "f", 3);
  StartServer();
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f").name(), kGrace);
  auto after = Client("c1", 2);
  EXPECT_EQ(Open(*other, "f").name(), kOk);
  EXPECT_EQ(Reclaim(*after, opened.res.filehandle).name(), kExpired);
}

// State that was not reclaimed before another restart can still be reclaimed after it.
TEST_F(GraceTest, SurvivesASecondRestart) {
  auto before = Client("c1");
  auto f = Open(*before, "f");
  auto g = Open(*before, "g");
  StartServer();
  auto between = Client("c1");
  ASSERT_EQ(Reclaim(*between, f.res.filehandle).name(), kOk);
  StartServer();
  auto after = Client("c1");
  EXPECT_EQ(Reclaim(*after, f.res.filehandle).name(), kOk);
  EXPECT_EQ(Reclaim(*after, g.res.filehandle).name(), kOk);
  EXPECT_EQ(Reclaim(*after, g.res.filehandle, 3).name(), kExpired);
}

// An unlinked file exists while a client may reclaim an open of it. Its last close then deletes it.
TEST_F(GraceTest, UnlinkedOpenFileIsReclaimed) {
  auto before = Client("c1");
  auto opened = Open(*before, "f");
  ASSERT_EQ(Remove(*before, "f").name(), kOk);
  StartServer();
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, opened.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  auto read = Read(*after, opened.res.filehandle, reclaimed.res.state_id);
  EXPECT_EQ(read.res.bytes_read, 6u);
  wire::GetattrInlineArgs getattr;
  getattr.filehandle = opened.res.filehandle;
  getattr.attr_request_bitmap = wire::kFattrNumLinks;
  EXPECT_EQ(after->Call(getattr).res.obj_attributes.num_links, 0u);
  wire::CloseArgs close;
  close.filehandle = opened.res.filehandle;
  close.state_id = reclaimed.res.state_id;
  EXPECT_EQ(after->Call(close).name(), kOk);
  EXPECT_EQ(Read(*after, opened.res.filehandle).name(), "DAFSERR_STALE");
  AwaitNoOrphans();
}

// One client reclaims and closes an unlinked file before another has reclaimed it.
TEST_F(GraceTest, UnlinkedFileOutlivesItsLastCloseWhileOpensAreExpected) {
  auto one = Client("c1"), two = Client("c2");
  auto opened = Open(*one, "f");
  ASSERT_EQ(Open(*two, "f").name(), kOk);
  ASSERT_EQ(Remove(*two, "f").name(), kOk);
  StartServer();
  one = Client("c1");
  auto reclaimed = Reclaim(*one, opened.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Close(*one, reclaimed.res, opened.res.filehandle).name(), kOk);
  two = Client("c2");
  reclaimed = Reclaim(*two, opened.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Read(*two, opened.res.filehandle, reclaimed.res.state_id).res.bytes_read, 6u);
  EXPECT_EQ(Close(*two, reclaimed.res, opened.res.filehandle).name(), kOk);
  AwaitNoOrphans();
}

// The same for a name that is removed after the restart.
TEST_F(GraceTest, FileRemovedDuringGraceOutlivesItsLastCloseWhileOpensAreExpected) {
  auto one = Client("c1"), two = Client("c2");
  auto opened = Open(*one, "f");
  ASSERT_EQ(Open(*two, "f").name(), kOk);
  StartServer();
  one = Client("c1");
  auto reclaimed = Reclaim(*one, opened.res.filehandle);
  ASSERT_EQ(Remove(*one, "f").name(), kOk);
  EXPECT_EQ(Close(*one, reclaimed.res, opened.res.filehandle).name(), kOk);
  two = Client("c2");
  EXPECT_EQ(Reclaim(*two, opened.res.filehandle).name(), kOk);
}

// The client may not have received the response to a CLOSE, and reclaims that open with the others.
// The server must not count it as one of the expected opens.
TEST_F(GraceTest, ReclaimOfAClosedOpenDoesNotCount) {
  auto before = Cached("c1");
  auto f = Open(*before, "f");
  ASSERT_EQ(Open(*before, "g").name(), kOk);
  ASSERT_EQ(Close(*before, f.res, f.res.filehandle).name(), kOk);
  StartServer();
  auto after = Client("c1");
  ASSERT_EQ(Reclaim(*after, f.res.filehandle).name(), kOk);
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "g", 3).name(), kGrace);
}

// The client may not have received the response to a LOCKU, and reclaims that lock too. Its other
// lock stays protected until it is reclaimed.
TEST_F(GraceTest, ReclaimOfAReleasedLockDoesNotCount) {
  auto before = Cached("c1");
  auto held = OpenWithTwoLocks(*before);
  wire::LockuArgs unlock;
  unlock.filehandle = held.res.filehandle;
  unlock.state_id = held.res.state_id;
  unlock.length = 10;
  ASSERT_EQ(before->Call(unlock).name(), kOk);
  StartServer();
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, held.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  auto other = Client("c2");
  auto others = Open(*other, "f");
  ASSERT_EQ(others.name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 20).name(), kGrace);
  EXPECT_EQ(Lock(*after, reclaimed.res, 20, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 20).name(), "DAFSERR_DENIED");
}

// Several sessions of a client reclaim the same open. One of the requests may arrive after the open
// was closed.
TEST_F(GraceTest, OpenReclaimedSeveralTimesCountsOnce) {
  auto before = Client("c1");
  auto f = Open(*before, "f");
  auto g = Open(*before, "g");
  StartServer();
  auto after = Client("c1");
  for (int times = 0; times < 2; ++times) {
    auto reclaimed = Reclaim(*after, f.res.filehandle);
    ASSERT_EQ(reclaimed.name(), kOk);
    EXPECT_EQ(Close(*after, reclaimed.res, f.res.filehandle).name(), kOk);
  }
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f", 3).name(), kGrace);
  ASSERT_EQ(Reclaim(*after, g.res.filehandle).name(), kOk);
  EXPECT_EQ(Open(*other, "f", 3).name(), kOk);
}

TEST_F(GraceTest, UnlinkedFileThatIsNotReclaimedIsDeleted) {
  options_.grace_time = absl::Milliseconds(200);
  options_.lease_time = absl::Milliseconds(400);
  auto before = Client("c1");
  ASSERT_EQ(Open(*before, "f").name(), kOk);
  ASSERT_EQ(Remove(*before, "f").name(), kOk);
  EXPECT_NE(FilesIn(Path("a/.dafsd-orphans")), 0u);
  StartServer();
  AwaitNoOrphans();
}

// The name may be removed before the open is reclaimed.
TEST_F(GraceTest, FileRemovedDuringGraceCanStillBeReclaimed) {
  auto before = Client("c1");
  auto opened = Open(*before, "f");
  StartServer();
  auto other = Client("c2");
  ASSERT_EQ(Remove(*other, "f").name(), kOk);
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, opened.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Read(*after, opened.res.filehandle, reclaimed.res.state_id).res.bytes_read, 6u);
}

// Shows DAFS-4.4.1.2-27 (locks and reads): while locks are to be reclaimed, no other client locks
// or reads.
TEST_F(GraceTest, LocksAreReclaimed) {
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  if (HasFailure()) return;
  StartServer();
  auto other = Client("c2");
  auto others = Open(*other, "f");
  ASSERT_EQ(others.name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 0).name(), kGrace);
  EXPECT_EQ(Read(*other, others.res.filehandle, others.res.state_id).name(), kGrace);
  EXPECT_EQ(Lock(*other, others.res, 0, wire::kLockReclaim).name(), kExpired);
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, held.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 40).name(), kGrace);
  EXPECT_EQ(Lock(*after, reclaimed.res, 20, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 40).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 0).name(), "DAFSERR_DENIED");
  EXPECT_EQ(Lock(*after, reclaimed.res, 60, wire::kLockReclaim).name(), kExpired);
}

// Shows DAFS-4.4.1.6-02: whatever the failure of its holder or the server would mean for a lock.
TEST_F(GraceTest, LocksOfEachKindBehaveAlikeDuringGrace) {
  for (const uint32_t kind : {0u, wire::kLockPersist, wire::kLockAutorecovery,
                              wire::kLockPersist | wire::kLockAutorecovery}) {
    SCOPED_TRACE(kind);
    auto before = Client("c1");
    auto held = Open(*before, "f");
    ASSERT_EQ(Lock(*before, held.res, 0, kind).name(), kOk);
    StartServer();
    auto other = Client("c2");
    auto others = Open(*other, "f");
    ASSERT_EQ(others.name(), kOk);
    EXPECT_EQ(Lock(*other, others.res, 0).name(), kGrace);
    EXPECT_EQ(Lock(*other, others.res, 40).name(), kGrace);
    EXPECT_EQ(Lock(*other, others.res, 0, wire::kLockReclaim).name(), kExpired);
    EXPECT_EQ(Read(*other, others.res.filehandle, others.res.state_id).name(), kGrace);
    auto after = Client("c1");
    auto reclaimed = Reclaim(*after, held.res.filehandle);
    ASSERT_EQ(reclaimed.name(), kOk);
    EXPECT_EQ(Lock(*other, others.res, 0).name(), kGrace);
    EXPECT_EQ(Lock(*after, reclaimed.res, 0, kind | wire::kLockReclaim).name(), kOk);
    EXPECT_EQ(Lock(*other, others.res, 40).name(), kOk);
    EXPECT_EQ(Lock(*other, others.res, 0).name(), "DAFSERR_DENIED");
    EXPECT_EQ(Close(*other, others.res, others.res.filehandle).name(), kOk);
    EXPECT_EQ(Close(*after, reclaimed.res, held.res.filehandle).name(), kOk);
  }
}

// Sessions of one client reclaim the same lock at once, or one session repeats a reclaim after its
// response was lost. The server counts one lock, and the repetition is never too late.
TEST_F(GraceTest, LockReclaimedTwiceCountsOnce) {
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  auto second = Open(*before, "g", 3);
  if (HasFailure()) return;
  StartServer();
  auto other = Client("c2");
  auto one = Client("c1");
  auto two = Client("c1");
  auto reclaimed = Reclaim(*one, held.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  auto again = Reclaim(*two, held.res.filehandle);
  EXPECT_EQ(again.name(), kOk);
  EXPECT_EQ(again.res.state_id, reclaimed.res.state_id);
  EXPECT_EQ(Open(*other, "f").name(), kGrace) << "the reservation is not reclaimed yet";
  EXPECT_EQ(Reclaim(*two, second.res.filehandle, 3).name(), kOk);
  EXPECT_EQ(Reclaim(*one, second.res.filehandle, 3).name(), kOk) << "nothing is left to reclaim";
  auto others = Open(*other, "f");
  ASSERT_EQ(others.name(), kOk);
  EXPECT_EQ(Lock(*one, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*two, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 20).name(), kGrace) << "the second lock is not reclaimed yet";
  EXPECT_EQ(Lock(*two, reclaimed.res, 20, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 40).name(), kOk);
  EXPECT_EQ(Lock(*one, reclaimed.res, 20, wire::kLockReclaim).name(), kOk) << "it has it";
  EXPECT_EQ(Lock(*one, reclaimed.res, 60, wire::kLockReclaim).name(), kExpired);
}

// A client reclaims its locks before anything else. A further recorded lock was granted in a
// response that was lost with the server, so no client waits for it.
TEST_F(GraceTest, LockGrantedInALostResponseDelaysNoClient) {
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  if (HasFailure()) return;
  StartServer();
  auto other = Client("c2");
  auto others = Open(*other, "f");
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, held.res.filehandle);
  ASSERT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 20).name(), kGrace);
  EXPECT_EQ(Read(*after, held.res.filehandle, reclaimed.res.state_id).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 20).name(), kOk);
  EXPECT_EQ(Lock(*other, others.res, 0).name(), "DAFSERR_DENIED");
}

// If the server knows what a client held, a GETATTR of that client does not end its reclaim. After
// a reboot of the machine the server does not know; a GETATTR then shows that the client has
// nothing more to reclaim, and other clients stop waiting.
TEST_F(GraceTest, GetattrEndsTheReclaimOnlyIfTheHeldStateIsUnknown) {
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  if (HasFailure()) return;
  wire::GetattrInlineArgs look;
  look.filehandle = held.res.filehandle;
  for (const bool rebooted : {false, true}) {
    server_.reset();
    if (rebooted) {  // the second word of the file is the boot id of the machine
      std::fstream file(options_.state_dir + "/clients",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8).write("another.", 8);
      ASSERT_TRUE(file.good());
    }
    StartServer();
    auto other = Client("c2");
    auto after = Client("c1");
    auto reclaimed = Reclaim(*after, held.res.filehandle);
    ASSERT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
    EXPECT_EQ(Read(*other, held.res.filehandle).name(), kGrace);
    EXPECT_EQ(after->Call(look).name(), kOk);
    EXPECT_EQ(Read(*other, held.res.filehandle).name() == kGrace, !rebooted);
  }
}

// A client that no export admits can state any name. It does not end the reclaim of the client that
// owns the name.
TEST_F(GraceTest, UnadmittedClientDoesNotEndTheReclaimOfItsNamesake) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "needs a TCP provider without a reserved port";
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  wire::GetattrInlineArgs look;
  look.filehandle = Root(*before);
  if (HasFailure()) return;
  server_.reset();
  std::fstream file(options_.state_dir + "/clients",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8).write("another.", 8);  // the boot id of the machine: the held state is now unknown
  file.close();
  StartServer();
  const std::shared_ptr<dat::Provider> of_server = provider_;
  provider_ = dat::NewIwarpProvider({.reserved_port = false});
  auto stranger = Connection();
  wire::ClientConnectAuthArgs args = ConnectArgs("c1", 2);
  args.auth_req.auth_type = wire::AuthType::kDefault;
  ASSERT_EQ(stranger->Call(args).name(), kOk);
  EXPECT_EQ(stranger->Call(look).name(), kOk);
  provider_ = of_server;
  auto other = Client("c2");
  EXPECT_EQ(Read(*other, held.res.filehandle).name(), kGrace);
}

// The client holds two locks, and a third joined them into one in a response that it never
// received. Both are reclaimed, unless another client may have held one of them meanwhile.
TEST_F(GraceTest, MoreLocksThanCountedAreReclaimedIfNoOtherClientCanHaveHeldThem) {
  auto before = Client("c1");
  auto f = Open(*before, "f");
  auto g = Open(*before, "g");
  for (uint64_t offset : {0u, 20u, 10u}) ASSERT_EQ(Lock(*before, f.res, offset).name(), kOk);
  ASSERT_EQ(Lock(*before, g.res, 0).name(), kOk);
  StartServer();
  auto other = Client("c2");
  auto after = Client("c1");
  auto f_after = Reclaim(*after, f.res.filehandle);
  auto g_after = Reclaim(*after, g.res.filehandle);
  EXPECT_EQ(Lock(*after, g_after.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*after, f_after.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*after, f_after.res, 20, wire::kLockReclaim).name(), kOk);
  auto others = Open(*other, "g");
  EXPECT_EQ(Lock(*other, others.res, 20).name(), kOk);
  EXPECT_EQ(Lock(*after, g_after.res, 40, wire::kLockReclaim).name(), kExpired);
}

// Shows DAFS-4.4.1.5-04: after the lease of a silent client has expired, its lock goes to the next
// client that requests it.
TEST_F(GraceTest, SilentClientLosesALockThatAnotherClientRequests) {
  options_.lease_time = absl::Milliseconds(400);
  StartServer();
  auto silent = Client("silent");
  auto held = Open(*silent, "f");
  ASSERT_EQ(Lock(*silent, held.res, 0).name(), kOk);
  auto other = Client("other");
  auto others = Open(*other, "f");
  std::string status;
  do {
    status = Lock(*other, others.res, 0).name();
  } while (status == "DAFSERR_DENIED");
  EXPECT_EQ(status, kOk);
  EXPECT_EQ(Lock(*silent, held.res, 0).name(), kExpired);
}

// Shows DAFS-4.4.1.2-34, DAFS-4.4.1.2-32, DAFS-4.4.1.2-35: a silent client keeps the state that no
// other client requests. It loses the rest, and cannot reclaim that from the next server.
TEST_F(GraceTest, SilentClientKeepsItsOpensUntilTheyConflict) {
  options_.lease_time = absl::Milliseconds(400);
  StartServer();
  auto keeper = Client("keeper");
  auto kept = Open(*keeper, "g");
  auto loser = Client("loser");
  auto lost = Open(*loser, "f", 3);
  ASSERT_EQ(lost.name(), kOk);
  auto other = Client("other");
  EXPECT_EQ(OpenWhenPossible(*other, "f", 3), kOk);  // not before the lease has expired
  EXPECT_EQ(Read(*keeper, kept.res.filehandle, kept.res.state_id).name(), kOk);
  EXPECT_EQ(Read(*loser, lost.res.filehandle, lost.res.state_id).name(), kExpired);
  options_.lease_time = absl::Seconds(60);
  StartServer();
  auto again = Client("loser");
  EXPECT_EQ(Reclaim(*again, lost.res.filehandle).name(), kExpired);
}

}  // namespace
}  // namespace dafs::server
