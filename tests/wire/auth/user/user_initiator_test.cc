// The helper of a user's tickets, with a realm on loopback, and hostile programs in its place.
#include "wire/auth/user/user_initiator.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/wire/auth/realm.h"
#include "wire/auth/credentials.h"
#include "wire/auth/gss/kerberos.h"
#include "wire/auth/user/helper_message.h"

namespace dafs::auth {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kUser = 61234, kOther = 61235;  // no accounts are needed

absl::Status FirstStep(Initiator& initiator, std::string* token) {
  return initiator.Begin("")->Step("", token).status();
}

class UserInitiatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (geteuid() == 0 && access("/usr/sbin/krb5kdc", X_OK) == 0) realm_ = new Realm();
  }
  static void TearDownTestSuite() { delete std::exchange(realm_, nullptr); }
  void SetUp() override {
    if (realm_ == nullptr) GTEST_SKIP() << "needs root and a Kerberos realm";
    ASSERT_TRUE(realm_->serves());
  }

  // A cache of alice's tickets that belongs to `owner`.
  static std::string CacheOf(uint32_t owner, const std::string& name,
                             const std::string& options = "") {
    std::string path = realm_->Path(name);
    EXPECT_EQ(system(absl::StrCat("KRB5CCNAME=", path, " kinit ", options, " -k -t ",
                                  realm_->Path("alice.keytab"), " alice")
                         .c_str()),
              0);
    EXPECT_EQ(chown(path.c_str(), owner, 0), 0);
    return path;
  }
  static std::unique_ptr<Initiator> OfUser(const std::string& cache) {
    return NewUserInitiator(
        {.helper = DAFS_GSS_USER, .uid = kUser, .server_host = "127.0.0.1", .ccache = cache});
  }

  static Realm* realm_;
};
Realm* UserInitiatorTest::realm_ = nullptr;

TEST_F(UserInitiatorTest, TicketsOfTheUserProveTheUser) {
  auto client = OfUser(CacheOf(kUser, "cc-user"))->Begin("12345678901234567890123456789012");
  auto acceptor =
      NewKerberosAcceptor({.keytab = realm_->Path("server.keytab"), .replay_cache = ""});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  auto server = (*acceptor)->Begin("12345678901234567890123456789012");
  std::string token, answer, rest;
  auto progress = client->Step("", &token);
  ASSERT_TRUE(progress.ok()) << progress.status();
  ASSERT_TRUE(server->Step(token, &answer).ok());
  EXPECT_EQ(server->peer_name(), "alice@DAFS.TEST");
  progress = client->Step(answer, &rest);
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(*progress, Exchange::Progress::kDone);
  EXPECT_GT(client->lifetime(), absl::Hours(9));
}

// root may read all caches; the helper is not root any more when it opens one.
TEST_F(UserInitiatorTest, CacheOfAnotherUserIsNotRead) {
  std::string token;
  const absl::Status status = FirstStep(*OfUser(CacheOf(kOther, "cc-other")), &token);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(token, "");
}

TEST_F(UserInitiatorTest, MissingAndExpiredTicketsDiffer) {
  std::string token;
  const absl::Status missing = FirstStep(*OfUser(realm_->Path("cc-none")), &token);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition) << missing;
  EXPECT_FALSE(HaveExpired(missing));
  const std::string cache = CacheOf(kUser, "cc-brief", "-l 1s");
  absl::SleepFor(absl::Milliseconds(3100));  // and the clock skew
  const absl::Status expired = FirstStep(*OfUser(cache), &token);
  EXPECT_TRUE(HaveExpired(expired)) << expired;
}

TEST_F(UserInitiatorTest, ServersTokenThatIsWrongIsRefused) {
  auto client = OfUser(CacheOf(kUser, "cc-again"))->Begin("");
  std::string token, rest;
  ASSERT_TRUE(client->Step("", &token).ok());
  EXPECT_EQ(client->Step(std::string(1000, 'x'), &rest).status().code(),
            absl::StatusCode::kUnauthenticated);
}

// A program in place of the helper. It gets the rights of this process: only dafs-gss-user drops
// them.
class HostileHelperTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dafs-helper-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::Status StepWith(const std::string& script, std::string* token) {
    const std::string path = folder_ + "/helper";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return FirstStep(*NewUserInitiator({.helper = path, .uid = kUser, .server_host = "h"}), token);
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(HostileHelperTest, ProgramThatEndsOrSendsGarbageIsRefused) {
  std::string token;
  EXPECT_EQ(StepWith("exit 1", &token).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(StepWith("printf garbage >&0; sleep 60", &token).message()),
              HasSubstr("no valid reply"));
  const std::string large =
      "exec 3>&0; head -c 100000 /dev/zero | dd bs=100000 iflag=fullblock >&3; sleep 60";
  EXPECT_THAT(std::string(StepWith(large, &token).message()), HasSubstr("no valid reply"));
  EXPECT_EQ(token, "");
}

TEST_F(HostileHelperTest, ProgramThatDoesNotExistIsNamed) {
  std::string token;
  const absl::Status status =
      FirstStep(*NewUserInitiator({.helper = "/nowhere/dafs-gss-user", .uid = kUser}), &token);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/dafs-gss-user"));
}

TEST_F(HostileHelperTest, ProgramInheritsOnlyItsSocketAndAFewVariables) {
  const int inherited = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(fcntl(inherited, F_DUPFD, 77), 77);
  setenv("DAFS_SECRET", "1", 1);
  std::string token;
  EXPECT_FALSE(
      StepWith("ls /proc/self/fd >" + folder_ + "/fds; env >" + folder_ + "/env", &token).ok());
  unsetenv("DAFS_SECRET");
  close(inherited);
  close(77);
  EXPECT_EQ(Content("fds"), "0\n1\n2\n3\n");  // 3: of ls(1)
  EXPECT_THAT(Content("env"), Not(HasSubstr("DAFS_SECRET")));
}

TEST(GssUserTest, UserThatIsNoNumberIsRefused) {
  for (const char* words : {"", "x", "-1", "4294967295", "1 2", "1x"}) {
    const int status = system(absl::StrCat(DAFS_GSS_USER, " ", words, " </dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << words;
  }
}

}  // namespace
}  // namespace dafs::auth
