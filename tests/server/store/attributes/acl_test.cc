// The ACL attribute against the file system's POSIX ACLs. Spec: 4.4.3, 6.1.5, 6.5.35.
#include <sys/xattr.h>

#include "server/store/attributes/acl_mapping.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreAclTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    WriteFile(Path("a/file"), "data", 0640);
    file_ = Handle({"a", "file"});
  }

  DafsStatus SetAcl(const Caller& caller, const wire::FileHandle& handle,
                    std::vector<wire::Ace> aces) {
    wire::FileAttributes attributes;
    attributes.set(wire::kFattrAcl);
    attributes.acl = std::move(aces);
    uint64_t set = 0;
    const DafsStatus status = store_->attributes().Setattr(caller, handle, {}, attributes, &set);
    EXPECT_EQ(set, status == DafsStatus::kOk ? wire::kFattrAcl : 0);
    return status;
  }
  std::vector<wire::Ace> GetAcl(const wire::FileHandle& handle) {
    const wire::FileAttributes attributes = Attributes(handle, wire::kFattrAcl);
    EXPECT_TRUE(attributes.has(wire::kFattrAcl));
    return attributes.acl;
  }
  // POSIX: the rights of the mode, and read and write for user 1000.
  static PosixAcl WithUser(uint8_t perm) {
    PosixAcl acl = AclFromMode(0640);
    acl.entries.insert(acl.entries.begin() + 1, {AclTag::kUser, perm, 1000});
    acl.entries.insert(acl.entries.begin() + 3,
                       {AclTag::kMask, static_cast<uint8_t>(perm | kAclRead), 0});
    return acl;
  }
  std::optional<PosixAcl> Behind(const std::string& path, const char* name = kAccessAclXattr) {
    Store::RestoreServerIdentity();
    char value[1024];
    const ssize_t n = getxattr(Path(path).c_str(), name, value, sizeof value);
    if (n < 0) return std::nullopt;
    return DecodeAcl({value, static_cast<size_t>(n)});
  }

  wire::FileHandle file_;
};

// Shows DAFS-6.1.5-20, DAFS-4.4.3-02
TEST_F(StoreAclTest, AclIsSetAndEnforced) {
  EXPECT_EQ(GetAcl(file_), AcesFromPosix({AclFromMode(0640), {}}, false));
  EXPECT_EQ(Read(user_, {file_, {}}), "DAFSERR_ACCES");
  ASSERT_OK(SetAcl(root_, file_, AcesFromPosix({WithUser(kAclRead | kAclWrite), {}}, false)));
  EXPECT_EQ(Behind("a/file"), WithUser(kAclRead | kAclWrite));
  EXPECT_EQ(GetAcl(file_), AcesFromPosix({WithUser(kAclRead | kAclWrite), {}}, false));
  EXPECT_EQ(Read(user_, {file_, {}}), "data");
  EXPECT_OK(Write(user_, {file_, {}}, 0, "DATA"));
  EXPECT_EQ(Read(other_, {file_, {}}), "DAFSERR_ACCES");
  // The mode shows the mask; chmod sets it.
  EXPECT_EQ(Attributes(file_).mode, 0660u);
  wire::FsAttributes fs;
  ASSERT_OK(store_->attributes().GetFsattr(root_, file_, wire::kFsattrAll, &fs));
  EXPECT_EQ(fs.acl_support, wire::kAclSupportAllow | wire::kAclSupportDeny);
}

// Shows DAFS-4.4.3-03, DAFS-4.4.3-04: the first entry for the caller that names a right decides it.
TEST_F(StoreAclTest, EntriesAreProcessedInOrder) {
  constexpr uint32_t kWrite = wire::kAceWriteData | wire::kAceAppendData;
  const auto ace = [](uint32_t type, const std::string& who, uint32_t mask) {
    wire::Ace entry;
    entry.type = type;
    entry.who = who;
    entry.access_mask = mask;
    return entry;
  };
  const wire::Ace owner = ace(wire::kAceAllowed, "OWNER@", wire::kAceReadData | kWrite);
  const wire::Ace allow = ace(wire::kAceAllowed, "1000", wire::kAceReadData | kWrite);
  const wire::Ace deny = ace(wire::kAceDenied, "1000", kWrite);
  const wire::Ace deny_other = ace(wire::kAceDenied, "1001", wire::kAceReadData | kWrite);
  const wire::Ace everyone = ace(wire::kAceAllowed, "EVERYONE@", wire::kAceReadData);
  const Opened file{file_, {}};

  ASSERT_OK(SetAcl(root_, file_, {deny_other, allow, deny, owner, everyone}));
  EXPECT_EQ(Read(user_, file), "data");
  EXPECT_OK(Write(user_, file, 0, "d"));
  EXPECT_EQ(Read(other_, file), "DAFSERR_ACCES");
  EXPECT_DAFS(kAcces, Write(other_, file, 0, "d"));

  ASSERT_OK(SetAcl(root_, file_, {deny, allow, everyone, deny_other, owner}));
  EXPECT_EQ(Read(user_, file), "data");
  EXPECT_DAFS(kAcces, Write(user_, file, 0, "d"));
  EXPECT_EQ(Read(other_, file), "data");  // all that it requests is allowed before the denial
  EXPECT_DAFS(kAcces, Write(other_, file, 0, "d"));
}

