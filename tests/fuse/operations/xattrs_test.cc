// The kernel's requests for extended attributes and ACLs, with a real server in this process.
#include <sys/xattr.h>

#include <cerrno>
#include <vector>

#include "tests/fuse/worker_fixture.h"

namespace dafs::fuse {
namespace {

class WorkerXattrsTest : public WorkerTest {
 protected:
  int SetXattr(uint64_t node, const std::string& name, const std::string& value, int flags = 0) {
    fuse_setxattr_in in = {};
    in.size = static_cast<uint32_t>(value.size());
    in.flags = static_cast<uint32_t>(flags);
    // The short form: the mount has not requested FUSE_SETXATTR_EXT.
    const std::string head = Raw(in).substr(0, FUSE_COMPAT_SETXATTR_IN_SIZE);
    return kernel_.Call(FUSE_SETXATTR, node, head + Name(name) + value).error;
  }
  FakeKernel::Answer GetXattr(uint64_t node, const std::string& name, uint32_t room) {
    fuse_getxattr_in in = {.size = room, .padding = 0};
    return kernel_.Call(FUSE_GETXATTR, node, Raw(in) + Name(name));
  }
  void MakeLocal(const std::string& name, const std::string& content) {
    std::ofstream(Local(name), std::ios::binary) << content;
  }
};

TEST_F(WorkerXattrsTest, ExtendedAttributesAreSetReadListedAndRemoved) {
  const uint64_t node = Create("file").entry.nodeid;
  EXPECT_EQ(SetXattr(node, "user.color", "red"), 0);
  EXPECT_EQ(GetXattr(node, "user.color", 100).body, "red");
  EXPECT_EQ(GetXattr(node, "user.color", 0).As<fuse_getxattr_out>().size, 3u);
  EXPECT_EQ(GetXattr(node, "user.color", 2).error, ERANGE);
  EXPECT_EQ(GetXattr(node, "user.none", 100).error, ENODATA);
  EXPECT_EQ(SetXattr(node, "user.color", "blue", XATTR_CREATE), EEXIST);
  EXPECT_EQ(SetXattr(node, "user.none", "blue", XATTR_REPLACE), ENODATA);
  EXPECT_EQ(SetXattr(node, "no.space", "x"), EOPNOTSUPP);
  EXPECT_EQ(SetXattr(node, "user.\xff", "x"), 0);  // a name may be any bytes
  EXPECT_EQ(GetXattr(node, "user.\xff", 100).body, "x");
  EXPECT_EQ(kernel_.Call(FUSE_REMOVEXATTR, node, Name("user.\xff")).error, 0);
  EXPECT_EQ(GetXattr(node, "user.\xff", 100).error, ENODATA);
  fuse_getxattr_in list = {.size = 100, .padding = 0};
  EXPECT_EQ(kernel_.Call(FUSE_LISTXATTR, node, Raw(list)).body, Name("user.color"));
  EXPECT_EQ(kernel_.Call(FUSE_REMOVEXATTR, node, Name("user.color")).error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_REMOVEXATTR, node, Name("user.color")).error, ENODATA);
  // A value that is shorter than the header says, and a malformed request.
  fuse_setxattr_in set = {};
  set.size = 5;
  const std::string head = Raw(set).substr(0, FUSE_COMPAT_SETXATTR_IN_SIZE) + Name("user.x");
  EXPECT_EQ(kernel_.Call(FUSE_SETXATTR, node, head + "1234").error, EINVAL);
  EXPECT_EQ(kernel_.Call(FUSE_SETXATTR, node, std::string(80000, 'x')).error, EINVAL);
}

// The kernel requests this attribute before each first write. Most of these need no round trip.
TEST_F(WorkerXattrsTest, AbsentCapabilitiesAreCached) {
  MakeLocal("old", "data");
  const std::string name = "security.capability";
  const std::string none("\1\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  const uint64_t fresh = Create("new").entry.nodeid, old = Lookup(kRootNode, "old").nodeid;
  EXPECT_EQ(GetXattr(old, name, 0).error, ENODATA);
  // As another client would. This mount sees it after the cache time.
  for (const char* file : {"old", "new"}) {
    ASSERT_EQ(setxattr(Local(file).c_str(), name.c_str(), none.data(), none.size(), 0), 0);
  }
  EXPECT_EQ(GetXattr(old, name, 0).error, ENODATA);
  EXPECT_EQ(GetXattr(fresh, name, 0).error, ENODATA);
  EXPECT_EQ(SetXattr(old, name, none), 0);  // a change by this mount is visible at once
  EXPECT_EQ(GetXattr(old, name, 100).body, none);
}

// ls(1) requests the label of each file until one request fails with EOPNOTSUPP. For the kernel's
// SELinux, EOPNOTSUPP would be a defect of the file system.
TEST_F(WorkerXattrsTest, LabelsAreUnsupportedIfNeitherFileNorKernelHasThem) {
  const std::string name = "security.selinux";
  for (const bool selinux : {false, true}) {
    state_->kernel.selinux = selinux;
    const int absent = selinux ? ENODATA : EOPNOTSUPP;
    const std::string label = selinux ? "with" : "without";
    MakeLocal(label, "data");
    const uint64_t node = Lookup(kRootNode, label).nodeid;
    EXPECT_EQ(GetXattr(node, name, 100).error, absent) << "from the server";
    EXPECT_EQ(GetXattr(node, name, 100).error, absent) << "cached";
    EXPECT_EQ(GetXattr(node, "system.posix_acl_access", 100).error, ENODATA)
        << "other attributes are supported";
    EXPECT_EQ(SetXattr(node, name, "a:b:c"), 0);
    EXPECT_EQ(GetXattr(node, name, 100).body, "a:b:c");
    ASSERT_EQ(kernel_.Call(FUSE_REMOVEXATTR, node, Name(name)).error, 0);
    EXPECT_EQ(GetXattr(node, name, 100).error, absent) << "removed";
  }
}

TEST_F(WorkerXattrsTest, ADefaultAclReplacesTheUmask) {
  const auto mode_of = [&](const std::string& name) {
    fuse_create_in in = {};
    in.flags = O_RDWR | O_CREAT;
    in.mode = S_IFREG | 0666;
    in.umask = 027;
    EXPECT_EQ(kernel_.Call(FUSE_CREATE, kRootNode, Raw(in) + Name(name)).error, 0);
    fuse_mkdir_in dir = {.mode = 0777, .umask = 027};
    EXPECT_EQ(kernel_.Call(FUSE_MKDIR, kRootNode, Raw(dir) + Name(name + "-dir")).error, 0);
    fuse_mknod_in fifo = {.mode = S_IFIFO | 0666, .rdev = 0, .umask = 027, .padding = 0};
    EXPECT_EQ(kernel_.Call(FUSE_MKNOD, kRootNode, Raw(fifo) + Name(name + "-fifo")).error, 0);
    std::vector<uint32_t> modes;
    for (const std::string& made : {name, name + "-dir", name + "-fifo"}) {
      struct stat st = {};
      EXPECT_EQ(lstat(Local(made).c_str(), &st), 0);
      modes.push_back(st.st_mode & 07777);
    }
    return modes;
  };
  EXPECT_EQ(mode_of("masked"), (std::vector<uint32_t>{0640, 0750, 0640}));
  // u::rwx g::rwx o::--x, set through the mount.
  const std::string acl(
      "\2\0\0\0\1\0\7\0\xff\xff\xff\xff\4\0\7\0\xff\xff\xff\xff"
      "\x20\0\1\0\xff\xff\xff\xff",
      28);
  ASSERT_EQ(SetXattr(kRootNode, "system.posix_acl_default", acl), 0);
  EXPECT_EQ(mode_of("inherited"), (std::vector<uint32_t>{0660, 0771, 0660}));
  ASSERT_EQ(kernel_.Call(FUSE_REMOVEXATTR, kRootNode, Name("system.posix_acl_default")).error, 0);
  EXPECT_EQ(mode_of("again"), (std::vector<uint32_t>{0640, 0750, 0640}));
}

TEST_F(WorkerXattrsTest, AnNfs4AclIsSetAndMappedToTheMode) {
  const uint64_t node = Create("file").entry.nodeid;
  std::string acl = GetXattr(node, "system.nfs4_acl", 1000).body;
  ASSERT_EQ(acl.size(), 4 + 3 * 16 + 8 + 8 + 12u);
  acl[4 + 11] |= 0x20;  // EXECUTE for the owner
  EXPECT_EQ(SetXattr(node, "system.nfs4_acl", acl), 0);
  struct stat st = {};
  ASSERT_EQ(stat(Local("file").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0744u);
  EXPECT_FALSE(kernel_.notifications.empty());  // the kernel's cached mode and ACL are stale

  acl[4 + 9] |= 0x01;  // DELETE
  EXPECT_EQ(SetXattr(node, "system.nfs4_acl", acl), EINVAL);
  EXPECT_EQ(SetXattr(node, "system.nfs4_acl", acl.substr(1)), EINVAL);
  EXPECT_EQ(kernel_.Call(FUSE_REMOVEXATTR, node, Name("system.nfs4_acl")).error, EOPNOTSUPP);
}

}  // namespace
}  // namespace dafs::fuse
