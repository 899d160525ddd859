// Names: LOOKUP, LOOKUPP, CREATE, LINK, REMOVE, RENAME, READLINK, and the pseudo file system.
#include <sys/sysmacros.h>

#include <atomic>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/store/objects/recent_stats.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using wire::ObjectType;

class StoreNamespaceTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
};

// Shows DAFS-4.1.4-01, DAFS-4.1.4-02, DAFS-4.1.4-03, DAFS-4.1.4-07, DAFS-6.5.12-01, DAFS-6.5.21-09:
// exports of two directories are under one root, and /deep, which is not exported, leads to an
// export.
TEST_F(StoreNamespaceTest, PseudoFileSystemLeadsToExports) {
  const wire::FileHandle root = Handle({});
  EXPECT_THAT(Names(root_, root), ElementsAre("a", "deep"));
  EXPECT_THAT(Names(root_, Handle({"deep"})), ElementsAre("b"));
  EXPECT_DAFS(kNoEnt, Lookup(root_, root, "other"));
  EXPECT_EQ(root.fshandle, Handle({"deep"}).fshandle);
  EXPECT_NE(root.fshandle, A().fshandle);
  EXPECT_NE(A().fshandle, Handle({"deep", "b"}).fshandle);
  const wire::FileAttributes attributes = Attributes(root);
  EXPECT_EQ(attributes.object_type, ObjectType::kDir);
  EXPECT_EQ(attributes.mode, 0555u);
  EXPECT_TRUE(attributes.has(wire::kFattrMandatory));
  EXPECT_EQ(attributes.filehandle, root);
}

// An export that does not admit the identity of a client is as one that does not exist.
TEST_F(StoreNamespaceTest, ExportsThatRefuseAnIdentityAreHidden) {
  exports_ = {Named("/a", "a"), Named("/deep/mine", "b"), Named("/deep/theirs", "c"),
              Named("/other/theirs", "c")};
  std::filesystem::create_directories(Path("c"));
  for (size_t i = 1; i < exports_.size(); ++i) {
    exports_[i].sec = kSecKrb5;
    exports_[i].principals = {i == 1 ? "alice@R" : "bob@R"};
  }
  Start();
  bool hidden = false;
  Caller alice = root_;
  alice.peer.principal = std::make_shared<const std::string>("alice@R");
  alice.hidden = &hidden;
  wire::FileHandle root, deep, theirs;
  ASSERT_OK(store_->names().GetRootHandle(alice, &root));
  EXPECT_THAT(Names(alice, root), ElementsAre("deep"));  // /a takes no Kerberos
  EXPECT_DAFS(kWrongSec, Lookup(alice, root, "a"));
  ASSERT_OK(Lookup(alice, root, "deep", &deep));
  EXPECT_THAT(Names(alice, deep), ElementsAre("mine"));
  EXPECT_DAFS(kNoEnt, Lookup(alice, deep, "none"));
  EXPECT_FALSE(hidden);
  EXPECT_DAFS(kNoEnt, Lookup(alice, deep, "theirs"));
  EXPECT_TRUE(hidden);
  EXPECT_DAFS(kNoEnt, Lookup(alice, root, "other"));
  wire::OpenRes res;
  EXPECT_DAFS(kIsDir, store_->opens().Open(alice, OpenArgs(deep, "mine"), &res));
  EXPECT_DAFS(kNoEnt, store_->opens().Open(alice, OpenArgs(deep, "theirs"), &res));
  EXPECT_DAFS(kNoEnt, store_->opens().Open(alice, OpenArgs(root, "other"), &res));
  EXPECT_EQ(Attributes(deep).num_links, 1u);  // counts none
  Caller bob = alice;
  bob.peer.principal = std::make_shared<const std::string>("bob@R");
  EXPECT_THAT(Names(bob, deep), ElementsAre("theirs"));
  ASSERT_OK(Lookup(bob, deep, "theirs", &theirs));
  // A handle does not help.
  EXPECT_DAFS(kAcces, Lookup(alice, theirs, "x"));
  // The address decides likewise.
  Caller elsewhere = root_;
  elsewhere.peer.address = *PeerAddress::Parse("198.51.100.1");
  Export closed = exports_[0];
  closed.clients = {*Cidr::Parse("192.0.2.0/24")};
  exports_ = {closed, Named("/b", "b")};
  Start();
  EXPECT_THAT(Names(elsewhere, Handle({})), ElementsAre("b"));
  EXPECT_DAFS(kNoEnt, Lookup(elsewhere, Handle({}), "a"));
}

