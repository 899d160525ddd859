#include "runtime/files/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dafs {
namespace {

using testing::HasSubstr;

class SecretFileTest : public testing::Test {
 protected:
  ~SecretFileTest() override { unlink(path_.c_str()); }

  void Write(const std::string& text, mode_t mode) {
    unlink(path_.c_str());
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    fchmod(fd, mode);
    close(fd);
  }
  std::string Complaint() const {
    const absl::StatusOr<std::string> read = ReadSecretFile(path_, 8);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(path_ + ": "));
    return std::string(read.status().message());
  }

  const std::string path_ = "/tmp/dafs-secret-file-test-" + std::to_string(getpid());
};

TEST_F(SecretFileTest, ReturnsAWholeFile) {
  for (const std::string text : {"", "12345678"}) {
    Write(text, 0600);
    EXPECT_EQ(ReadSecretFile(path_, 8).value_or("none"), text);
  }
}

TEST_F(SecretFileTest, RefusesALargerFile) {
  Write("123456789", 0600);
  EXPECT_THAT(Complaint(), HasSubstr("larger than 8 bytes"));
}

TEST_F(SecretFileTest, RefusesAFileThatOthersCanAccess) {
  for (const mode_t mode : {0604u, 0602u, 0640u, 0601u}) {
    Write("secret", mode);
    EXPECT_THAT(Complaint(), HasSubstr("chmod 600"));
  }
  if (geteuid() != 0) return;  // only root can give a file away
  Write("secret", 0600);
  ASSERT_EQ(chown(path_.c_str(), 1, 1), 0);
  EXPECT_THAT(Complaint(), HasSubstr("chown"));
}

TEST_F(SecretFileTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(Complaint(), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Complaint(), HasSubstr("not a regular file"));  // at once, without a writer
}

}  // namespace
}  // namespace dafs
