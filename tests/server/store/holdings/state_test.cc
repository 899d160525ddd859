// The state that OPEN creates and how it ends: state ids, unnamed files, and the effect of programs
// on the server. LOOKUP creates no state.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreStateTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  wire::OpenArgs Nameless() {
    wire::OpenArgs args = CreateArgs(A(), "");
    args.pathname = {};
    args.claim_type = wire::OpenClaimType::kCreateUnlinked;
    return args;
  }
  DafsStatus Exists(const wire::FileHandle& handle) {
    wire::FileAttributes attributes;
    return store_->attributes().Getattr(root_, handle, wire::kFattrNumLinks, &attributes);
  }
  DafsStatus RemoveUnlessOpen(const std::string& name) {
    wire::RemoveArgs args;
    args.filehandle = A();
    args.target = name;
    args.remove_mode = wire::RemoveMode::kCheckOpen;
    wire::RemoveRes res;
    return store_->names().Remove(user_, args, &res);
  }
};

// Shows DAFS-4.4.1.1-04: locks, another OPEN of the same owner and an OPEN_DOWNGRADE do not change
// it.
TEST_F(StoreStateTest, StateIdIsCreatedByOpenAndDoesNotChange) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  wire::LockArgs lock;
  lock.filehandle = f.filehandle;
  lock.state_id = f.state_id;
  lock.lock_type = wire::LockType::kWrite;
  lock.length = 10;
  wire::LockRes locked;
  ASSERT_OK(store_->locks().Lock(user_, lock, &locked));
  wire::LockuArgs unlock;
  unlock.filehandle = f.filehandle;
  unlock.state_id = f.state_id;
  unlock.lock_type = wire::LockType::kWrite;
  unlock.length = 5;
  ASSERT_OK(store_->locks().Locku(user_, unlock));
  EXPECT_EQ(MustOpen(user_, OpenArgs(A(), "f", wire::kShareRead)).state_id, f.state_id);
  wire::OpenDowngradeArgs downgrade;
  downgrade.filehandle = f.filehandle;
  downgrade.state_id = f.state_id;
  downgrade.share_access = wire::kShareWrite;
  ASSERT_OK(store_->opens().OpenDowngrade(user_, downgrade));
  EXPECT_OK(Write(user_, f, 0, "x"));
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  EXPECT_OK(Close(user_, f));
}

// Shows DAFS-4.4.1.2-48
TEST_F(StoreStateTest, LookupCreatesNoState) {
  WriteFile(Path("a/f"), "x", 0666);
  const wire::FileHandle f = Handle({"a", "f"});
  EXPECT_EQ(Read(user_, {f, {}}), "x");
  EXPECT_EQ(store_->inventory().open_count(), 0u);
  EXPECT_EQ(store_->inventory().lock_count(), 0u);
  EXPECT_OK(RemoveUnlessOpen("f"));
  EXPECT_DAFS(kStale, Exists(f));
}

// Shows FAST03-3.2-10
TEST_F(StoreStateTest, UnnamedFileEndsWithItsCreatorUnlessLinked) {
  const Opened closed = MustOpen(user_, Nameless());
  ASSERT_OK(Close(user_, closed));
  EXPECT_DAFS(kStale, Exists(closed.filehandle));
  const Opened left = MustOpen(user_, Nameless());
  wire::OpenArgs other = Nameless();
  other.owner = "another";
  const Opened named = MustOpen(user_, other);
  wire::LinkArgs link;
  link.source_object = named.filehandle;
  link.destination_object = A();
  link.newname = "named";
  wire::LinkRes linked;
  ASSERT_OK(store_->names().Link(user_, link, &linked));
  store_->releases().ReleaseClient(user_.client_id);  // as after a failure of the client
  EXPECT_DAFS(kStale, Exists(left.filehandle));
  EXPECT_OK(Exists(named.filehandle));
  EXPECT_THAT(Names(root_, A()), testing::ElementsAre("named"));
}

// Otherwise programs on the server would see a second name until the last close, or until the end
// of a delegation.
TEST_F(StoreStateTest, UnnamedFileThatIsLinkedHasOneNameAndIsKeptIfThatIsRemoved) {
  const Opened file = MustOpen(user_, Nameless());
  wire::LinkArgs link;
  link.source_object = file.filehandle;
  link.destination_object = A();
  link.newname = "named";
  wire::LinkRes linked;
  ASSERT_OK(store_->names().Link(user_, link, &linked));
  struct stat st = {};
  ASSERT_EQ(stat(Path("a/named").c_str(), &st), 0);
  EXPECT_EQ(st.st_nlink, 1u);
  ASSERT_OK(Write(user_, file, 0, "x"));
  ASSERT_OK(Remove(user_, A(), "named"));
  EXPECT_EQ(Read(user_, file), "x");
  ASSERT_OK(Close(user_, file));
  EXPECT_DAFS(kStale, Exists(file.filehandle));
}

// Shows DAFS-6.5.24-31, DAFS-6.5.33-07: the server grants DELETE_DENY and applies CHECK_OPEN, but
// programs on the server ignore DELETE_DENY, and CHECK_OPEN does not find their opens.
TEST_F(StoreStateTest, DispositionsDoNotApplyToProgramsOnServer) {
  wire::OpenArgs args = CreateArgs(A(), "denied");
  args.delete_disp = wire::OpenDeleteDisp::kDeny;
  const Opened denied = MustOpen(user_, args);
  EXPECT_DAFS(kDenyDispConflict, Remove(user_, A(), "denied"));
  Store::RestoreServerIdentity();
  EXPECT_EQ(unlink(Path("a/denied").c_str()), 0);
  EXPECT_OK(Close(user_, denied));
  WriteFile(Path("a/used"), "x", 0666);
  const int fd = open(Path("a/used").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_OK(RemoveUnlessOpen("used"));
  close(fd);
}

}  // namespace
}  // namespace dafs::server