// Shows DAFS-4.1.4-02 (it is read-only)
TEST_F(StoreNamespaceTest, PseudoFileSystemIsReadOnly) {
  const wire::FileHandle root = Handle({});
  EXPECT_DAFS(kRofs, Create(root_, root, "x", ObjectType::kDir));
  EXPECT_DAFS(kRofs, Remove(root_, root, "a"));
  EXPECT_DAFS(kRofs, Rename(root_, root, "a", root, "c"));
  wire::OpenRes res;
  EXPECT_DAFS(kRofs, store_->opens().Open(root_, CreateArgs(root, "f"), &res));
  EXPECT_DAFS(kIsDir, store_->opens().Open(root_, OpenArgs(root, "a"), &res));
  EXPECT_DAFS(kNoEnt, store_->opens().Open(root_, OpenArgs(root, "f"), &res));
  uint64_t bitmap = 0;
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrMode);
  EXPECT_DAFS(kRofs, store_->attributes().Setattr(root_, root, {}, attributes, &bitmap));
}

TEST_F(StoreNamespaceTest, ExportSlashIsTheRoot) {
  exports_ = {Named("/", "a")};
  WriteFile(Path("a/f"), "x");
  Start();
  const wire::FileHandle root = Handle({});
  EXPECT_THAT(Names(root_, root), ElementsAre("f"));
  wire::FileHandle parent;
  EXPECT_DAFS(kNoEnt, store_->names().Lookupp(root_, root, &parent));
}

