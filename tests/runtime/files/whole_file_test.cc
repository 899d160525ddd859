#include "runtime/files/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace dafs {
namespace {

class WholeFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return path_;
  }
  ~WholeFileTest() override { unlink(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "whole_file_" + std::to_string(getpid());
};

TEST_F(WholeFileTest, ContentIsReadToItsEnd) {
  EXPECT_EQ(ReadWholeFile(Write(""), 0).value(), "");
  std::string content(100'000, 'x');
  content[50'000] = '\0';
  EXPECT_EQ(ReadWholeFile(Write(content), content.size()).value(), content);
}

TEST_F(WholeFileTest, AFileBeyondTheLimitIsRefused) {
  const absl::StatusOr<std::string> text = ReadWholeFile(Write("12345"), 4);
  EXPECT_TRUE(absl::IsInvalidArgument(text.status()));
  EXPECT_EQ(text.status().message(), path_ + ": larger than 4 bytes");
  EXPECT_FALSE(ReadWholeFile("/dev/zero", 1 << 20).ok()) << "it has no end";
}

TEST_F(WholeFileTest, AnErrorOfTheSystemNamesTheFile) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path_, 10);
  EXPECT_TRUE(absl::IsNotFound(text.status()));
  EXPECT_EQ(text.status().message(), path_ + ": No such file or directory");
  EXPECT_FALSE(ReadWholeFile("/proc", 10).ok()) << "a directory";
}

TEST_F(WholeFileTest, AFileOfProcHasContentWithoutASize) {
  EXPECT_FALSE(ReadWholeFile("/proc/self/mountinfo", 1 << 26).value().empty());
}

TEST_F(WholeFileTest, NonBlockingReadDoesNotWaitForAWriterOfAFifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(ReadWholeFile(path_, 10, O_NONBLOCK).value(), "");
}

}  // namespace
}  // namespace dafs
