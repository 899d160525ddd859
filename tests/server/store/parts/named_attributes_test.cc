// Named attributes against the extended attributes of the file system. Spec: 4.1.5, 6.5.25.
#include <sys/xattr.h>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class NamedAttributesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    WriteFile(Path("a/file"), "data", 0666);
    if (setxattr(Path("a/file").c_str(), "user.probe", "", 0, 0) != 0) {
      GTEST_SKIP() << "the file system of /tmp has no user attributes";
    }
    removexattr(Path("a/file").c_str(), "user.probe");
    ASSERT_OK(store_->names().Openattr(root_, Handle({"a", "file"}), &directory_));
  }

  wire::OpenArgs ToSet(const std::string& name, wire::CreateMode mode) {
    wire::OpenArgs args = OpenArgs(directory_, name, wire::kShareWrite);
    args.open_type = wire::OpenType::kCreate;
    args.createmode = mode;
    args.createattrs.set(wire::kFattrObjectSize);
    return args;
  }
  // OPEN, WRITE, CLOSE. Returns the status of the first one that fails.
  DafsStatus Set(const Caller& caller, const std::string& name, const std::string& value,
                 wire::CreateMode mode = wire::CreateMode::kUnchecked) {
    wire::OpenRes res;
    DafsStatus status = store_->opens().Open(caller, ToSet(name, mode), &res);
    if (status != DafsStatus::kOk) return status;
    const Opened opened{res.filehandle, res.state_id};
    status = Write(caller, opened, 0, value);
    const DafsStatus closed = Close(caller, opened);
    return status != DafsStatus::kOk ? status : closed;
  }
  // LOOKUP and READ without a state id.
  std::string Get(const Caller& caller, const std::string& name) {
    wire::FileHandle handle;
    const DafsStatus status = Lookup(caller, directory_, name, &handle);
    if (status != DafsStatus::kOk) return std::string(wire::Name(status));
    return Read(caller, {handle, {}}, 0, 70000);
  }
  std::string Behind(const std::string& name) {
    Store::RestoreServerIdentity();
    char value[65536];
    const ssize_t n = getxattr(Path("a/file").c_str(), name.c_str(), value, sizeof value);
    return n < 0 ? "none" : std::string(value, static_cast<size_t>(n));
  }

  // struct vfs_cap_data of version 2 without capabilities.
  const std::string kNoCapabilities = std::string("\0\0\0\x02", 4) + std::string(16, '\0');
  wire::FileHandle directory_;
};

// Shows DAFS-6.5.25-01, DAFS-6.5.25-02 (LOOKUP), DAFS-6.1.5-07, DAFS-4.1.5-02, DAFS-4.1.5-03,
// DAFS-6.5.22-01
TEST_F(NamedAttributesTest, OpenattrReturnsDirectoryOfNamedAttributes) {
  EXPECT_EQ(Attributes(directory_).object_type, wire::ObjectType::kAttrDir);
  ASSERT_OK(Set(root_, "user.color", "red"));
  EXPECT_EQ(Behind("user.color"), "red");
  wire::FileHandle handle;
  ASSERT_OK(Lookup(root_, directory_, "user.color", &handle));
  const wire::FileAttributes attributes = Attributes(handle);
  EXPECT_EQ(attributes.object_type, wire::ObjectType::kNamedAttr);
  EXPECT_EQ(attributes.object_size, 3u);
  EXPECT_TRUE(Attributes(Handle({"a", "file"})).named_attr);
  EXPECT_FALSE(attributes.named_attr);
  wire::FileHandle parent;
  ASSERT_OK(store_->names().Lookupp(root_, directory_, &parent));
  EXPECT_EQ(parent, Handle({"a", "file"}));
  EXPECT_DAFS(kNotDir, store_->names().Lookupp(root_, handle, &parent));
}

// Shows DAFS-6.5.25-03
TEST_F(NamedAttributesTest, OpenattrFailsForObjectsWithoutAttributes) {
  wire::FileHandle unused;
  EXPECT_DAFS(kNotSupp,
              store_->names().Openattr(root_, Handle({}), &unused));  // pseudo file system
  EXPECT_DAFS(kNotSupp, store_->names().Openattr(root_, directory_, &unused));
  EXPECT_DAFS(kNotSupp, Create(root_, directory_, "dir", wire::ObjectType::kDir));
  EXPECT_DAFS(kNotSupp, Rename(root_, directory_, "user.a", directory_, "user.b"));
}

