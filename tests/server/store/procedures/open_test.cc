// OPEN: create modes, shares, state ids, removal of open files.
#include "server/store/holdings/grace.h"
#include "server/store/system/identity.h"
#include "tests/server/files_in.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using testing::ElementsAre;
using wire::CreateMode;
using wire::ObjectType;
using wire::OpenClaimType;

class StoreOpenTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  DafsStatus Open(const Caller& caller, const wire::OpenArgs& args, Opened* opened = nullptr) {
    wire::OpenRes res;
    const DafsStatus status = store_->opens().Open(caller, args, &res);
    if (opened != nullptr) *opened = {res.filehandle, res.state_id};
    return status;
  }
};

// Shows DAFS-6.5.24-01 (an existing file), DAFS-6.5.24-32
TEST_F(StoreOpenTest, OpenByPathCountsResolvedComponents) {
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir));
  WriteFile(Path("a/d/f"), "x");
  wire::OpenArgs args = OpenArgs(Handle({}), "", wire::kShareRead);
  args.pathname = {"a", "d", "f"};
  wire::OpenRes res;
  ASSERT_OK(store_->opens().Open(root_, args, &res));
  EXPECT_EQ(res.component_count, 3u);
  EXPECT_EQ(res.filehandle, Handle({"a", "d", "f"}));
  EXPECT_FALSE(res.state_id.is_zero());
  EXPECT_EQ(res.delegation_type, wire::OpenDelegationType::kNone);
  EXPECT_EQ(res.change_info.before, res.change_info.after);
  args.pathname = {"a", "d", "none"};
  EXPECT_DAFS(kNoEnt, store_->opens().Open(root_, args, &res));
  EXPECT_EQ(res.component_count, 2u);
  EXPECT_EQ(res.filehandle, Handle({"a", "d"}));
  EXPECT_TRUE(res.state_id.is_zero());
  args.pathname = {"a", "none", "f"};
  EXPECT_DAFS(kNoEnt, store_->opens().Open(root_, args, &res));
  EXPECT_EQ(res.component_count, 1u);
}

// A refused open leaves no state.
TEST_F(StoreOpenTest, OpensOfClientAreBounded) {
  StoreOptions options = Options();
  options.max_opens = 2;
  Start(std::move(options));
  const auto as = [](wire::OpenArgs args, std::string owner) {
    args.owner = std::move(owner);
    return args;
  };
  WriteFile(Path("a/f"), "x", 0666);
  Opened first;
  ASSERT_OK(Open(user_, as(OpenArgs(A(), "f"), "1"), &first));
  ASSERT_OK(Open(user_, as(OpenArgs(A(), "f"), "2")));
  EXPECT_DAFS(kResource, Open(user_, as(OpenArgs(A(), "f"), "3")));
  EXPECT_DAFS(kResource, Open(user_, as(CreateArgs(A(), "new"), "3")));
  EXPECT_FALSE(std::filesystem::exists(Path("a/new")));
  // A merged open does not count again, and other clients have their own limit.
  EXPECT_OK(Open(user_, as(OpenArgs(A(), "f", wire::kShareBoth), "2")));
  EXPECT_OK(Open(other_, as(OpenArgs(A(), "f"), "3")));
  ASSERT_OK(Close(user_, first));
  EXPECT_OK(Open(user_, as(CreateArgs(A(), "new"), "3")));
}