// Shows DAFS-6.5.21-01, DAFS-6.5.21-02, DAFS-6.5.21-04, DAFS-6.5.21-05, DAFS-6.5.21-12
TEST_F(StoreNamespaceTest, LookupResolvesPathsAndReportsResolvedComponents) {
  wire::FileHandle d, link;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(Create(root_, d, "link", ObjectType::kLnk, &link));
  WriteFile(Path("a/d/f"), "x");
  wire::LookupArgs args;
  args.directory = Handle({});
  wire::LookupRes res;
  args.path = {"a", "d", "f"};
  EXPECT_OK(store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(res.component_count, 3u);
  const wire::FileHandle f = res.filehandle;
  args.path = {"a", "d", "none", "x"};
  EXPECT_DAFS(kNoEnt, store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(res.component_count, 2u);
  EXPECT_EQ(res.filehandle, d);
  args.path = {"none"};
  EXPECT_DAFS(kNoEnt, store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(res.component_count, 0u);
  EXPECT_EQ(res.filehandle, wire::FileHandle{});
  args.path = {"a", "d", "f", "x"};
  EXPECT_DAFS(kNotDir, store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(res.component_count, 3u);
  EXPECT_EQ(res.filehandle, f);
  EXPECT_DAFS(kSymlink, Lookup(root_, link, "x"));
  EXPECT_DAFS(kNotDir, Lookup(root_, f, "x"));
  args.path = {};
  EXPECT_DAFS(kInval, store_->names().Lookup(root_, args, &res));
  EXPECT_DAFS(kNameTooLong, Lookup(root_, A(), std::string(256, 'x')));
}

// Shows DAFS-6.5.21-10, DAFS-6.5.34-07: "." and ".." mean nothing (R63).
TEST_F(StoreNamespaceTest, DotAndDotDotAreInvalidNames) {
  for (const std::string dots : {".", ".."}) {
    EXPECT_DAFS(kNoEnt, Lookup(root_, A(), dots));
    EXPECT_DAFS(kInval, Create(root_, A(), dots, ObjectType::kDir));
    EXPECT_DAFS(kInval, Remove(root_, A(), dots));
    EXPECT_DAFS(kInval, Rename(root_, A(), dots, A(), "x"));
    EXPECT_DAFS(kInval, Rename(root_, A(), "x", A(), dots));
    wire::OpenRes res;
    EXPECT_DAFS(kNoEnt, store_->opens().Open(root_, OpenArgs(A(), dots), &res));
    EXPECT_DAFS(kInval, store_->opens().Open(root_, CreateArgs(A(), dots), &res));
  }
}

// Shows DAFS-6.5.22-01, DAFS-6.5.22-02, DAFS-6.5.22-04
TEST_F(StoreNamespaceTest, LookuppStopsAtRoot) {
  wire::FileHandle d, e, parent;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(Create(root_, d, "e", ObjectType::kDir, &e));
  EXPECT_OK(store_->names().Lookupp(root_, e, &parent));
  EXPECT_EQ(parent, d);
  EXPECT_OK(store_->names().Lookupp(root_, d, &parent));
  EXPECT_EQ(parent, A());
  EXPECT_OK(store_->names().Lookupp(root_, A(), &parent));
  EXPECT_EQ(parent, Handle({}));
  EXPECT_OK(store_->names().Lookupp(root_, Handle({"deep", "b"}), &parent));
  EXPECT_EQ(parent, Handle({"deep"}));
  EXPECT_DAFS(kNoEnt, store_->names().Lookupp(root_, Handle({}), &parent));
  WriteFile(Path("a/f"), "x");
  EXPECT_DAFS(kNotDir, store_->names().Lookupp(root_, Handle({"a", "f"}), &parent));
}

TEST_F(StoreNamespaceTest, DirectoryMovedOutOfItsExportHasNoParent) {
  wire::FileHandle d, e, parent;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(Create(root_, d, "e", ObjectType::kDir, &e));
  Store::RestoreServerIdentity();
  ASSERT_EQ(rename(Path("a/d").c_str(), Path("outside").c_str()), 0);
  EXPECT_DAFS(kNoEnt, store_->names().Lookupp(root_, d, &parent));
  EXPECT_DAFS(kNoEnt, store_->names().Lookupp(root_, e, &parent));
}

// Shows DAFS-6.5.9-01, DAFS-6.5.9-06, DAFS-6.1.5-18
TEST_F(StoreNamespaceTest, CreateMakesEveryTypeWithAtMostRequestedMode) {
  wire::CreateArgs args;
  args.filehandle = A();
  wire::CreateRes res;
  const auto make = [&](const std::string& name, ObjectType type) {
    args.component = name;
    args.obj_type = type;
    EXPECT_OK(store_->names().Create(root_, args, &res)) << name;
    EXPECT_NE(res.change_info.before, res.change_info.after);
    return Attributes(res.filehandle);
  };
  EXPECT_EQ(make("fifo", ObjectType::kFifo).object_type, ObjectType::kFifo);
  EXPECT_EQ(make("sock", ObjectType::kSock).object_type, ObjectType::kSock);
  EXPECT_EQ(make("dir", ObjectType::kDir).mode, 0700u);
  args.linkdata = "a/b\xff";
  EXPECT_EQ(make("lnk", ObjectType::kLnk).object_type, ObjectType::kLnk);
  args.specdata = {8, 300};
  const wire::FileAttributes block = make("blk", ObjectType::kBlk);
  EXPECT_EQ(block.object_type, ObjectType::kBlk);
  EXPECT_EQ(block.raw_dev, (wire::SpecData{8, 300}));
  EXPECT_EQ(block.mode, 0600u);
  EXPECT_EQ(make("chr", ObjectType::kChr).object_type, ObjectType::kChr);
  EXPECT_EQ(Stat(Path("a/chr")).st_rdev, makedev(8, 300));
  args.component = "big";
  args.specdata = {uint64_t{1} << 40, 0};
  EXPECT_DAFS(kInval, store_->names().Create(root_, args, &res));
}

// Shows DAFS-6.5.9-04, DAFS-6.5.9-05, DAFS-6.5.9-08
TEST_F(StoreNamespaceTest, CreateRefusesInvalidArguments) {
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir));
  EXPECT_DAFS(kExist, Create(root_, A(), "d", ObjectType::kDir));
  EXPECT_DAFS(kExist, Create(root_, A(), "d", ObjectType::kLnk));
  for (ObjectType type : {ObjectType::kReg, ObjectType::kInvalid, ObjectType::kAttrDir,
                          ObjectType::kNamedAttr, static_cast<ObjectType>(99)}) {
    EXPECT_DAFS(kBadType, Create(root_, A(), "x", type));
  }
  EXPECT_DAFS(kInval, Create(root_, A(), "", ObjectType::kDir));
  EXPECT_DAFS(kInval, Create(root_, A(), "a/b", ObjectType::kDir));
  EXPECT_DAFS(kNameTooLong, Create(root_, A(), std::string(300, 'x'), ObjectType::kDir));
  WriteFile(Path("a/f"), "x");
  EXPECT_DAFS(kNotDir, Create(root_, Handle({"a", "f"}), "x", ObjectType::kDir));
  wire::CreateArgs args;
  args.filehandle = A();
  args.component = "fifo";
  args.obj_type = ObjectType::kFifo;
  args.attr.set(wire::kFattrMode);
  wire::CreateRes res;
  EXPECT_DAFS(kInval, store_->names().Create(root_, args, &res));
}

// Shows DAFS-6.5.9-07: a new directory has its attributes at once, set-group-id inherited.
TEST_F(StoreNamespaceTest, NewDirectoryHasRequestedAttributes) {
  wire::CreateArgs args;
  args.filehandle = A();
  args.component = "d";
  args.obj_type = ObjectType::kDir;
  args.attr.set(wire::kFattrMode | wire::kFattrOwner | wire::kFattrOwnerGroup);
  args.attr.mode = 02750;
  args.attr.owner = "1000";
  args.attr.owner_group = "2000";
  wire::CreateRes res;
  ASSERT_OK(store_->names().Create(root_, args, &res));
  wire::FileAttributes attributes = Attributes(res.filehandle);
  EXPECT_EQ(attributes.mode, 02750u);
  EXPECT_EQ(attributes.owner, "1000");
  EXPECT_EQ(attributes.owner_group, "2000");
  wire::FileHandle below;
  ASSERT_OK(Create(user_, res.filehandle, "below", ObjectType::kDir, &below));
  attributes = Attributes(below);
  EXPECT_EQ(attributes.owner, "1000");
  EXPECT_EQ(attributes.owner_group, "2000");
  EXPECT_EQ(attributes.mode, 02755u);
  // If an attribute cannot be set, no directory remains.
  args.component = "e";
  args.attr.owner = "1001";
  EXPECT_DAFS(kPerm, store_->names().Create(user_, args, &res));
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), "e"));
  args.attr.set(wire::kFattrHidden);
  EXPECT_DAFS(kInval, store_->names().Create(root_, args, &res));
}