// Shows DAFS-4.1.5-03
TEST_F(NamedAttributesTest, NamesOfAnyNameSpaceAreStored) {
  ASSERT_OK(Set(root_, "no.such.space", "x"));
  EXPECT_EQ(Behind("user.dafs.no.such.space"), "x");
  wire::FileHandle handle;
  ASSERT_OK(Lookup(root_, directory_, "no.such.space", &handle));
  EXPECT_EQ(Read(root_, {handle, {}}), "x");
  EXPECT_DAFS(kInval, Lookup(root_, directory_, "user.dafs.no.such.space", &handle));
  ASSERT_OK(Set(root_, "user.dafs.user.x", "y"));
  EXPECT_EQ(Behind("user.dafs.user.x"), "y");
  ASSERT_OK(Remove(root_, directory_, "no.such.space"));
  EXPECT_EQ(Behind("user.dafs.no.such.space"), "none");
}

TEST_F(NamedAttributesTest, ForgedHandlesAreRefused) {
  wire::FileHandle forged = directory_;
  forged.fileid.bytes[0] |= 0xc0;  // from directory to attribute
  wire::FileAttributes attributes;
  EXPECT_DAFS(kBadHandle, store_->attributes().Getattr(root_, forged, 0, &attributes));
  EXPECT_EQ(Read(root_, {forged, {}}), "DAFSERR_BADHANDLE");
}

TEST_F(NamedAttributesTest, HandlesSurviveRestart) {
  ASSERT_OK(Set(root_, "user.color", "red"));
  wire::FileHandle handle;
  ASSERT_OK(Lookup(root_, directory_, "user.color", &handle));
  Start();
  EXPECT_EQ(Read(root_, {handle, {}}), "red");
  ASSERT_OK(Remove(root_, directory_, "user.color"));
  EXPECT_EQ(Behind("user.color"), "none");
  EXPECT_EQ(Read(root_, {handle, {}}), "DAFSERR_STALE");
}

// Shows DAFS-4.1.5-01 (CREATE, WRITE, LOOKUP, READ)
TEST_F(NamedAttributesTest, ValueIsInvisibleBeforeClose) {
  ASSERT_OK(Set(root_, "user.value", "old value"));
  const Opened opened = MustOpen(root_, ToSet("user.value", wire::CreateMode::kUnchecked));
  ASSERT_OK(Write(root_, opened, 0, "half"));
  EXPECT_EQ(Get(root_, "user.value"), "old value");
  ASSERT_OK(Write(root_, opened, 4, " of it"));
  EXPECT_EQ(Behind("user.value"), "old value");
  ASSERT_OK(Close(root_, opened));
  EXPECT_EQ(Get(root_, "user.value"), "half of it");
  EXPECT_DAFS(kBadStateId, Close(root_, opened));
}

TEST_F(NamedAttributesTest, OpenReadsOneValueDespiteOtherChanges) {
  ASSERT_OK(Set(root_, "user.value", "first"));
  const Opened opened = MustOpen(root_, OpenArgs(directory_, "user.value", wire::kShareRead));
  ASSERT_OK(Set(other_, "user.value", "2nd"));
  EXPECT_EQ(Read(root_, opened, 0, 3), "fir");
  EXPECT_EQ(Read(root_, opened, 3), "st");
  EXPECT_EQ(Read(root_, opened, 9), "");
  ASSERT_OK(Close(root_, opened));
  EXPECT_EQ(Get(root_, "user.value"), "2nd");
}