// Shows DAFS-6.5.24-13, DAFS-6.5.24-27, DAFS-6.5.24-28
TEST_F(StoreOpenTest, OpenRefusesOtherTypesThanRegularFiles) {
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(Create(root_, A(), "l", ObjectType::kLnk));
  ASSERT_OK(Create(root_, A(), "p", ObjectType::kFifo));
  EXPECT_DAFS(kIsDir, Open(root_, OpenArgs(A(), "d")));
  EXPECT_DAFS(kSymlink, Open(root_, OpenArgs(A(), "l")));
  EXPECT_DAFS(kInval, Open(root_, OpenArgs(A(), "p")));
  EXPECT_DAFS(kIsDir, Open(root_, CreateArgs(A(), "d")));
  EXPECT_DAFS(kSymlink, Open(root_, CreateArgs(A(), "l")));
  wire::OpenArgs args = OpenArgs(A(), "");
  args.pathname = {"l", "x"};
  EXPECT_DAFS(kNotDir, Open(root_, args));
  args.pathname = {};
  EXPECT_DAFS(kInval, Open(root_, args));
  WriteFile(Path("a/f"), "x");
  EXPECT_DAFS(kInval, Open(root_, OpenArgs(A(), "f", 0)));
  EXPECT_DAFS(kInval, Open(root_, OpenArgs(A(), "f", 4)));
  args = OpenArgs(A(), "f");
  args.share_deny = 4;
  EXPECT_DAFS(kInval, Open(root_, args));
  args = OpenArgs(A(), "f");
  args.claim_type = OpenClaimType::kDelegateCur;
  EXPECT_DAFS(kBadStateId, Open(root_, args));
  args.open_type = wire::OpenType::kCreate;
  EXPECT_DAFS(kInval, Open(root_, args));
}

// Shows DAFS-6.5.24-01 (a new file), DAFS-6.5.24-04, DAFS-6.5.24-05
TEST_F(StoreOpenTest, UncheckedCreatesOrOpensAndAppliesOnlySizeZero) {
  wire::OpenArgs args = CreateArgs(A(), "f", 0640);
  wire::OpenRes res;
  ASSERT_OK(store_->opens().Open(user_, args, &res));
  EXPECT_NE(res.change_info.before, res.change_info.after);
  wire::FileAttributes attributes = Attributes(res.filehandle);
  EXPECT_EQ(attributes.mode, 0640u);
  EXPECT_EQ(attributes.owner, "1000");
  EXPECT_EQ(attributes.object_size, 0u);
  const Opened f = {res.filehandle, res.state_id};
  ASSERT_OK(Write(user_, f, 0, "content"));
  args.createattrs.mode = 0777;
  args.createattrs.set(wire::kFattrObjectSize);
  args.createattrs.object_size = 3;
  args.owner = "second";
  ASSERT_OK(store_->opens().Open(user_, args, &res));
  EXPECT_EQ(Attributes(f.filehandle).mode, 0640u);
  EXPECT_EQ(Read(user_, f), "content");
  args.createattrs.object_size = 0;
  ASSERT_OK(store_->opens().Open(user_, args, &res));
  EXPECT_EQ(Read(user_, f), "");
  EXPECT_DAFS(kAcces, store_->opens().Open(other_, args, &res));
}

// Shows DAFS-6.1.5-09
TEST_F(StoreOpenTest, CreatedFileHasOnlyRequestedAttributes) {
  wire::OpenArgs args = CreateArgs(A(), "f", 04711);
  args.createattrs.set(wire::kFattrObjectSize | wire::kFattrOwner | wire::kFattrOwnerGroup |
                       wire::kFattrTimeModifySet);
  args.createattrs.object_size = 1000;
  args.createattrs.owner = "5";
  args.createattrs.owner_group = "6";
  args.createattrs.time_modify_set = {{77, 123456789}, wire::TimeSetHow::kSetToClientTime};
  const wire::FileAttributes attributes = Attributes(MustOpen(root_, args).filehandle);
  EXPECT_EQ(attributes.mode, 04711u);
  EXPECT_EQ(attributes.object_size, 1000u);
  EXPECT_EQ(attributes.owner, "5");
  EXPECT_EQ(attributes.owner_group, "6");
  EXPECT_EQ(attributes.time_modify, (wire::Time{77, 123456789}));
  args = CreateArgs(A(), "g");
  args.createattrs = {};
  EXPECT_EQ(Attributes(MustOpen(user_, args).filehandle).mode, 0600u);
  // A mode that forbids writing to its owner does not apply to the open that created the file.
  const Opened h = MustOpen(user_, CreateArgs(A(), "h", 0400));
  EXPECT_OK(Write(user_, h, 0, "x"));
  EXPECT_DAFS(kAcces, Open(user_, OpenArgs(A(), "h")));
  // If an attribute cannot be set, no file remains.
  args = CreateArgs(A(), "i");
  args.createattrs.set(wire::kFattrOwner);
  args.createattrs.owner = "5";
  EXPECT_DAFS(kPerm, Open(user_, args));
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), "i"));
  args.createattrs.owner = "nobody";
  EXPECT_DAFS(kInval, Open(root_, args));
}