// Shows DAFS-6.5.31-01, DAFS-6.5.31-02, DAFS-6.5.31-03
TEST_F(StoreNamespaceTest, ReadlinkReturnsContentUnchanged) {
  wire::CreateArgs args;
  args.filehandle = A();
  args.component = "l";
  args.obj_type = ObjectType::kLnk;
  args.linkdata = "../x//\xc3\x28 y";
  wire::CreateRes res;
  ASSERT_OK(store_->names().Create(user_, args, &res));
  std::string link;
  EXPECT_OK(store_->names().Readlink(user_, res.filehandle, &link));
  EXPECT_EQ(link, args.linkdata);
  EXPECT_DAFS(kInval, store_->names().Readlink(user_, A(), &link));
}

// Shows DAFS-6.5.17-01, DAFS-6.5.17-02, DAFS-6.5.17-03 (EXIST, ISDIR), DAFS-6.5.17-06,
// DAFS-6.5.17-07
TEST_F(StoreNamespaceTest, LinkAddsName) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  wire::LinkArgs args;
  args.source_object = f.filehandle;
  args.destination_object = A();
  args.newname = "g";
  wire::LinkRes res;
  ASSERT_OK(store_->names().Link(user_, args, &res));
  EXPECT_NE(res.change_info.before, res.change_info.after);
  EXPECT_EQ(Handle({"a", "g"}), f.filehandle);
  EXPECT_EQ(Attributes(f.filehandle).num_links, 2u);
  EXPECT_DAFS(kExist, store_->names().Link(user_, args, &res));
  args.newname = "h";
  args.source_object = A();
  EXPECT_DAFS(kIsDir, store_->names().Link(root_, args, &res));
  args.source_object = f.filehandle;
  args.destination_object = Handle({"deep", "b"});
  EXPECT_DAFS(kXdev, store_->names().Link(root_, args, &res));
  args.destination_object = f.filehandle;
  EXPECT_DAFS(kNotDir, store_->names().Link(root_, args, &res));
  wire::FileHandle link;
  ASSERT_OK(Create(root_, A(), "sym", ObjectType::kLnk, &link));
  args.source_object = link;
  args.destination_object = A();
  ASSERT_OK(store_->names().Link(root_, args, &res));  // of the link itself
  EXPECT_EQ(Handle({"a", "h"}), link);
}

