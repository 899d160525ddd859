// State directories that a server must not use. Tests with mounts create their own mount namespace;
// they skip if they may not create one.
#include "server/store/durable/state_dir_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dafs::server {
namespace {

using testing::HasSubstr;

class StateDirCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dafs-state-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = name;
    for (const char* dir : {"state", "a", "a/in", "a/out"}) mkdir(Path(dir).c_str(), 0700);
    exports_.resize(1);
    exports_[0].name = "/a";
    exports_[0].directory = Path("a");
  }
  void TearDown() override {
    for (const char* dir : {"state", "a/in", "a/out", "alias"}) {
      umount2(Path(dir).c_str(), MNT_DETACH);
    }
    std::filesystem::remove_all(base_);
  }
  std::string Path(const std::string& name) const { return base_ + "/" + name; }
  // Returns the error for `dir`; empty if there is none.
  std::string Complaint(const std::string& dir) const {
    absl::Status status = CheckStateDir(Path(dir));
    if (status.ok()) status = CheckOutOfReach(Path(dir), exports_[0]);
    return std::string(status.message());
  }
  bool HasOwnMounts() {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }
  void Bind(const std::string& from, const std::string& to) {
    ASSERT_EQ(mount(Path(from).c_str(), Path(to).c_str(), nullptr, MS_BIND, nullptr), 0);
  }

  std::string base_;
  std::vector<Export> exports_;
};

TEST_F(StateDirCheckTest, PrivateDirectoryOutsideExportsIsAccepted) {
  std::ofstream(Path("state/handle-key")) << "key";
  chmod(Path("state/handle-key").c_str(), 0600);
  EXPECT_EQ(Complaint("state"), "");
  exports_[0].directory = Path("state/export");  // clients cannot leave the export
  mkdir(Path("state/export").c_str(), 0755);
  EXPECT_EQ(Complaint("state"), "");
  exports_[0].directory = Path("sta");  // a prefix of the name, but not a parent directory
  mkdir(Path("sta").c_str(), 0755);
  EXPECT_EQ(Complaint("state"), "");
}

// By the place in the file system, not by the text of the path.
TEST_F(StateDirCheckTest, AuditLogThatClientsCanReachIsRefused) {
  const auto complaint = [this](const std::string& file) {
    return std::string(CheckAuditOutOfReach(Path(file), exports_[0]).message());
  };
  EXPECT_EQ(complaint("state/audit.json"), "");  // which need not exist: it may be rotated now
  EXPECT_THAT(complaint("a/audit.json"), HasSubstr("--audit " + Path("a/audit.json")));
  EXPECT_THAT(complaint("a/in/audit.json"), HasSubstr("clients of export /a can reach it"));
  EXPECT_THAT(complaint("missing/audit.json"), HasSubstr("No such file"));
  std::filesystem::create_directory_symlink(Path("a/in"), Path("link"));
  EXPECT_THAT(complaint("link/audit.json"), HasSubstr("clients of export /a can reach it"));
  exports_[0].directory = Path("alias");
  std::filesystem::create_directory_symlink(Path("state"), Path("alias"));
  EXPECT_THAT(complaint("state/audit.json"), HasSubstr("clients of export /a can reach it"));
  exports_[0].directory = Path("a");
  if (!HasOwnMounts()) GTEST_SKIP() << "needs root: mounts in a namespace of its own";
  Bind("a/in", "state");
  EXPECT_THAT(complaint("state/audit.json"), HasSubstr("clients of export /a can reach it"));
}

TEST_F(StateDirCheckTest, MissingDirectoryIsErrorWithRemedy) {
  EXPECT_THAT(Complaint("missing"), HasSubstr("mkdir -m 700 " + Path("missing")));
  std::ofstream(Path("file")) << "";
  EXPECT_THAT(Complaint("file"), HasSubstr("Not a directory"));
}

TEST_F(StateDirCheckTest, StateWritableByOtherUsersIsRefused) {
  chmod(Path("state").c_str(), 0770);
  EXPECT_THAT(Complaint("state"), HasSubstr("chmod go-rwx " + Path("state")));
  chmod(Path("state").c_str(), 0700);
  std::ofstream(Path("state/clients")) << "";
  chmod(Path("state/clients").c_str(), 0602);
  EXPECT_THAT(Complaint("state"), HasSubstr("chmod go-rwx " + Path("state/clients")));
}