TEST_F(NamedAttributesTest, CreateModesMatchSetxattrFlags) {
  ASSERT_OK(Set(root_, "user.a", "1", wire::CreateMode::kGuarded));
  EXPECT_DAFS(kExist, Set(root_, "user.a", "2", wire::CreateMode::kGuarded));
  // Two clients create the attribute at once: the second fails when it takes effect.
  const Opened one = MustOpen(root_, ToSet("user.b", wire::CreateMode::kGuarded));
  const Opened two = MustOpen(other_, ToSet("user.b", wire::CreateMode::kGuarded));
  ASSERT_OK(Write(root_, one, 0, "one"));
  ASSERT_OK(Close(root_, one));
  ASSERT_OK(Write(other_, two, 0, "two"));
  EXPECT_DAFS(kExist, Close(other_, two));
  EXPECT_EQ(Behind("user.b"), "one");
  wire::OpenRes res;
  EXPECT_DAFS(kNoEnt, store_->opens().Open(root_, OpenArgs(directory_, "user.none"), &res));
  // Opened without create, and removed meanwhile.
  const Opened open = MustOpen(root_, OpenArgs(directory_, "user.a"));
  ASSERT_OK(Write(root_, open, 0, "3"));
  ASSERT_OK(Remove(root_, directory_, "user.a"));
  EXPECT_DAFS(kNoEnt, Close(root_, open));
  EXPECT_DAFS(kNotSupp, Set(root_, "user.c", "x", wire::CreateMode::kExclusive));
}

TEST_F(NamedAttributesTest, EmptyAndLargestValuesAreStored) {
  ASSERT_OK(Set(root_, "user.empty", ""));
  EXPECT_EQ(Behind("user.empty"), "");
  EXPECT_EQ(Get(root_, "user.empty"), "");
  const Opened opened = MustOpen(root_, ToSet("user.large", wire::CreateMode::kUnchecked));
  ASSERT_OK(Write(root_, opened, 0, "a"));
  EXPECT_DAFS(kFbig, Write(root_, opened, 65530, "1234567"));
  EXPECT_OK(Close(root_, opened));  // sets nothing, because one change was refused
  EXPECT_EQ(Behind("user.large"), "none");
  EXPECT_DAFS(kFbig, Set(root_, "user.large", std::string(65537, 'x')));
  const DafsStatus most = Set(root_, "user.large", std::string(65536, 'x'));
  EXPECT_TRUE(most == DafsStatus::kOk || most == DafsStatus::kNoSpc) << wire::Name(most);
  EXPECT_DAFS(kNameTooLong, Set(root_, "user." + std::string(251, 'n'), "x"));
  EXPECT_OK(Set(root_, "user." + std::string(250, 'n'), "x"));
}

TEST_F(NamedAttributesTest, ChangeWithoutStateIdTakesEffectAtOnce) {
  ASSERT_OK(Set(root_, "user.value", "0123456789"));
  wire::FileHandle handle;
  ASSERT_OK(Lookup(root_, directory_, "user.value", &handle));
  ASSERT_OK(Write(root_, {handle, {}}, 8, "abcd"));
  EXPECT_EQ(Behind("user.value"), "01234567abcd");
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  size.object_size = 4;
  uint64_t set = 0;
  ASSERT_OK(store_->attributes().Setattr(root_, handle, {}, size, &set));
  EXPECT_EQ(Behind("user.value"), "0123");
  size.set(wire::kFattrMode);
  EXPECT_DAFS(kInval, store_->attributes().Setattr(root_, handle, {}, size, &set));
}

// Such a change has the requested stability.
TEST_F(NamedAttributesTest, ChangeWithoutStateIdHasRequestedStability) {
  ASSERT_OK(Set(root_, "user.value", "0123"));
  wire::FileHandle handle;
  ASSERT_OK(Lookup(root_, directory_, "user.value", &handle));
  using wire::StableHow;
  for (StableHow how : {StableHow::kUnstable, StableHow::kDataSync, StableHow::kFileSync}) {
    WriteResult res;
    ASSERT_OK(Write(root_, {handle, {}}, 0, "abcd", how, &res));
    EXPECT_EQ(res.committed, how);
    EXPECT_EQ(res.count, 4u);
  }
}

// Shows DAFS-6.5.24-26: share keys are for files.
TEST_F(NamedAttributesTest, ReservationsAreNotSupported) {
  ASSERT_OK(Set(root_, "user.value", "0123"));
  wire::OpenArgs args = OpenArgs(directory_, "user.value", wire::kShareRead);
  wire::OpenRes res;
  args.share_key_type = wire::ShareKeyType::kBoth;
  args.share_key = 7;
  EXPECT_DAFS(kNotSupp, store_->opens().Open(root_, args, &res));
  args.share_key_type = wire::ShareKeyType::kNone;  // the key is then ignored
  EXPECT_OK(Close(root_, MustOpen(root_, args)));
  args.share_deny = wire::kShareRead;
  EXPECT_DAFS(kNotSupp, store_->opens().Open(root_, args, &res));
}