// Shows DAFS-6.5.17-03 (MLINK), DAFS-6.1.6-08: the limits are those of the file system.
TEST_F(StoreNamespaceTest, LinksAndNamesStayWithinReportedLimits) {
  wire::FsAttributes limits;
  ASSERT_OK(store_->attributes().GetFsattr(user_, A(), wire::kFsattrMaxLink | wire::kFsattrMaxName,
                                           &limits));
  EXPECT_OK(Create(user_, A(), std::string(limits.max_name, 'n'), ObjectType::kDir));
  EXPECT_DAFS(kNameTooLong,
              Create(user_, A(), std::string(limits.max_name + 1, 'n'), ObjectType::kDir));
  if (limits.max_link > 100000) GTEST_SKIP() << "too many links for a test in " << base_;
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  Store::RestoreServerIdentity();
  for (uint32_t links = 2; links < limits.max_link; ++links) {
    ASSERT_EQ(link(Path("a/f").c_str(), Path("a/link" + std::to_string(links)).c_str()), 0);
  }
  wire::LinkArgs args;
  args.source_object = f.filehandle;
  args.destination_object = A();
  args.newname = "last";
  wire::LinkRes res;
  EXPECT_OK(store_->names().Link(user_, args, &res));
  EXPECT_EQ(Attributes(f.filehandle).num_links, limits.max_link);
  args.newname = "beyond";
  EXPECT_DAFS(kMlink, store_->names().Link(user_, args, &res));
  EXPECT_DAFS(kNoEnt, Lookup(user_, A(), "beyond"));
}

// Shows DAFS-6.5.33-09, DAFS-6.5.34-12: also while the file is open.
TEST_F(StoreNamespaceTest, RemovedAndRenamedNamesAreGone) {
  for (const char* name : {"removed", "renamed", "open and removed", "open and renamed"}) {
    WriteFile(Path("a/") + name, name, 0666);
  }
  const Opened removed = MustOpen(user_, OpenArgs(A(), "open and removed"));
  const Opened renamed = MustOpen(user_, OpenArgs(A(), "open and renamed"));
  ASSERT_OK(Remove(user_, A(), "removed"));
  ASSERT_OK(Remove(user_, A(), "open and removed"));
  ASSERT_OK(Rename(user_, A(), "renamed", A(), "new"));
  ASSERT_OK(Rename(user_, A(), "open and renamed", A(), "open and new"));
  for (const char* name : {"removed", "renamed", "open and removed", "open and renamed"}) {
    SCOPED_TRACE(name);
    EXPECT_DAFS(kNoEnt, Lookup(user_, A(), name));
    wire::OpenRes res;
    EXPECT_DAFS(kNoEnt, store_->opens().Open(other_, OpenArgs(A(), name), &res));
  }
  EXPECT_EQ(Read(other_, MustOpen(other_, OpenArgs(A(), "new"))), "renamed");
  EXPECT_EQ(MustOpen(other_, OpenArgs(A(), "open and new")).filehandle, renamed.filehandle);
  EXPECT_OK(Close(user_, removed));
}

// Shows DAFS-6.5.33-01, DAFS-6.5.33-02, DAFS-6.5.33-10
TEST_F(StoreNamespaceTest, RemoveRemovesEveryType) {
  for (const auto& [name, type] : std::map<std::string, ObjectType>{
           {"d", ObjectType::kDir}, {"l", ObjectType::kLnk}, {"p", ObjectType::kFifo}}) {
    ASSERT_OK(Create(root_, A(), name, type));
  }
  ASSERT_OK(Create(root_, Handle({"a", "d"}), "e", ObjectType::kDir));
  EXPECT_DAFS(kNotEmpty, Remove(root_, A(), "d"));
  EXPECT_OK(Remove(root_, Handle({"a", "d"}), "e"));
  for (const std::string name : {"d", "l", "p"}) {
    wire::RemoveArgs args;
    args.filehandle = A();
    args.target = name;
    wire::RemoveRes res;
    EXPECT_OK(store_->names().Remove(root_, args, &res));
    EXPECT_NE(res.change_info.before, res.change_info.after);
    EXPECT_DAFS(kNoEnt, Lookup(root_, A(), name));
    EXPECT_DAFS(kNoEnt, Remove(root_, A(), name));
  }
  EXPECT_THAT(Names(root_, A()), ElementsAre());
}

