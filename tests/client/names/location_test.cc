#include "client/names/location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dafs::names {
namespace {

using ::testing::HasSubstr;

std::string WhyBad(const absl::Status& status) { return std::string(status.message()); }

// Shows DAFS-A.3-01 (a name is a string).
TEST(LocationTest, NameIsShortUtf8WithoutSeparators) {
  EXPECT_TRUE(CheckName("projects").ok());
  EXPECT_TRUE(CheckName("Gr\xc3\xbc\xc3\x9f"
                        "e 7")
                  .ok());
  EXPECT_TRUE(CheckName(std::string(255, 'a')).ok());
  for (const std::string& bad :
       {std::string(), std::string(256, 'a'), std::string("a/b"), std::string("host:x"),
        std::string("a\nb"), std::string("\xff"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(CheckName(bad).ok()) << bad;
  }
}

TEST(LocationTest, LocationHasTransportHostPortAndPath) {
  const absl::StatusOr<Location> plain = ParseLocation("files1.example.com:2049:/a/b/");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, (Location{"", "files1.example.com", 2049, "/a/b", ""}));
  EXPECT_EQ(ToString(*plain), "files1.example.com:2049:/a/b");
  EXPECT_EQ(*ParseLocation("tcp://files1/a"), (Location{kIwarp, "files1", 0, "/a", ""}));
  EXPECT_EQ(*ParseLocation("rdma://[2001:db8::1]:7/a"),
            (Location{kRdma, "2001:db8::1", 7, "/a", ""}));
  EXPECT_EQ(ToString(*ParseLocation("[2001:db8::1]:/a")), "[2001:db8::1]:/a");
}

// Shows DAFS-A.4.2-02.
TEST(LocationTest, EmptyPathIsTheRoot) {
  EXPECT_EQ(*CheckPath(""), "/");
  EXPECT_EQ(*CheckPath("dbms_dir"), "/dbms_dir") << "as the draft's example writes it";
  EXPECT_EQ(ParseLocation("tcp://files1")->path, "/");
}

TEST(LocationTest, BadPartsAreRefusedWithAReason) {
  EXPECT_THAT(WhyBad(ParseLocation("host:/a/../b").status()), HasSubstr("'.' or '..'"));
  EXPECT_THAT(WhyBad(ParseLocation("host:0:/a").status()), HasSubstr("0 is not a port"));
  EXPECT_THAT(WhyBad(ParseLocation("host").status()), HasSubstr("expected SERVER"));
  EXPECT_THAT(WhyBad(ParseLocation("ho$t:/a").status()), HasSubstr("neither a host name"));
  EXPECT_THAT(WhyBad(ParseLocation("[::1:/a").status()), HasSubstr("closing bracket"));
  EXPECT_FALSE(ParseLocation(std::string(256, 'h') + ":/a").ok());
  EXPECT_FALSE(CheckPath("/a\nb").ok());
  EXPECT_FALSE(CheckPath(std::string(4097, 'a')).ok());
}

// A.4.3: the client skips versions that it does not speak.
TEST(LocationTest, VersionOneIsSpoken) {
  EXPECT_TRUE(IsSpoken(""));
  EXPECT_TRUE(IsSpoken("1"));
  EXPECT_TRUE(IsSpoken("1.0"));
  EXPECT_FALSE(IsSpoken("2.0"));
  EXPECT_FALSE(IsSpoken("10"));
}

TEST(LocationTest, QualifierIsAPortOrTheDefault) {
  EXPECT_EQ(*ParseQualifier(""), 0);
  EXPECT_EQ(*ParseQualifier("dafs"), 0) << "as the draft's example writes it";
  EXPECT_EQ(*ParseQualifier("20150"), 20150);
  EXPECT_FALSE(ParseQualifier("70000").ok());
  EXPECT_FALSE(ParseQualifier("-1").ok());
}

}  // namespace
}  // namespace dafs::names
