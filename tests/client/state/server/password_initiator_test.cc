#include "client/state/server/password_initiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace dafs::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PasswordInitiatorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string base = "/tmp/dafs-credentials-XXXXXX";
    base_ = mkdtemp(base.data());
    file_ = base_ + "/credentials";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  // NAME/PASSWORD, or the error.
  std::string Read(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
    const auto read = ReadCredentialsFile(file_);
    return read.ok() ? read->name + "/" + read->password : std::string(read.status().message());
  }
  static absl::StatusOr<std::string> TokenOf(std::string name, std::string password,
                                             const std::string& channel_binding = "binding") {
    const auto initiator = NewPasswordInitiator([&]() -> absl::StatusOr<NameAndPassword> {
      NameAndPassword secret;
      secret.name = name;
      secret.password = password;
      return secret;
    });
    const auto exchange = initiator->Begin(channel_binding);
    std::string token;
    const auto progress = exchange->Step("", &token);
    if (!progress.ok()) return progress.status();
    EXPECT_EQ(*progress, auth::Exchange::Progress::kDone);
    std::string more;
    EXPECT_TRUE(exchange->Step("", &more).ok());
    EXPECT_FALSE(exchange->Step("token", &more).ok());  // a server answers with none
    return token;
  }

  std::string base_;
  std::string file_;
};

TEST_F(PasswordInitiatorTest, FileHasANameAndAPassword) {
  EXPECT_EQ(Read("username=alice\npassword=a b=c# \n"), "alice/a b=c# ");
  EXPECT_EQ(Read("# comment\npassword=\nusername=alice"), "alice/");
  EXPECT_THAT(Read("username=alice\n"), HasSubstr("a line username=NAME and a line password="));
  EXPECT_THAT(Read("password=secret\n"), HasSubstr("a line username=NAME"));
  EXPECT_THAT(Read(""), HasSubstr("a line username=NAME"));
  EXPECT_THAT(Read(std::string(10000, 'x')), HasSubstr("larger than"));
  for (const mode_t mode : {0640u, 0604u, 0660u}) {
    const std::string error = Read("username=alice\npassword=secret\n", mode);
    EXPECT_THAT(error, HasSubstr("other users can access it"));
    EXPECT_THAT(error, Not(HasSubstr("secret")));
  }
  std::filesystem::remove(file_);
  EXPECT_THAT(std::string(ReadCredentialsFile(file_).status().message()), HasSubstr("No such"));
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadCredentialsFile(file_).status().message()),
              HasSubstr("not a regular"));
}

// Shows DAFS-6.1.9-02 (the client's part)
TEST_F(PasswordInitiatorTest, TokenIsNameAndPassword) {
  const auto token = TokenOf("alice", "secret");
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, std::string("alice\0secret", 12));
  EXPECT_FALSE(TokenOf("", "secret").ok());
  EXPECT_FALSE(TokenOf(std::string("a\0b", 3), "secret").ok());
  EXPECT_FALSE(TokenOf("alice", std::string("a\0b", 3)).ok());
}

TEST_F(PasswordInitiatorTest, NothingIsSentWithoutTls) {
  EXPECT_THAT(std::string(TokenOf("alice", "secret", "").status().message()),
              HasSubstr("sent over TLS only"));
}

}  // namespace
}  // namespace dafs::client
