#include "server/store/system/identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

namespace dafs::server {
namespace {

bool HasEffective(int capability) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  syscall(SYS_capget, &header, data);
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

Identity User(uint32_t uid, std::initializer_list<uint32_t> groups = {}) {
  Identity identity;
  identity.uid = identity.gid = uid;
  identity.groups.assign(groups.begin(), groups.end());
  return identity;
}

class StoreIdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: it becomes other users";
    char name[] = "/tmp/dafs-identity-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
    chmod(name, 0777);
  }
  void TearDown() override {
    RestoreOwnIdentity();
    unlink((dir_ + "/f").c_str());
    rmdir(dir_.c_str());
  }
  std::string dir_;
};

TEST_F(StoreIdentityTest, UserIdentityDropsFileAndAdminCapabilities) {
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  EXPECT_EQ(setfsuid(~0u), 1000);
  EXPECT_EQ(setfsgid(~0u), 1000);
  for (int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_CHOWN, CAP_FOWNER, CAP_FSETID,
                         CAP_MKNOD, CAP_SYS_ADMIN, CAP_SETFCAP, CAP_SYS_RESOURCE}) {
    EXPECT_FALSE(HasEffective(capability)) << capability;
  }
  EXPECT_EQ(geteuid(), 0u);  // the process keeps its identity
}

TEST_F(StoreIdentityTest, RootIdentityKeepsFileCapabilitiesButDropsAdminCapabilities) {
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  ASSERT_TRUE(AssumeIdentity(User(0)));
  EXPECT_TRUE(HasEffective(CAP_DAC_OVERRIDE));
  EXPECT_TRUE(HasEffective(CAP_CHOWN));
  EXPECT_FALSE(HasEffective(CAP_SYS_ADMIN));
  EXPECT_FALSE(HasEffective(CAP_SETFCAP));
  EXPECT_FALSE(HasEffective(CAP_SYS_RESOURCE));
  RestoreOwnIdentity();
  EXPECT_TRUE(HasEffective(CAP_SYS_ADMIN));
}

TEST_F(StoreIdentityTest, RootIdentityNeedsNoExtraPrivilegeToOpenFiles) {
  ASSERT_TRUE(AssumeIdentity(User(0)));
  {
    const ScopedPrivilege privilege(Privilege::kOverFiles);
    EXPECT_TRUE(HasEffective(CAP_DAC_READ_SEARCH));
    EXPECT_FALSE(HasEffective(CAP_SYS_ADMIN));
  }
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  {
    const ScopedPrivilege privilege(Privilege::kOverFiles);
    EXPECT_TRUE(HasEffective(CAP_DAC_READ_SEARCH));
    EXPECT_TRUE(HasEffective(CAP_DAC_OVERRIDE));
  }
  EXPECT_FALSE(HasEffective(CAP_DAC_READ_SEARCH));
  EXPECT_FALSE(HasEffective(CAP_DAC_OVERRIDE));
}

TEST_F(StoreIdentityTest, UserCannotSetTrustedAttributesOrFileCapabilities) {
  const std::string path = dir_ + "/f";
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  const int fd = open(path.c_str(), O_CREAT | O_RDWR, 0644);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fsetxattr(fd, "trusted.x", "1", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  {
    ScopedPrivilege privilege;
    EXPECT_EQ(fsetxattr(fd, "trusted.x", "1", 1, 0), 0);
    EXPECT_EQ(setfsuid(~0u), 1000);  // privileged, but with the same identity
  }
  EXPECT_EQ(fsetxattr(fd, "trusted.x", "2", 1, 0), -1);
  struct stat st;
  fstat(fd, &st);
  EXPECT_EQ(st.st_uid, 1000u);
  close(fd);
}

TEST_F(StoreIdentityTest, GroupsApplyUntilIdentityChanges) {
  const std::string path = dir_ + "/f";
  close(open(path.c_str(), O_CREAT | O_RDWR, 0));
  ASSERT_EQ(chown(path.c_str(), 5, 4242), 0);
  chmod(path.c_str(), 0060);
  const auto may_open = [&] {
    const int fd = open(path.c_str(), O_RDWR);
    if (fd >= 0) close(fd);
    return fd >= 0;
  };
  ASSERT_TRUE(AssumeIdentity(User(1000, {7, 4242})));
  EXPECT_TRUE(may_open());
  ASSERT_TRUE(AssumeIdentity(User(1000, {7})));
  EXPECT_FALSE(may_open());
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  EXPECT_FALSE(may_open());
  RestoreOwnIdentity();
  EXPECT_TRUE(may_open());
}

TEST_F(StoreIdentityTest, IdentityAppliesToOneThread) {
  ASSERT_TRUE(AssumeIdentity(User(1000)));
  std::thread([] {
    // A new thread has its parent's identity and can still assume another.
    EXPECT_EQ(setfsuid(~0u), 1000);
    EXPECT_TRUE(AssumeIdentity(User(1001)));
    EXPECT_EQ(setfsuid(~0u), 1001);
    {
      ScopedPrivilege privilege;
      EXPECT_TRUE(HasEffective(CAP_DAC_READ_SEARCH));
    }
    EXPECT_FALSE(HasEffective(CAP_DAC_READ_SEARCH));
  }).join();
  EXPECT_EQ(setfsuid(~0u), 1000);
}

TEST_F(StoreIdentityTest, InvalidIdIsRefused) {
  EXPECT_FALSE(AssumeIdentity(User(~0u)));
  EXPECT_TRUE(AssumeIdentity(User(1000)));
}

}  // namespace
}  // namespace dafs::server