// Shows DAFS-6.5.24-06
TEST_F(StoreOpenTest, GuardedRefusesExistingName) {
  wire::OpenArgs args = CreateArgs(A(), "f");
  args.createmode = CreateMode::kGuarded;
  EXPECT_OK(Open(user_, args));
  EXPECT_DAFS(kExist, Open(user_, args));
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir));
  args.pathname = {"d"};
  EXPECT_DAFS(kExist, Open(user_, args));
}

// Shows DAFS-6.5.24-07
TEST_F(StoreOpenTest, ExclusiveRepeatedWithItsVerifierSucceeds) {
  wire::OpenArgs args = OpenArgs(A(), "f");
  args.open_type = wire::OpenType::kCreate;
  args.createmode = CreateMode::kExclusive;
  args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(0x1122334455667788);
  Opened first, second;
  ASSERT_OK(Open(user_, args, &first));
  EXPECT_EQ(Attributes(first.filehandle).mode, 0600u);
  ASSERT_OK(Open(user_, args, &second));
  EXPECT_EQ(second.filehandle, first.filehandle);
  args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(1);
  EXPECT_DAFS(kExist, Open(user_, args));
  Start();
  EXPECT_DAFS(kExist, Open(user_, args));
  args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(0x1122334455667788);
  ASSERT_OK(Open(user_, args, &second));
  EXPECT_EQ(second.filehandle, first.filehandle);
  EXPECT_OK(Write(user_, second, 0, "x"));
  WriteFile(Path("a/g"), "not made so");
  args.pathname = {"g"};
  EXPECT_DAFS(kExist, Open(user_, args));
}

// Shows DAFS-6.5.24-24
TEST_F(StoreOpenTest, CreateUnlinkedMakesFileThatLinkCanName) {
  wire::OpenArgs args = CreateArgs(A(), "");
  args.pathname = {};
  args.claim_type = OpenClaimType::kCreateUnlinked;
  Opened f;
  ASSERT_OK(Open(user_, args, &f));
  ASSERT_OK(Write(user_, f, 0, "nameless"));
  EXPECT_EQ(Attributes(f.filehandle).num_links, 0u);
  EXPECT_THAT(Names(root_, A()), ElementsAre());
  wire::LinkArgs link;
  link.source_object = f.filehandle;
  link.destination_object = A();
  link.newname = "named";
  wire::LinkRes res;
  ASSERT_OK(store_->names().Link(user_, link, &res));
  ASSERT_OK(Close(user_, f));
  EXPECT_EQ(Attributes(f.filehandle).num_links, 1u);
  EXPECT_EQ(FileContent(Path("a/named")), "nameless");
  ASSERT_OK(Open(user_, args, &f));
  ASSERT_OK(Close(user_, f));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(user_, f.filehandle, 1, &attributes));
  args.createmode = CreateMode::kExclusive;
  EXPECT_DAFS(kInval, Open(user_, args));
}