TEST_F(StoreAclTest, OnlyOwnerMaySetAcl) {
  const std::vector<wire::Ace> aces = AcesFromPosix({WithUser(kAclRead), {}}, false);
  EXPECT_DAFS(kPerm, SetAcl(user_, file_, aces));
  EXPECT_FALSE(Behind("a/file").has_value());
  Store::RestoreServerIdentity();
  ASSERT_EQ(chown(Path("a/file").c_str(), 1001, 1001), 0);
  EXPECT_OK(SetAcl(other_, file_, aces));
}

// Shows DAFS-6.5.35-07
TEST_F(StoreAclTest, RefusedAclChangesNothing) {
  std::vector<wire::Ace> aces = AcesFromPosix({WithUser(kAclRead), {}}, false);
  aces[1].access_mask |= wire::kAceWriteOwner;
  EXPECT_DAFS(kInval, SetAcl(root_, file_, aces));
  aces[1].access_mask &= ~wire::kAceWriteOwner;
  aces[1].who = "somebody";
  EXPECT_DAFS(kInval, SetAcl(root_, file_, aces));
  EXPECT_FALSE(Behind("a/file").has_value());
  ASSERT_OK(Create(root_, A(), "link", wire::ObjectType::kLnk));
  EXPECT_FALSE(Attributes(Handle({"a", "link"})).has(wire::kFattrAcl));
}

// Shows DAFS-4.4.3-05, DAFS-4.4.3-06, DAFS-4.4.3-07
TEST_F(StoreAclTest, NewObjectsInheritDefaultAcl) {
  wire::FileHandle dir;
  ASSERT_OK(Create(root_, A(), "dir", wire::ObjectType::kDir, &dir));
  PosixAcl inherited = AclFromMode(0750);
  inherited.entries.insert(inherited.entries.begin() + 1, {AclTag::kUser, 7, 1000});
  inherited.entries.insert(inherited.entries.begin() + 3, {AclTag::kMask, 7, 0});
  const PosixAcls acls{AclFromMode(0755), inherited};
  ASSERT_OK(SetAcl(root_, dir, AcesFromPosix(acls, true)));
  EXPECT_EQ(Behind("a/dir", kDefaultAclXattr), inherited);
  EXPECT_FALSE(Behind("a/dir").has_value());  // the mode is sufficient
  EXPECT_EQ(GetAcl(dir), AcesFromPosix(acls, true));

  MustOpen(root_, CreateArgs(dir, "file", 0666));
  std::optional<PosixAcl> file = Behind("a/dir/file");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(Stat(Path("a/dir/file")).st_mode & 07777, 0660u);  // mask rw-, others have none
  ASSERT_OK(Create(root_, dir, "sub", wire::ObjectType::kDir));
  EXPECT_EQ(Behind("a/dir/sub", kDefaultAclXattr), inherited);
  // An ACL without inherited entries has no default ACL.
  ASSERT_OK(SetAcl(root_, dir, AcesFromPosix({AclFromMode(0700), {}}, true)));
  EXPECT_FALSE(Behind("a/dir", kDefaultAclXattr).has_value());
  EXPECT_EQ(Stat(Path("a/dir")).st_mode & 07777, 0700u);
}

// Set-id bits do not undo the inherited ACL.
TEST_F(StoreAclTest, SetuidFileInheritsDefaultAcl) {
  wire::FileHandle dir;
  ASSERT_OK(Create(root_, A(), "dir", wire::ObjectType::kDir, &dir));
  const PosixAcls acls{AclFromMode(0755), AclFromMode(0750)};
  ASSERT_OK(SetAcl(root_, dir, AcesFromPosix(acls, true)));
  MustOpen(root_, CreateArgs(dir, "tool", 04777));
  EXPECT_EQ(Stat(Path("a/dir/tool")).st_mode & 07777, 04750u);
}

TEST_F(StoreAclTest, VerifyComparesAcls) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrAcl);
  attributes.acl = GetAcl(file_);
  EXPECT_OK(store_->attributes().Verify(root_, file_, attributes));
  attributes.acl[0].access_mask = 0;
  EXPECT_DAFS(kNotSame, store_->attributes().Verify(root_, file_, attributes));
}

}  // namespace
}  // namespace dafs::server
