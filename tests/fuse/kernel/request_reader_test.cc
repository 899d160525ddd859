// The bodies of the kernel's requests.
#include "fuse/kernel/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

std::span<const std::byte> BytesOfRequestReader(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(RequestReader, ReadsStructuresNamesAndTheRest) {
  fuse_rename_in rename = {.newdir = 42};
  std::string body = Raw(rename) + Name("old") + Name("new") + "tail";
  RequestReader in(BytesOfRequestReader(body));
  EXPECT_EQ(in.Take<fuse_rename_in>().newdir, 42u);
  EXPECT_EQ(in.TakeName(), "old");
  EXPECT_EQ(in.TakeName(), "new");
  EXPECT_EQ(in.rest().size(), 4u);
  EXPECT_TRUE(in.ok());
}

TEST(RequestReader, EveryTruncationIsAnErrorAndReadsAsEmpty) {
  fuse_rename_in rename = {.newdir = 42};
  std::string body = Raw(rename) + Name("old") + Name("new");
  for (size_t size = 0; size < body.size(); ++size) {
    std::string part = body.substr(0, size);
    RequestReader in(BytesOfRequestReader(part));
    in.Take<fuse_rename_in>();
    in.TakeName();
    EXPECT_EQ(in.TakeName(), "") << size;
    EXPECT_FALSE(in.ok()) << size;
  }
}

TEST(RequestReader, RefusesInvalidNames) {
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string(1025, 'x'), std::string("/")}) {
    std::string body = Name(name);
    RequestReader in(BytesOfRequestReader(body));
    in.TakeName();
    EXPECT_FALSE(in.ok()) << name;
  }
  std::string longest = Name(std::string(1024, 'x'));
  RequestReader in(BytesOfRequestReader(longest));
  EXPECT_EQ(in.TakeName().size(), 1024u);
  EXPECT_TRUE(in.ok());
}

TEST(RequestReader, ANameBeyondTheProtocolsLimitIsTooLong) {
  std::string body = std::string(1025, 'n') + '\0';
  RequestReader in(std::as_bytes(std::span(body)));
  EXPECT_EQ(in.TakeName(), "");
  EXPECT_EQ(in.error(), ENAMETOOLONG);
  std::string empty(1, '\0');
  RequestReader nothing(std::as_bytes(std::span(empty)));
  EXPECT_EQ(nothing.TakeName(), "");
  EXPECT_EQ(nothing.error(), EINVAL);
}

}  // namespace
}  // namespace dafs::fuse