// The kernel decides by the identity of the caller.
TEST_F(NamedAttributesTest, RightsDependOnCaller) {
  Store::RestoreServerIdentity();
  chmod(Path("a/file").c_str(), 0604);
  EXPECT_DAFS(kAcces, Set(user_, "user.mine", "x"));
  ASSERT_OK(Set(root_, "user.mine", "x"));
  EXPECT_EQ(Get(user_, "user.mine"), "x");
  EXPECT_DAFS(kAcces, Remove(user_, directory_, "user.mine"));
  Store::RestoreServerIdentity();
  chmod(Path("a/file").c_str(), 0602);
  EXPECT_EQ(Get(user_, "user.mine"), "DAFSERR_ACCES");
  EXPECT_OK(Set(user_, "user.mine", "y"));  // the user may write but not read
  EXPECT_EQ(Behind("user.mine"), "y");
}

TEST_F(NamedAttributesTest, OnlyRootUsesTrustedAndSecurityAttributes) {
  ASSERT_OK(Set(root_, "trusted.secret", "x"));
  EXPECT_EQ(Get(root_, "trusted.secret"), "x");
  EXPECT_EQ(Get(user_, "trusted.secret"), "DAFSERR_NOENT");
  EXPECT_DAFS(kPerm, Set(user_, "trusted.secret", "y"));
  EXPECT_DAFS(kPerm, Set(user_, "security.capability", kNoCapabilities));
  EXPECT_THAT(Names(root_, directory_), testing::Contains("trusted.secret"));
  EXPECT_THAT(Names(user_, directory_), testing::Not(testing::Contains("trusted.secret")));
  EXPECT_OK(Set(root_, "security.capability", kNoCapabilities));
  EXPECT_EQ(Get(user_, "security.capability"), kNoCapabilities);
  // The server's own attributes are not visible.
  Store::RestoreServerIdentity();
  ASSERT_EQ(setxattr(Path("a/file").c_str(), "trusted.dafs.verifier", "12345678", 8, 0), 0);
  EXPECT_EQ(Get(root_, "trusted.dafs.verifier"), "DAFSERR_NOENT");
  EXPECT_DAFS(kPerm, Set(root_, "trusted.dafs.verifier", "x"));
  EXPECT_THAT(Names(root_, directory_), testing::Not(testing::Contains("trusted.dafs.verifier")));
}

// Shows DAFS-4.1.5-01, DAFS-6.5.25-02 (READDIR)
TEST_F(NamedAttributesTest, ListingResumesAtCookie) {
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back("user.n" + std::to_string(i));
    ASSERT_OK(Set(root_, all.back(), "v"));
  }
  std::vector<std::string> names;
  uint64_t cookie = 0;
  for (bool eof = false; !eof;) {
    std::vector<Entry> entries;
    ReaddirResult res;
    ASSERT_OK(List(root_, directory_, cookie, 3, &entries, &res, wire::kFattrAll));
    for (const Entry& entry : entries) {
      names.push_back(entry.name);
      EXPECT_EQ(entry.attributes.object_size, 1u);
      EXPECT_EQ(entry.attributes.object_type, wire::ObjectType::kNamedAttr);
      cookie = entry.cookie;
    }
    if (names.size() == 6) {
      EXPECT_OK(Remove(root_, directory_, names[2]));  // after the cookie
    }
    eof = res.eof;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(all));
}

TEST_F(NamedAttributesTest, LongListsAreReturnedInFull) {
  std::vector<std::string> all;
  for (int i = 0; i < 30; ++i) {  // some 3 KiB of names
    all.push_back("user." + std::string(100, 'n') + std::to_string(i));
    ASSERT_OK(Set(root_, all.back(), ""));
  }
  EXPECT_THAT(Names(root_, directory_), testing::UnorderedElementsAreArray(all));
}