TEST_F(StateDirCheckTest, HandleKeyReadableByOtherUsersIsRefused) {
  std::ofstream(Path("state/handle-key")) << "key";
  chmod(Path("state/handle-key").c_str(), 0644);
  EXPECT_THAT(Complaint("state"), HasSubstr("other users can read it (mode 0644)"));
}

TEST_F(StateDirCheckTest, StateOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: it gives files away";
  std::ofstream(Path("state/handle-key")) << "key";
  chmod(Path("state/handle-key").c_str(), 0600);
  ASSERT_EQ(chown(Path("state/handle-key").c_str(), 1234, 0), 0);
  EXPECT_THAT(Complaint("state"), HasSubstr("belongs to user 1234"));
  ASSERT_EQ(chown(Path("state/handle-key").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(Path("state").c_str(), 1234, 0), 0);
  EXPECT_THAT(Complaint("state"), HasSubstr("chown 0 " + Path("state")));
}

TEST_F(StateDirCheckTest, DirectoryInsideExportIsRefused) {
  EXPECT_THAT(Complaint("a"), HasSubstr("clients of export /a can reach it"));
  EXPECT_THAT(Complaint("a/in"), HasSubstr("clients of export /a can reach it"));
  std::filesystem::create_directory_symlink(Path("a/in"), Path("link"));
  EXPECT_THAT(Complaint("link"), HasSubstr("clients of export /a can reach it"));
  exports_[0].directory = "/";
  EXPECT_THAT(Complaint("state"), HasSubstr("clients of export /a can reach it"));
}

TEST_F(StateDirCheckTest, AliasOfDirectoryInsideExportIsRefused) {
  if (!HasOwnMounts()) GTEST_SKIP() << "needs a mount namespace of its own";
  Bind("a/in", "state");
  EXPECT_THAT(Complaint("state"), HasSubstr("clients of export /a can reach it"));
}

TEST_F(StateDirCheckTest, DirectoryReachableByAliasOfExportIsRefused) {
  if (!HasOwnMounts()) GTEST_SKIP() << "needs a mount namespace of its own";
  mkdir(Path("alias").c_str(), 0700);
  Bind("", "alias");
  exports_[0].directory = Path("alias");  // contains `state` too
  EXPECT_THAT(Complaint("state"), HasSubstr("clients of export /a can reach it"));
}

// The longest matching mount point belongs to a mount that another mount covers.
TEST_F(StateDirCheckTest, DirectoryBelowCoveredMountIsLocatedCorrectly) {
  if (!HasOwnMounts()) GTEST_SKIP() << "needs a mount namespace of its own";
  mkdir(Path("alias").c_str(), 0700);
  ASSERT_EQ(mount("covered", Path("a/in").c_str(), "tmpfs", 0, "mode=0700"), 0);
  ASSERT_EQ(mount("covering", Path("a").c_str(), "tmpfs", 0, "mode=0700"), 0);
  mkdir(Path("a/in").c_str(), 0700);
  mkdir(Path("a/in/state").c_str(), 0700);
  Bind("a", "alias");
  exports_[0].directory = Path("alias");
  EXPECT_THAT(Complaint("a/in/state"), HasSubstr("clients of export /a can reach it"));
  umount2(Path("a").c_str(), MNT_DETACH);
}

TEST_F(StateDirCheckTest, DirectoryOfMountInsideExportIsRefused) {
  if (!HasOwnMounts()) GTEST_SKIP() << "needs a mount namespace of its own";
  mkdir(Path("state/deep").c_str(), 0700);
  Bind("state", "a/out");
  EXPECT_THAT(Complaint("state/deep"), HasSubstr("can reach it by " + Path("a/out")));
  umount(Path("a/out").c_str());
  ASSERT_EQ(mount("tmpfs", Path("a/out").c_str(), "tmpfs", 0, "mode=0700"), 0);
  EXPECT_EQ(Complaint("state"), "");  // another file system
  EXPECT_THAT(Complaint("a/out"), HasSubstr("clients of export /a can reach it"));
}

}  // namespace
}  // namespace dafs::server
