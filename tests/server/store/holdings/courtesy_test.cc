// The server keeps the opens and locks of a client with an expired lease as a courtesy. A
// conflicting request revokes them. Spec: 4.4.1.2, 4.4.1.5.
#include "server/store/holdings/holdings.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreCourtesyTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    WriteFile(Path("a/f"), "content", 0666);
    other_.holdings = &holdings_;
  }
  // Expires the lease of the other client.
  void LeaseRunsOut() { holdings_.expired = 1; }

  DafsStatus Lock(const Caller& caller, const Opened& opened) {
    wire::LockArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.lock_type = wire::LockType::kWrite;
    args.length = 10;
    wire::LockRes res;
    return store_->locks().Lock(caller, args, &res);
  }
  DafsStatus TestLock(const Caller& caller, const wire::FileHandle& file) {
    wire::LocktArgs args;
    args.filehandle = file;
    args.lock_type = wire::LockType::kRead;
    args.owner = "asks";
    args.length = 1;
    wire::LocktRes res;
    return store_->locks().Lockt(caller, args, &res);
  }
  Opened OpenDenyingRemoval(const std::string& name) {
    wire::OpenArgs args = OpenArgs(A(), name, wire::kShareRead);
    args.delete_disp = wire::OpenDeleteDisp::kDeny;
    return MustOpen(other_, args);
  }

  Holdings holdings_{};  // of the client whose lease expires
};

// Shows DAFS-4.4.1.2-34 (locks are freed): LOCKT returns the result that LOCK would have.
TEST_F(StoreCourtesyTest, LocktIgnoresLocksOfExpiredClient) {
  const Opened held = MustOpen(other_, OpenArgs(A(), "f"));
  ASSERT_OK(Lock(other_, held));
  EXPECT_DAFS(kDenied, TestLock(user_, held.filehandle));
  LeaseRunsOut();
  EXPECT_OK(TestLock(user_, held.filehandle));
  EXPECT_DAFS(kExpired, Lock(other_, held));
  const Opened mine = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_OK(Lock(user_, mine));
}

// Shows DAFS-4.4.1.2-34 (opens are freed).
TEST_F(StoreCourtesyTest, ExpiredClientDoesNotPreventRemoval) {
  const Opened held = OpenDenyingRemoval("f");
  EXPECT_DAFS(kDenyDispConflict, Remove(user_, A(), "f"));
  LeaseRunsOut();
  EXPECT_OK(Remove(user_, A(), "f"));
  EXPECT_EQ(Read(other_, held), "DAFSERR_EXPIRED");
  EXPECT_EQ(store_->inventory().open_count(), 0u);
}

// Shows DAFS-4.4.1.2-34 (opens are freed), DAFS-6.5.33-05
TEST_F(StoreCourtesyTest, RemovalWithCheckOpenIgnoresOpensOfExpiredClient) {
  wire::RemoveArgs remove;
  remove.filehandle = A();
  remove.target = "f";
  remove.remove_mode = wire::RemoveMode::kCheckOpen;
  wire::RemoveRes res;
  MustOpen(other_, OpenArgs(A(), "f"));
  EXPECT_DAFS(kDenyDispConflict, store_->names().Remove(user_, remove, &res));
  LeaseRunsOut();
  // Another client with a valid lease still prevents the removal.
  const Opened mine = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_DAFS(kDenyDispConflict, store_->names().Remove(user_, remove, &res));
  EXPECT_EQ(Read(user_, mine), "content");
  ASSERT_OK(Close(user_, mine));
  EXPECT_OK(store_->names().Remove(user_, remove, &res));
}

TEST_F(StoreCourtesyTest, ExpiredClientDoesNotPreventReplacement) {
  WriteFile(Path("a/g"), "new", 0666);
  OpenDenyingRemoval("f");
  EXPECT_DAFS(kAcces, Rename(user_, A(), "g", A(), "f"));
  LeaseRunsOut();
  EXPECT_OK(Rename(user_, A(), "g", A(), "f"));
  EXPECT_EQ(FileContent(Path("a/f")), "new");
}

// Shows DAFS-4.4.1.2-34 (opens are kept): a removal without a conflict revokes nothing.
TEST_F(StoreCourtesyTest, RemovalWithoutConflictKeepsOpensOfExpiredClient) {
  const Opened held = MustOpen(other_, OpenArgs(A(), "f"));
  LeaseRunsOut();
  ASSERT_OK(Remove(user_, A(), "f"));
  EXPECT_EQ(Read(other_, held), "content");
}

}  // namespace
}  // namespace dafs::server