TEST_F(StoreOpenTest, FileWithoutLastNameCannotBeLinked) {
  for (bool born_nameless : {false, true}) {
    wire::OpenArgs args = CreateArgs(A(), "f");
    if (born_nameless) {
      args.pathname = {};
      args.claim_type = OpenClaimType::kCreateUnlinked;
    }
    Opened f;
    ASSERT_OK(Open(user_, args, &f));
    wire::LinkArgs link;
    link.source_object = f.filehandle;
    link.destination_object = A();
    link.newname = "named";
    wire::LinkRes linked;
    ASSERT_OK(store_->names().Link(user_, link, &linked));
    wire::RemoveArgs remove;
    remove.filehandle = A();
    wire::RemoveRes removed;
    if (!born_nameless) {
      remove.target = "f";
      ASSERT_OK(store_->names().Remove(user_, remove, &removed));
      link.newname = "another";  // the file still has a name
      ASSERT_OK(store_->names().Link(user_, link, &linked));
      remove.target = "another";
      ASSERT_OK(store_->names().Remove(user_, remove, &removed));
    }
    remove.target = "named";
    ASSERT_OK(store_->names().Remove(user_, remove, &removed));
    EXPECT_EQ(Attributes(f.filehandle).num_links, 0u);
    EXPECT_DAFS(kStale, store_->names().Link(user_, link, &linked));
    EXPECT_THAT(Names(root_, A()), ElementsAre());
    ASSERT_OK(Close(user_, f));
  }
}

// Shows DAFS-6.5.24-14: an open is reclaimed by handle.
TEST_F(StoreOpenTest, ClaimPreviousAndOpenHandleOpenByHandle) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  exports_[0].squash = Squash::kRoot;
  Start();
  EXPECT_DAFS(kStaleStateId, Write(user_, f, 0, "x"));
  wire::OpenArgs args = OpenArgs({}, "");
  args.claim_type = OpenClaimType::kPrevious;
  args.filehandle = f.filehandle;
  EXPECT_DAFS(kExpired, Open(user_, args));  // no client has opens to reclaim
  Holdings of_user{}, of_other{};
  of_user.lost_opens = of_other.lost_opens = 1;
  user_.client_name = "user";
  other_.client_name = "other";
  Grace::Owed owed;
  owed.expected = {{"user", &of_user}, {"other", &of_other}};
  store_->grace().Start(std::move(owed), absl::InfiniteFuture());
  Opened again;
  ASSERT_OK(Open(user_, args, &again));
  EXPECT_OK(Write(user_, again, 0, "x"));
  args.share_deny = wire::kShareWrite;
  EXPECT_DAFS(kExpired, Open(user_, args));  // more than it held, and other clients may conflict
  args.share_deny = wire::kShareDenyNone;
  // The mode may have changed since the open. So the server accepts the claim if a client could
  // have opened the file as its owner. A client can name any owner except root, which is squashed
  // here.
  RestoreOwnIdentity();
  ASSERT_EQ(chown(Path("a/f").c_str(), 0, static_cast<gid_t>(-1)), 0);
  EXPECT_DAFS(kAcces, Open(other_, args));
  RestoreOwnIdentity();
  ASSERT_EQ(chown(Path("a/f").c_str(), user_.uid, static_cast<gid_t>(-1)), 0);
  EXPECT_OK(Open(other_, args));
  wire::OpenHandleArgs by_handle;
  by_handle.filehandle = f.filehandle;
  by_handle.share_access = wire::kShareRead;
  by_handle.owner = "another";
  wire::OpenHandleRes res;
  ASSERT_OK(store_->opens().OpenHandle(user_, by_handle, &res));
  EXPECT_EQ(Read(user_, {res.filehandle, res.state_id}), "x");
  EXPECT_DAFS(kAcces, store_->opens().OpenHandle(other_, by_handle, &res));
  by_handle.filehandle = A();
  EXPECT_DAFS(kIsDir, store_->opens().OpenHandle(user_, by_handle, &res));
}

// Shows DAFS-4.4.1.2-08, DAFS-4.4.1.2-10
TEST_F(StoreOpenTest, StateIdsBelongToOneClientAndFileAndInstance) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0666));
  const Opened g = MustOpen(user_, CreateArgs(A(), "g", 0666));
  EXPECT_DAFS(kBadStateId, Write(other_, f, 0, "x"));
  EXPECT_DAFS(kBadStateId, Write(user_, {g.filehandle, f.state_id}, 0, "x"));
  EXPECT_DAFS(kBadStateId, Close(user_, {g.filehandle, f.state_id}));
  ASSERT_OK(Close(user_, f));
  EXPECT_DAFS(kBadStateId, Close(user_, f));
  EXPECT_DAFS(kBadStateId, Write(user_, f, 0, "x"));
  Start();
  EXPECT_DAFS(kStaleStateId, Close(user_, g));
  EXPECT_EQ(Read(user_, g), "DAFSERR_STALE_STATEID");
}

