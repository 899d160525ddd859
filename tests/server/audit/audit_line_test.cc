#include "server/audit/audit_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"

namespace dafs::server {
namespace {

using Json = nlohmann::json;

std::string LineWith(std::string_view path) {
  AuditLine line(absl::FromUnixMicros(1700000000123456), AuditClass::kOpen, "OPEN");
  line.Add("path", path);
  return std::move(line).Take();
}

TEST(AuditLineTest, RecordIsOneObjectOnOneLine) {
  AuditLine line(absl::FromUnixMicros(1700000000123456), AuditClass::kDeny, "REMOVE");
  line.Add("uid", 1000);
  line.Add("path", "/srv/a \"b\"\\c");
  EXPECT_EQ(std::move(line).Take(),
            "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"class\":\"deny\",\"op\":\"REMOVE\","
            "\"uid\":1000,\"path\":\"/srv/a \\\"b\\\"\\\\c\"}\n");
}

// Names that would end the line, the text or the object, or reach a terminal.
TEST(AuditLineTest, HostileNamesStayWithinTheirText) {
  const std::string names[] = {
      "a\nb",
      "x\",\"class\":\"admin",
      "\x1b]0;title\x07\x1b[2J",
      std::string("\xc2\x9b") + "2J",            // CSI, a C1 control
      std::string("a\xe2\x80\xae") + "cod.exe",  // right-to-left override
      std::string("a\xe2\x80\xa8") + "b",        // line separator
      std::string("nul\0byte", 8),
      "\x7f\t\r",
      "\xf0\x9f\x98\x80 caf\xc3\xa9",
  };
  for (const std::string& name : names) {
    const std::string line = LineWith(name);
    const Json read = Json::parse(line);
    EXPECT_EQ(read["path"], name) << line;
    EXPECT_EQ(read["class"], "open");
    EXPECT_FALSE(read.contains("path_bytes"));
    EXPECT_EQ(line.find_first_of(std::string("\x1b\x7f\t\r\0", 5)), line.npos);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_EQ(line.find("\xc2\x9b"), line.npos);
    EXPECT_EQ(line.find("\xe2\x80"), line.npos);
  }
}

TEST(AuditLineTest, BytesThatAreNotUtf8AreKeptBeside) {
  const std::string names[] = {
      "\xff",
      "a\x80z",
      "\xc0\xaf",      // no character begins so
      "\xed\xa0\x80",  // a surrogate
      "\xf4\x90\x80\x80",
      "\xe0\x80\xaf",  // too large; too long
      "cut\xe2\x82",
      "cut\xf0\x9f\x98",
  };
  for (const std::string& name : names) {
    const Json read = Json::parse(LineWith(name));
    EXPECT_NE(read["path"].get<std::string>().find("\xef\xbf\xbd"), std::string::npos);
    EXPECT_EQ(absl::HexStringToBytes(read["path_bytes"].get<std::string>()), name);
  }
}

TEST(AuditLineTest, AnyByteAndAnyPairOfBytesGivesAnObject) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string name = {static_cast<char>(first), static_cast<char>(second)};
      const std::string line = LineWith(name);
      ASSERT_TRUE(Json::accept(line)) << line;
      ASSERT_EQ(line.find('\n'), line.size() - 1);
    }
  }
}

TEST(AuditLineTest, LongTextIsCutBetweenCharacters) {
  std::string name(AuditLine::kMostText - 1, 'a');
  name += "\xe2\x82\xac";
  const Json read = Json::parse(LineWith(name));
  EXPECT_EQ(read["path"].get<std::string>().size(), AuditLine::kMostText - 1);
  EXPECT_EQ(read["cut"], true);
  EXPECT_FALSE(read.contains("path_bytes"));
  EXPECT_FALSE(Json::parse(LineWith(std::string(AuditLine::kMostText, 'a'))).contains("cut"));
}

TEST(AuditOptionsTest, ClassesAreParsed) {
  EXPECT_EQ(*ParseAuditClasses("all"), kAllAuditClasses);
  EXPECT_EQ(*ParseAuditClasses("deny,acl"), SetOf(AuditClass::kDeny) | SetOf(AuditClass::kAcl));
  for (const char* wrong : {"", "deny,", "all,deny", "opens"}) {
    EXPECT_FALSE(ParseAuditClasses(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace dafs::server
