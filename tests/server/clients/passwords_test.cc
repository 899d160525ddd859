#include "server/clients/passwords.h"

#include <crypt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dafs::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PasswordsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string base = "/tmp/dafs-passwords-XXXXXX";
    base_ = mkdtemp(base.data());
    file_ = base_ + "/passwords";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  void Write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
  }
  static std::string Hash(const char* password, const char* setting = "$6$rounds=1000$dafs") {
    crypt_data data = {};
    return crypt_r(password, setting, &data);
  }
  std::string Complaint(const std::string& text, mode_t mode = 0600) const {
    Write(text, mode);
    return std::string(CheckPasswordFile(file_).message());
  }
  // "" or the error.
  std::string Check(std::string_view name, std::string_view password) {
    user_ = Credential();
    return std::string(CheckPassword(file_, name, password, &user_).message());
  }

  std::string base_;
  std::string file_;
  Credential user_;
};

// Shows DAFS-6.2.2-04: an identity and a password are those of one user.
TEST_F(PasswordsTest, NameAndPasswordProveAUser) {
  Write("# comment\n\nalice:" + Hash("secret") + ":4711:100,101\ndaemon:" + Hash("other") + "\n");
  EXPECT_EQ(Check("alice", "secret"), "");
  EXPECT_EQ(user_.uid, 4711u);
  EXPECT_EQ(user_.gid, 100u);
  EXPECT_THAT(user_.groups, ElementsAre(100, 101));
  EXPECT_EQ(Check("daemon", "other"), "");  // the user of this machine
  EXPECT_EQ(user_.uid, 1u);
  Write("alice:" + Hash("changed") + ":4711:100\n");  // counts at once
  EXPECT_NE(Check("alice", "secret"), "");
  EXPECT_EQ(Check("alice", "changed"), "");
}

TEST_F(PasswordsTest, MethodsOfNewPasswordsAreTaken) {
  for (const char* setting :
       {"$6$rounds=1000$dafs", "$2b$04$abcdefghijklmnopqrstuu", "$y$j75$dafsdafsdafs$"}) {
    Write("alice:" + Hash("secret", setting) + ":1:1\n");
    EXPECT_EQ(Check("alice", "secret"), "") << setting;
    EXPECT_NE(Check("alice", "secreT"), "") << setting;
  }
}

TEST_F(PasswordsTest, WrongPasswordsAndNamesAreRefused) {
  Write("alice:" + Hash("secret") + ":4711:100\nnobody-here:" + Hash("secret") +
        "\nempty:" + Hash("") + ":5:5\n");
  const std::string zero("secret\0", 7);
  for (const std::string_view password :
       {std::string_view(""), std::string_view("Secret"), std::string_view("secret "),
        std::string_view(zero), std::string_view("secre")}) {
    EXPECT_THAT(Check("alice", password), HasSubstr("a wrong password")) << password;
  }
  EXPECT_THAT(Check("alice", std::string(100000, 'x')), HasSubstr("a wrong password"));
  EXPECT_THAT(Check("empty", std::string("\0x", 2)), HasSubstr("a wrong password"));
  for (const std::string name : {"", "bob", "alice:", "ALICE", "# comment", "alice\n"}) {
    EXPECT_THAT(Check(name, "secret"), HasSubstr("a name without a password")) << name;
  }
  EXPECT_THAT(Check("nobody-here", "secret"), HasSubstr("not a user of this machine"));
  EXPECT_EQ(user_.uid, kAnonymousId);
  Write("");
  EXPECT_THAT(Check("alice", "secret"), HasSubstr("a name without a password"));
  EXPECT_THAT(Check("alice", ""), HasSubstr("a name without a password"));
}

TEST_F(PasswordsTest, FileWithAFaultIsRefused) {
  const std::string good = "alice:" + Hash("secret") + ":4711:100\n";
  EXPECT_EQ(Complaint(good), "");
  for (const mode_t mode : {0640u, 0604u, 0660u}) {
    EXPECT_THAT(Complaint(good, mode), HasSubstr("other users can access it; chown"));
    EXPECT_THAT(Check("alice", "secret"), HasSubstr("other users can access it"));
  }
  EXPECT_THAT(Complaint(good + good), HasSubstr("line 2: the name is given twice"));
  EXPECT_THAT(Complaint("alice\n"), HasSubstr("line 1: expected NAME:HASH"));
  EXPECT_THAT(Complaint("alice:x:1\n"), HasSubstr("expected NAME:HASH"));
  EXPECT_THAT(Complaint("al@ice:" + Hash("x") + "\n"), HasSubstr("letters, digits"));
  EXPECT_THAT(Complaint(std::string(65, 'a') + ":" + Hash("x") + "\n"), HasSubstr("letters"));
  // No password, a locked one, one in the clear, and methods that are weak.
  for (const std::string hash : {"", "*", "!", "x", "secret", "ab0123456789.",
                                 "$1$abcdefgh$0123456789012345678901", "$9$unknown$x"}) {
    const std::string complaint = Complaint("alice:" + hash + ":1:1\n");
    EXPECT_THAT(complaint, HasSubstr("line 1: not a hash")) << hash;
    if (hash.size() > 2) {
      EXPECT_THAT(complaint, Not(HasSubstr(hash)));
    }
    EXPECT_NE(Check("alice", hash), "");
  }
  for (const std::string ids :
       {"-1:1", "1:", ":1", "4294967295:1", "1:x", "1:1,,2", "1:4294967295"}) {
    EXPECT_THAT(Complaint("alice:" + Hash("x") + ":" + ids + "\n"), HasSubstr("are numbers"))
        << ids;
  }
  EXPECT_THAT(Complaint(std::string(size_t{2} << 20, '#')), HasSubstr("larger than"));
  std::filesystem::remove(file_);
  EXPECT_THAT(std::string(CheckPasswordFile(file_).message()), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(CheckPasswordFile(file_).message()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace dafs::server