// Shows DAFS-6.5.34-02, DAFS-6.5.34-03, DAFS-6.5.34-04, DAFS-6.5.34-05
TEST_F(StoreNamespaceTest, RenameReplacesOnlyCompatibleTypes) {
  wire::FileHandle d, e;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(Create(root_, A(), "e", ObjectType::kDir, &e));
  WriteFile(Path("a/f"), "f");
  WriteFile(Path("a/g"), "g");
  const wire::FileHandle f = Handle({"a", "f"});
  const wire::FileHandle g = Handle({"a", "g"});
  EXPECT_OK(Rename(root_, A(), "f", A(), "g"));
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), "f"));
  EXPECT_EQ(Handle({"a", "g"}), f);
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, g, 1, &attributes));
  EXPECT_DAFS(kExist, Rename(root_, A(), "g", A(), "d"));
  EXPECT_DAFS(kExist, Rename(root_, A(), "d", A(), "g"));
  EXPECT_OK(Rename(root_, A(), "g", d, "g"));
  EXPECT_DAFS(kExist, Rename(root_, A(), "e", A(), "d"));
  EXPECT_OK(Rename(root_, A(), "d", A(), "e"));
  EXPECT_EQ(Handle({"a", "e"}), d);
  EXPECT_EQ(Handle({"a", "e", "g"}), f);
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, e, 1, &attributes));
  EXPECT_DAFS(kInval, Rename(root_, A(), "e", d, "below"));
  EXPECT_DAFS(kXdev, Rename(root_, A(), "e", Handle({"deep", "b"}), "e"));
  EXPECT_DAFS(kNoEnt, Rename(root_, A(), "none", A(), "x"));
  ASSERT_EQ(link(Path("a/e/g").c_str(), Path("a/h").c_str()), 0);
  EXPECT_OK(Rename(root_, A(), "h", d, "g"));  // one object: nothing happens
  EXPECT_THAT(Names(root_, A()), UnorderedElementsAre("e", "h"));
}

// Shows DAFS-6.5.34-09, DAFS-6.1.5-10
TEST_F(StoreNamespaceTest, RenameReportsChangesOfBothDirectories) {
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  WriteFile(Path("a/f"), "f");
  wire::RenameArgs args;
  args.sourcedir = A();
  args.targetdir = d;
  args.oldname = "f";
  args.newname = "g";
  wire::RenameRes res;
  const uint64_t before = Attributes(A()).change;
  ASSERT_OK(store_->names().Rename(root_, args, &res));
  EXPECT_EQ(res.source.before, before);
  EXPECT_EQ(res.source.after, Attributes(A()).change);
  EXPECT_EQ(res.target.after, Attributes(d).change);
  EXPECT_NE(res.source.before, res.source.after);
  EXPECT_NE(res.target.before, res.target.after);
}

// A LOOKUP during a removal returns either a valid handle or NOENT, never a stale handle.
TEST_F(StoreNamespaceTest, LookupDuringRemovalFindsObjectOrNoEntry) {
  Start();
  const wire::FileHandle a = A();
  std::atomic<bool> end{false};
  const auto make_and_remove = [&] {
    while (!end) {
      const DafsStatus made = Create(root_, a, "d", wire::ObjectType::kDir);
      EXPECT_TRUE(made == DafsStatus::kOk || made == DafsStatus::kExist) << wire::Name(made);
      std::this_thread::yield();  // with one CPU the others would never see the directory
      const DafsStatus removed = Remove(root_, a, "d");
      EXPECT_TRUE(removed == DafsStatus::kOk || removed == DafsStatus::kNoEnt)
          << wire::Name(removed);
    }
    Store::RestoreServerIdentity();
  };
  // So many that a removal is nearly always under way.
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) others.emplace_back(make_and_remove);
  RecentStats recent;
  Caller caller = root_;
  caller.recent = &recent;
  std::map<std::string_view, int> answers;
  const absl::Time until = absl::Now() + absl::Seconds(2);
  while (absl::Now() < until) {
    wire::FileHandle d;
    recent.Clear();
    DafsStatus status = Lookup(caller, a, "d", &d);
    if (status == DafsStatus::kOk) {
      wire::FileAttributes attributes;
      status = store_->attributes().Getattr(caller, d, wire::kFattrAll, &attributes);
    }
    ++answers[wire::Name(status)];
  }
  end = true;
  for (std::thread& other : others) other.join();
  EXPECT_THAT(answers, UnorderedElementsAre(testing::Key(wire::Name(DafsStatus::kOk)),
                                            testing::Key(wire::Name(DafsStatus::kNoEnt))));
}

