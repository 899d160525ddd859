// The procedures of the store under a fence: what is refused, what stays, and which callers may
// change lists.
#include "server/store/fencing/fencing.h"
#include "server/store/procedures/fencing_procedures.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::FenceAccess;
using wire::FenceObject;
using wire::FenceUpdate;

class FencedStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    FencedSessions& sessions = store_->fencing().sessions();
    node1_ = std::make_unique<FencedSession>(sessions, user_.client_id, "node1");
    node2_ = std::make_unique<FencedSession>(sessions, other_.client_id, "node2");
    user_.fence = node1_.get();
    other_.fence = node2_.get();
    other_.uid = user_.uid;
  }
  void TearDown() override {
    node1_.reset();
    node2_.reset();
    StoreTest::TearDown();
  }

  DafsStatus Set(const Caller& caller, Trust trust, const wire::FileHandle& file,
                 FenceObject object, FenceAccess access, FenceUpdate update,
                 std::vector<std::string> ids) {
    wire::SetFencingListArgs args{file, object, access, update, std::move(ids)};
    return store_->fencing_lists().SetFencingList(caller, trust, args);
  }
  DafsStatus Init(const wire::FileHandle& file, FenceObject object, std::vector<std::string> ids) {
    return Set(root_, Trust::kTrusted, file, object, FenceAccess::kAllow, FenceUpdate::kOverwrite,
               std::move(ids));
  }
  DafsStatus Getattr(const Caller& caller, const wire::FileHandle& file) {
    wire::FileAttributes attributes;
    return store_->attributes().Getattr(caller, file, wire::kFattrAll, &attributes);
  }
  std::string Lists(const Caller& caller, const wire::FileHandle& file,
                    Trust trust = Trust::kTrusted) {
    wire::GetFencingListArgs args{file};
    wire::GetFencingListRes res;
    const DafsStatus status = store_->fencing_lists().GetFencingList(caller, trust, args, &res);
    if (status != DafsStatus::kOk) return std::string(wire::Name(status));
    std::string all;
    for (const std::string& id : res.fence_list) all += id + " ";
    return all;
  }
  template <class Args>
  Args OnRange(const Opened& opened, uint64_t length) {
    Args args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.length = length;
    args.lock_type = wire::LockType::kWrite;
    return args;
  }

  std::unique_ptr<FencedSession> node1_, node2_;
};

// Shows DAFS-4.4.4.4-05, DAFS-4.4.4.4-08, DAFS-4.4.4.3-04, FAST03-3.2-03, FAST03-3.2-05.
TEST_F(FencedStoreTest, AFencedSessionMayOnlyReleaseState) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "content"));
  const Opened g = MustOpen(user_, CreateArgs(A(), "g"));
  wire::LockRes lock_res;
  ASSERT_OK(store_->locks().Lock(user_, OnRange<wire::LockArgs>(f, 4), &lock_res));
  ASSERT_OK(Init(f.filehandle, FenceObject::kFile, {"node2"}));

  EXPECT_DAFS(kAcces, Write(user_, f, 0, "other"));
  EXPECT_EQ(Read(user_, f), "DAFSERR_ACCES");
  EXPECT_DAFS(kAcces, Getattr(user_, f.filehandle));
  EXPECT_DAFS(kAcces, Getattr(root_, f.filehandle));  // without an id
  EXPECT_DAFS(kAcces, Lookup(user_, A(), "f"));
  EXPECT_DAFS(kAcces, Remove(user_, A(), "f"));
  EXPECT_DAFS(kAcces, Rename(user_, A(), "f", A(), "h"));
  EXPECT_DAFS(kAcces, Rename(user_, A(), "g", A(), "f"));
  EXPECT_DAFS(kAcces, store_->locks().Lock(user_, OnRange<wire::LockArgs>(f, 2), &lock_res));
  wire::OpenRes open_res;
  EXPECT_DAFS(kAcces, store_->opens().Open(user_, OpenArgs(A(), "f"), &open_res));
  wire::OpenArgs truncating = CreateArgs(A(), "f");
  truncating.createattrs.set(wire::kFattrObjectSize);
  EXPECT_DAFS(kAcces, store_->opens().Open(user_, truncating, &open_res));
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  uint64_t set = 0;
  EXPECT_DAFS(kAcces, store_->attributes().Setattr(user_, f.filehandle, f.state_id, size, &set));
  wire::OpenOwnerArgs second;
  second.filehandle = f.filehandle;
  second.state_id = f.state_id;
  second.owner = "second";
  wire::OpenOwnerRes owner_res;
  EXPECT_DAFS(kAcces, store_->locks().OpenOwner(user_, second, &owner_res));
  EXPECT_EQ(FileContent(Path("a/f")), "content");

  EXPECT_OK(Write(user_, g, 0, "elsewhere"));  // no list of its own
  wire::CommitArgs commit;
  commit.filehandle = f.filehandle;
  wire::CommitRes commit_res;
  EXPECT_OK(store_->data().Commit(user_, commit, &commit_res));

  // The open and the lock have stayed.
  const Opened same = MustOpen(other_, OpenArgs(A(), "f"));
  EXPECT_EQ(Read(other_, same), "content");
  EXPECT_DAFS(kDenied, store_->locks().Lock(other_, OnRange<wire::LockArgs>(same, 4), &lock_res));
  EXPECT_OK(store_->locks().Locku(user_, OnRange<wire::LockuArgs>(f, 4)));
  EXPECT_OK(store_->locks().Lock(other_, OnRange<wire::LockArgs>(same, 4), &lock_res));
  EXPECT_OK(Close(user_, f));
}