TEST_F(NamedAttributesTest, OpenWithoutCloseSetsNothing) {
  const Opened opened = MustOpen(other_, ToSet("user.value", wire::CreateMode::kUnchecked));
  ASSERT_OK(Write(other_, opened, 0, "value"));
  store_->releases().ReleaseClient(other_.client_id);
  EXPECT_DAFS(kBadStateId, Close(other_, opened));
  EXPECT_EQ(Behind("user.value"), "none");
}

TEST_F(NamedAttributesTest, OpensAreBounded) {
  std::vector<Opened> opens;
  DafsStatus status = DafsStatus::kOk;
  for (int i = 0; i < 2000 && status == DafsStatus::kOk; ++i) {
    wire::OpenArgs args = ToSet("user.value", wire::CreateMode::kUnchecked);
    args.owner = std::to_string(i);
    wire::OpenRes res;
    status = store_->opens().Open(root_, args, &res);
    if (status == DafsStatus::kOk) opens.push_back({res.filehandle, res.state_id});
  }
  EXPECT_DAFS(kResource, status);
  EXPECT_EQ(opens.size(), 128u);
  // Another client has its own limit. A repeated OPEN does not count as another open.
  EXPECT_OK(Set(other_, "user.value", "x"));
  wire::OpenArgs again = ToSet("user.value", wire::CreateMode::kUnchecked);
  again.owner = "0";
  EXPECT_EQ(MustOpen(root_, again).state_id, opens[0].state_id);
}

// Shows DAFS-6.5.24-30, DAFS-6.5.33-06: an open of an attribute does not prevent its removal, and
// REMOVE does not check for opens.
TEST_F(NamedAttributesTest, RemovalIgnoresOpens) {
  ASSERT_OK(Set(root_, "user.value", "x"));
  wire::OpenArgs args = OpenArgs(directory_, "user.value", wire::kShareRead);
  args.delete_disp = wire::OpenDeleteDisp::kDeny;
  wire::OpenRes res;
  EXPECT_DAFS(kDenyDispNotSupp, store_->opens().Open(root_, args, &res));
  args.delete_disp = wire::OpenDeleteDisp::kDontCare;
  const Opened opened = MustOpen(root_, args);
  wire::RemoveArgs remove;
  remove.filehandle = directory_;
  remove.target = "user.value";
  remove.remove_mode = wire::RemoveMode::kCheckOpen;
  wire::RemoveRes removed;
  EXPECT_DAFS(kDenyDispNotSupp, store_->names().Remove(root_, remove, &removed));
  EXPECT_EQ(Behind("user.value"), "x");
  remove.remove_mode = wire::RemoveMode::kUncheckedRemove;
  EXPECT_OK(store_->names().Remove(root_, remove, &removed));
  EXPECT_EQ(Behind("user.value"), "none");
  EXPECT_OK(Close(root_, opened));
}

TEST_F(NamedAttributesTest, ReadOnlyExportRefusesAttributeChanges) {
  ASSERT_OK(Set(root_, "user.value", "x"));
  exports_[0].read_only = true;
  Start();
  EXPECT_DAFS(kRofs, Set(root_, "user.value", "y"));
  EXPECT_DAFS(kRofs, Remove(root_, directory_, "user.value"));
  EXPECT_EQ(Get(root_, "user.value"), "x");
}

TEST_F(NamedAttributesTest, DirectoriesAndLinksHaveNamedAttributes) {
  ASSERT_OK(Create(root_, A(), "dir", wire::ObjectType::kDir));
  ASSERT_OK(Create(root_, A(), "link", wire::ObjectType::kLnk));
  ASSERT_OK(store_->names().Openattr(root_, Handle({"a", "dir"}), &directory_));
  EXPECT_OK(Set(root_, "user.value", "x"));
  EXPECT_EQ(Get(root_, "user.value"), "x");
  ASSERT_OK(store_->names().Openattr(root_, Handle({"a", "link"}), &directory_));
  EXPECT_DAFS(kPerm, Set(root_, "user.value", "x"));  // as on a local file system
  EXPECT_OK(Set(root_, "trusted.value", "x"));
  EXPECT_EQ(Get(root_, "trusted.value"), "x");
  Store::RestoreServerIdentity();
  char value[8];
  EXPECT_EQ(lgetxattr(Path("a/link").c_str(), "trusted.value", value, sizeof value), 1);
}

}  // namespace
}  // namespace dafs::server