// Shows DAFS-4.4.1.2-09, DAFS-4.4.1.2-10, DAFS-4.4.1.2-11: a closed open leaves no state.
TEST_F(StoreOpenTest, StateIdIsOldAfterItsOwnerReopens) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0666));
  ASSERT_OK(Close(user_, f));
  EXPECT_DAFS(kBadStateId, Write(user_, f, 0, "x"));
  const Opened again = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_NE(again.state_id, f.state_id);
  EXPECT_DAFS(kOldStateId, Write(user_, f, 0, "x"));
  EXPECT_DAFS(kOldStateId, Close(user_, f));
  EXPECT_DAFS(kBadStateId, Close(other_, f));
  EXPECT_DAFS(kBadStateId, Close(user_, {f.filehandle, wire::StateId()}));
  wire::StateId future;
  future.bytes.fill(0xff);
  EXPECT_DAFS(kBadStateId, Close(user_, {f.filehandle, future}));
  ASSERT_OK(Close(user_, again));
  EXPECT_DAFS(kBadStateId, Write(user_, f, 0, "x"));
}

// Shows DAFS-4.4.1.2-42, DAFS-4.4.1.2-49, DAFS-4.4.1.2-41, DAFS-4.4.2-06
TEST_F(StoreOpenTest, SharesConflictInBothDirections) {
  const Opened reader = MustOpen(user_, [&] {
    wire::OpenArgs args = CreateArgs(A(), "f", 0666);
    args.share_access = wire::kShareRead;
    args.share_deny = wire::kShareWrite;
    return args;
  }());
  EXPECT_DAFS(kDenied, Open(other_, OpenArgs(A(), "f", wire::kShareWrite)));
  EXPECT_DAFS(kDenied, Open(other_, OpenArgs(A(), "f", wire::kShareBoth)));
  wire::OpenArgs deny_read = OpenArgs(A(), "f", wire::kShareRead);
  deny_read.share_deny = wire::kShareRead;
  EXPECT_DAFS(kDenied, Open(other_, deny_read));
  Opened second;
  EXPECT_OK(Open(other_, OpenArgs(A(), "f", wire::kShareRead), &second));
  // Without a state id nothing passes the reservation either.
  EXPECT_DAFS(kDenied, Write(other_, {reader.filehandle, {}}, 0, "x"));
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  uint64_t set = 0;
  EXPECT_DAFS(kDenied, store_->attributes().Setattr(other_, reader.filehandle, {}, size, &set));
  EXPECT_EQ(Read(other_, {reader.filehandle, {}}), "");
  ASSERT_OK(Close(user_, reader));
  EXPECT_OK(Write(other_, {reader.filehandle, {}}, 0, "x"));
  EXPECT_OK(Open(other_, OpenArgs(A(), "f", wire::kShareWrite)));
}

// Shows DAFS-4.4.1.2-50, DAFS-6.5.26-01, DAFS-6.5.26-02
TEST_F(StoreOpenTest, OpensOfOneOwnerAreMergedAndDowngraded) {
  wire::OpenArgs args = CreateArgs(A(), "f", 0666);
  args.share_access = wire::kShareRead;
  const Opened first = MustOpen(user_, args);
  args = OpenArgs(A(), "f", wire::kShareWrite);
  args.share_deny = wire::kShareWrite;
  const Opened second = MustOpen(user_, args);
  EXPECT_EQ(first.state_id, second.state_id);
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  EXPECT_OK(Write(user_, first, 0, "x"));
  EXPECT_EQ(Read(user_, first), "x");
  EXPECT_DAFS(kDenied, Open(other_, OpenArgs(A(), "f", wire::kShareWrite)));
  wire::OpenDowngradeArgs downgrade;
  downgrade.filehandle = first.filehandle;
  downgrade.state_id = first.state_id;
  downgrade.share_access = wire::kShareRead;
  ASSERT_OK(store_->opens().OpenDowngrade(user_, downgrade));
  EXPECT_DAFS(kAcces, Write(user_, first, 0, "x"));
  EXPECT_OK(Open(other_, OpenArgs(A(), "f", wire::kShareWrite)));
  downgrade.share_access = wire::kShareBoth;
  EXPECT_DAFS(kInval, store_->opens().OpenDowngrade(user_, downgrade));
  downgrade.share_access = wire::kShareRead;
  downgrade.share_deny = wire::kShareWrite;
  EXPECT_DAFS(kInval, store_->opens().OpenDowngrade(user_, downgrade));
  EXPECT_OK(Close(user_, first));
  EXPECT_DAFS(kBadStateId, Close(user_, first));
}