// Shows DAFS-4.4.4.2-01.
TEST_F(FencedStoreTest, AFenceOfTheFileSystemCoversEveryObjectOfIt) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  const wire::FileHandle b = Handle({"deep", "b"}), a = A();
  ASSERT_OK(Init(f.filehandle, FenceObject::kFilesystem, {"node2"}));
  EXPECT_DAFS(kAcces, Write(user_, f, 0, "x"));
  EXPECT_DAFS(kAcces, Getattr(user_, a));
  EXPECT_DAFS(kAcces, Create(user_, a, "d", wire::ObjectType::kDir));
  EXPECT_OK(Getattr(other_, a));
  EXPECT_OK(Getattr(user_, b));
  EXPECT_EQ(Lists(root_, f.filehandle), "node2 ");
  EXPECT_EQ(Lists(root_, b), "");
  ASSERT_OK(Init(a, FenceObject::kFilesystem, {}));
  EXPECT_OK(Write(user_, f, 0, "x"));
}

// Shows DAFS-6.4.1-01; R76.
TEST_F(FencedStoreTest, TheListOfTheFileIsReportedBeforeThatOfItsFileSystem) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  EXPECT_EQ(Lists(user_, f.filehandle), "");
  ASSERT_OK(Init(A(), FenceObject::kFilesystem, {"b", "a"}));
  EXPECT_EQ(Lists(user_, f.filehandle), "a b ");
  ASSERT_OK(Init(f.filehandle, FenceObject::kFile, {"c"}));
  EXPECT_EQ(Lists(user_, f.filehandle), "c ");
}

// Shows DAFS-4.4.4.4-01, DAFS-4.4.4.4-02, DAFS-6.4.1-02.
TEST_F(FencedStoreTest, OnlyTheOwnerAndTrustedClientsMayReadAndChangeLists) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  const auto set = [&](const Caller& caller, Trust trust, FenceObject object) {
    return Set(caller, trust, f.filehandle, object, FenceAccess::kAllow, FenceUpdate::kAppend,
               {"node1", "node2"});
  };
  Caller stranger = other_;
  stranger.uid = 1001;
  EXPECT_DAFS(kNotAuthorized, set(stranger, Trust::kNone, FenceObject::kFile));
  EXPECT_DAFS(kNotAuthorized, set(user_, Trust::kNone, FenceObject::kFilesystem));
  EXPECT_EQ(Lists(stranger, f.filehandle, Trust::kNone), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_OK(set(user_, Trust::kNone, FenceObject::kFile));
  EXPECT_EQ(Lists(user_, f.filehandle, Trust::kNone), "node1 node2 ");
  EXPECT_OK(set(stranger, Trust::kTrusted, FenceObject::kFile));
  EXPECT_OK(set(stranger, Trust::kTrusted, FenceObject::kFilesystem));
  EXPECT_EQ(Lists(stranger, f.filehandle), "node1 node2 ");
  // A session that the list shuts out may still read and change it.
  ASSERT_OK(Init(f.filehandle, FenceObject::kFile, {"node2"}));
  EXPECT_EQ(Lists(user_, f.filehandle), "node2 ");
  EXPECT_OK(set(user_, Trust::kTrusted, FenceObject::kFile));
}

TEST_F(FencedStoreTest, HandlesThatNameNoFencedObjectAreRefused) {
  const auto set = [&](const wire::FileHandle& file) {
    return Init(file, FenceObject::kFile, {"node1"});
  };
  EXPECT_DAFS(kInval, set(Handle({"deep"})));
  EXPECT_DAFS(kInval, Init(Handle({}), FenceObject::kFilesystem, {"node1"}));
  wire::FileHandle forged = A();
  forged.fileid.bytes[40] ^= 1;
  EXPECT_DAFS(kBadHandle, set(forged));
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Close(user_, f));
  ASSERT_OK(Remove(user_, A(), "f"));
  EXPECT_DAFS(kStale, set(f.filehandle));
}

// Shows DAFS-4.4.4.3-02.
TEST_F(FencedStoreTest, ListsAreInForceAfterARestart) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Init(f.filehandle, FenceObject::kFile, {"node2"}));
  ASSERT_OK(Init(A(), FenceObject::kFilesystem, {"node1", "node2"}));
  node1_.reset();
  node2_.reset();
  Start();
  node1_ = std::make_unique<FencedSession>(store_->fencing().sessions(), user_.client_id, "node1");
  node2_ = std::make_unique<FencedSession>(store_->fencing().sessions(), other_.client_id, "node2");
  user_.fence = node1_.get();
  other_.fence = node2_.get();
  EXPECT_DAFS(kAcces, Getattr(user_, f.filehandle));
  EXPECT_DAFS(kAcces, Getattr(root_, f.filehandle));
  EXPECT_OK(Getattr(other_, f.filehandle));
}

}  // namespace
}  // namespace dafs::server