// A cached descriptor must not keep the space of a removed file.
TEST_F(StoreNamespaceTest, FileRemovedOnServerIsReleasedUnlessOpen) {
  for (const char* name : {"a/gone", "a/open", "a/stays"}) WriteFile(Path(name), "data");
  Start();
  Handle({"a", "gone"});
  const wire::FileHandle stays = Handle({"a", "stays"});
  const Opened opened = MustOpen(root_, OpenArgs(A(), "open"));
  const size_t before = store_->inventory().descriptor_count();
  Store::RestoreServerIdentity();
  ASSERT_EQ(unlink(Path("a/gone").c_str()), 0);
  ASSERT_EQ(unlink(Path("a/open").c_str()), 0);
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  EXPECT_EQ(store_->inventory().descriptor_count(), before - 1);
  EXPECT_EQ(Read(root_, opened), "data");
  EXPECT_EQ(Attributes(stays).object_size, 4u);
  EXPECT_EQ(store_->inventory().descriptor_count(), before - 1);
  ASSERT_OK(Close(root_, opened));
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  EXPECT_LT(store_->inventory().descriptor_count(), before - 2);
}

// At the root of a file system clients cannot use the name of the orphan directory.
TEST_F(StoreNamespaceTest, ReservedNameCannotBeUsedAtRoot) {
  const std::string reserved = ".dafsd-orphans";
  mkdir(Path("a/" + reserved).c_str(), 0777);
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), reserved));
  EXPECT_DAFS(kAcces, Create(root_, A(), reserved, ObjectType::kDir));
  EXPECT_DAFS(kAcces, Remove(root_, A(), reserved));
  EXPECT_DAFS(kAcces, Rename(root_, A(), reserved, A(), "x"));
  wire::OpenRes res;
  EXPECT_DAFS(kAcces, store_->opens().Open(root_, CreateArgs(A(), reserved), &res));
  EXPECT_THAT(Names(root_, A()), ElementsAre());
}

// A backup of a file system may hold a directory of that name.
TEST_F(StoreNamespaceTest, ReservedNameIsOrdinaryBelowRoot) {
  const std::string reserved = ".dafsd-orphans";
  wire::FileHandle sub, orphans;
  ASSERT_OK(Create(root_, A(), "sub", ObjectType::kDir, &sub));
  ASSERT_OK(Create(root_, sub, reserved, ObjectType::kDir, &orphans));
  const Opened f = MustOpen(root_, CreateArgs(orphans, reserved));
  ASSERT_OK(Close(root_, f));
  wire::FileHandle found;
  EXPECT_OK(Lookup(root_, sub, reserved, &found));
  EXPECT_EQ(found, orphans);
  EXPECT_THAT(Names(root_, sub), ElementsAre(reserved));
  EXPECT_OK(Rename(root_, orphans, reserved, orphans, "x"));
  EXPECT_OK(Rename(root_, orphans, "x", orphans, reserved));
  EXPECT_DAFS(kAcces, Rename(root_, sub, reserved, A(), reserved));
  EXPECT_OK(Remove(root_, orphans, reserved));
  EXPECT_OK(Remove(root_, sub, reserved));
  EXPECT_THAT(Names(root_, sub), ElementsAre());
}

// The root of the inner export is below the root of another export.
TEST_F(StoreNamespaceTest, ReservedNameOfExportIsReservedThroughAnotherExport) {
  mkdir(Path("a/inner").c_str(), 0777);
  exports_.push_back(Named("/inner", "a/inner"));
  Start();
  EXPECT_DAFS(kAcces, Create(root_, Handle({"a", "inner"}), ".dafsd-orphans", ObjectType::kDir));
}

}  // namespace
}  // namespace dafs::server