TEST_F(StoreOpenTest, FailedTruncatingOpenRemovesOnlyItsOwnShares) {
  std::ofstream(Path("a/f")) << "hello";
  chmod(Path("a/f").c_str(), 0644);  // root owns the file: the user may only read
  const Opened first = MustOpen(user_, OpenArgs(A(), "f", wire::kShareRead));
  wire::LockArgs lock;
  lock.filehandle = first.filehandle;
  lock.state_id = first.state_id;
  lock.length = 1;
  wire::LockRes locked;
  ASSERT_OK(store_->locks().Lock(user_, lock, &locked));
  wire::OpenArgs truncate = CreateArgs(A(), "f");
  truncate.share_access = wire::kShareRead;
  truncate.share_deny = wire::kShareWrite;
  truncate.createattrs = {};
  truncate.createattrs.set(wire::kFattrObjectSize);
  EXPECT_DAFS(kAcces, Open(user_, truncate));
  EXPECT_EQ(Read(user_, first), "hello");
  EXPECT_EQ(store_->inventory().lock_count(), 1u);
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  // The reservation is removed again.
  Caller other_root = root_;
  other_root.client_id = other_.client_id;
  EXPECT_OK(Close(other_root, MustOpen(other_root, OpenArgs(A(), "f", wire::kShareWrite))));
  EXPECT_OK(Close(user_, first));
  // If there was no open before, none is left.
  EXPECT_DAFS(kAcces, Open(user_, truncate));
  EXPECT_EQ(store_->inventory().open_count(), 0u);
}

// Shows DAFS-4.4.2-01, DAFS-4.4.2-03, DAFS-4.4.2-04, DAFS-4.4.2-05, DAFS-6.5.26-04, DAFS-6.5.26-05
TEST_F(StoreOpenTest, ShareKeyAdmitsOpensWithSameKey) {
  const auto with_key = [&](const std::string& owner, uint64_t key) {
    wire::OpenArgs args = CreateArgs(A(), "f", 0666);
    args.owner = owner;
    args.share_key_type = wire::ShareKeyType::kBoth;
    args.share_key = key;
    return args;
  };
  const Opened one = MustOpen(user_, with_key("1", 7));
  const Opened two = MustOpen(other_, with_key("2", 7));
  EXPECT_DAFS(kKeyMismatch, Open(other_, with_key("3", 8)));
  EXPECT_OK(Open(other_, OpenArgs(A(), "f")));
  ASSERT_OK(Close(user_, one));
  EXPECT_DAFS(kKeyMismatch, Open(user_, with_key("1", 8)));
  wire::OpenDowngradeArgs downgrade;
  downgrade.filehandle = two.filehandle;
  downgrade.state_id = two.state_id;
  downgrade.share_access = wire::kShareBoth;
  downgrade.share_key_type = wire::ShareKeyType::kBoth;
  downgrade.share_key = 9;
  EXPECT_DAFS(kInval, store_->opens().OpenDowngrade(other_, downgrade));
  downgrade.share_key_type = wire::ShareKeyType::kNone;
  EXPECT_OK(store_->opens().OpenDowngrade(other_, downgrade));
  EXPECT_OK(Open(user_, with_key("1", 8)));
}

// Shows DAFS-6.5.7-02, DAFS-6.5.33-08, DAFS-6.5.33-04, DAFS-4.1.4-24, DAFS-6.5.7-01
TEST_F(StoreOpenTest, RemovedFileExistsUntilItsLastClose) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0666));
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareRead);
  const Opened g = MustOpen(other_, args);
  ASSERT_OK(Write(user_, f, 0, "still here"));
  const uint32_t links = Attributes(A()).num_links;
  ASSERT_OK(Remove(user_, A(), "f"));
  EXPECT_DAFS(kNoEnt, Lookup(user_, A(), "f"));
  EXPECT_THAT(Names(root_, A()), ElementsAre());
  EXPECT_EQ(Attributes(f.filehandle).num_links, 0u);
  EXPECT_EQ(Attributes(A()).num_links, links);  // the orphan directory is hidden
  ASSERT_OK(Write(user_, f, 10, "!"));
  ASSERT_OK(Close(user_, f));
  EXPECT_EQ(Read(other_, g), "still here!");
  EXPECT_NE(FilesIn(Path("a/.dafsd-orphans")), 0u);
  ASSERT_OK(Close(other_, g));
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(user_, f.filehandle, 1, &attributes));
}

TEST_F(StoreOpenTest, OrphanNeedsNoDescriptor) {
  StoreOptions options = Options();
  options.max_descriptors = 1;  // no open may keep one
  Start(options);
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "kept"));
  ASSERT_OK(Remove(user_, A(), "f"));
  for (int i = 0; i < 100; ++i) MustOpen(user_, CreateArgs(A(), "x" + std::to_string(i)));
  EXPECT_EQ(Read(user_, f), "kept");
  EXPECT_EQ(Attributes(f.filehandle).num_links, 0u);
  ASSERT_OK(Close(user_, f));
}

// Shows DAFS-6.5.34-11
TEST_F(StoreOpenTest, ReplacedFileExistsUntilItsLastClose) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "old"));
  const Opened g = MustOpen(user_, CreateArgs(A(), "g"));
  ASSERT_OK(Write(user_, g, 0, "new"));
  ASSERT_OK(Rename(user_, A(), "g", A(), "f"));
  EXPECT_EQ(Read(user_, f), "old");
  EXPECT_EQ(Read(user_, g), "new");
  EXPECT_EQ(Handle({"a", "f"}), g.filehandle);
  EXPECT_OK(Close(user_, f));
  EXPECT_OK(Close(user_, g));
  EXPECT_EQ(FileContent(Path("a/f")), "new");
}

TEST_F(StoreOpenTest, RefusedRemovalLeavesNoOrphan) {
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));  // 0755, of root
  WriteFile(Path("a/d/f"), "x", 0666);
  const Opened f = MustOpen(user_, OpenArgs(d, "f"));
  EXPECT_DAFS(kAcces, Remove(user_, d, "f"));
  EXPECT_EQ(Attributes(f.filehandle).num_links, 1u);
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  EXPECT_OK(Close(user_, f));
}

// The server keeps the file below the root, whose attributes other clients may have been promised.
TEST_F(StoreOpenTest, RemovalOfOpenFileLeavesRootAsItWas) {
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_EQ(chmod(Path("a/d").c_str(), 0777), 0);
  const wire::FileAttributes before = Attributes(A());
  const Opened f = MustOpen(user_, CreateArgs(d, "new"));
  ASSERT_OK(Remove(user_, d, "new"));
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 1u);
  const auto expect_same = [&] {
    const wire::FileAttributes after = Attributes(A());
    EXPECT_EQ(after.change, before.change);
    EXPECT_EQ(after.num_links, before.num_links);
    EXPECT_EQ(after.time_modify, before.time_modify);
    EXPECT_EQ(after.time_metadata, before.time_metadata);
  };
  expect_same();
  ASSERT_OK(Close(user_, f));
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  expect_same();
}

TEST_F(StoreOpenTest, OrphansOfCrashedServerAreRemovedAtNextStart) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Remove(user_, A(), "f"));
  EXPECT_NE(FilesIn(Path("a/.dafsd-orphans")), 0u);
  Start();
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(user_, f.filehandle, 1, &attributes));
}

TEST_F(StoreOpenTest, OpenFileRemovedOnServerStaysReadable) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  ASSERT_OK(Write(user_, f, 0, "mine"));
  Store::RestoreServerIdentity();
  ASSERT_EQ(unlink(Path("a/f").c_str()), 0);
  EXPECT_EQ(Read(user_, f), "mine");
  EXPECT_EQ(Attributes(f.filehandle).num_links, 0u);
  ASSERT_OK(Close(user_, f));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(user_, f.filehandle, 1, &attributes));
}

// Shows DAFS-6.5.33-04, DAFS-6.5.33-05, DAFS-6.5.24-29
TEST_F(StoreOpenTest, DeleteDispositionsProtectNames) {
  wire::OpenArgs args = CreateArgs(A(), "f", 0666);
  args.delete_disp = wire::OpenDeleteDisp::kDeny;
  const Opened f = MustOpen(user_, args);
  EXPECT_DAFS(kDenyDispConflict, Remove(other_, A(), "f"));
  WriteFile(Path("a/g"), "x", 0666);
  EXPECT_DAFS(kAcces, Rename(user_, A(), "g", A(), "f"));
  ASSERT_OK(Close(user_, f));
  const Opened g = MustOpen(user_, OpenArgs(A(), "g"));
  wire::RemoveArgs remove;
  remove.filehandle = A();
  remove.target = "g";
  remove.remove_mode = wire::RemoveMode::kCheckOpen;
  wire::RemoveRes res;
  EXPECT_DAFS(kDenyDispConflict, store_->names().Remove(user_, remove, &res));
  ASSERT_OK(Close(user_, g));
  EXPECT_OK(store_->names().Remove(user_, remove, &res));
  EXPECT_OK(Remove(user_, A(), "f"));
}

TEST_F(StoreOpenTest, ReleaseClientReleasesAllOpens) {
  std::vector<Opened> opens;
  for (int i = 0; i < 20; ++i) {
    wire::OpenArgs args = CreateArgs(A(), "f" + std::to_string(i), 0666);
    args.share_deny = wire::kShareBoth;
    opens.push_back(MustOpen(user_, args));
  }
  const Opened theirs = MustOpen(other_, CreateArgs(A(), "g", 0666));
  ASSERT_OK(Remove(user_, A(), "f0"));
  EXPECT_EQ(store_->inventory().open_count(), 21u);
  store_->releases().ReleaseClient(user_.client_id);
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  EXPECT_DAFS(kBadStateId, Close(user_, opens[3]));
  EXPECT_OK(Open(other_, OpenArgs(A(), "f3")));
  EXPECT_OK(Write(other_, theirs, 0, "x"));
}

// A program compiled through the mount can then be run on the server.
TEST_F(StoreOpenTest, NoDescriptorForWritingOutlivesTheLastWriter) {
  WriteFile(Path("a/prog"), "", 0755);
  const Opened f = MustOpen(root_, OpenArgs(A(), "prog"));
  ASSERT_OK(Write(root_, f, 0, "#!/bin/sh\nexit 7\n"));
  wire::OpenArgs args = OpenArgs(A(), "prog", wire::kShareRead);
  args.owner = "reader";
  const Opened reader = MustOpen(root_, args);
  const auto open_for_writing = [&] {
    Store::RestoreServerIdentity();
    size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error);
      const int fd = std::stoi(entry.path().filename());
      const int flags = fcntl(fd, F_GETFL);
      if (target == Path("a/prog") && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY) {
        ++found;
      }
    }
    return found;
  };
  EXPECT_EQ(open_for_writing(), 1u);
  ASSERT_OK(Close(root_, f));
  EXPECT_EQ(open_for_writing(), 0u);
  EXPECT_EQ(Read(root_, reader), "#!/bin/sh\nexit 7\n");
}

}  // namespace
}  // namespace dafs::server
