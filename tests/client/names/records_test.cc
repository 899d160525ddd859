#include "client/names/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/names/name_file.h"

namespace dafs::names {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<Location> kTwo = {{kIwarp, "files1.example.com", 20149, "/projects", "1.0"},
                                    {kRdma, "files1.example.com", 20150, "/projects", "1.0"}};

std::string Made(RecordForm form, const std::string& name, std::span<const Location> locations,
                 const std::string& base = "") {
  const absl::StatusOr<std::string> records = RecordsOf(form, name, locations, base);
  return records.ok() ? *records : "error: " + std::string(records.status().message());
}

TEST(RecordsTest, ALineOfTheFileOfNamesIsReadAsItWasMade) {
  std::vector<Location> locations = kTwo;
  locations.push_back({kIwarp, "2001:db8::1", 7, "/projects", "1.0"});
  const std::string line = Made(RecordForm::kFile, "projects", locations);
  EXPECT_EQ(line,
            "projects tcp://files1.example.com:20149/projects rdma://files1.example.com:20150/"
            "projects tcp://[2001:db8::1]:7/projects\n");
  const absl::StatusOr<std::vector<Located>> read = FindInNameFile(line, "names", "projects");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), locations.size());
  for (size_t i = 0; i < locations.size(); ++i) {
    locations[i].version.clear();  // the file has none
    EXPECT_EQ((*read)[i].location, locations[i]);
  }
}

TEST(RecordsTest, TheFileOfNamesHasNoBlanks) {
  EXPECT_THAT(Made(RecordForm::kFile, "two words", kTwo), HasSubstr("error: "));
  const Location blank = {kIwarp, "h", 1, "/a b", "1.0"};
  EXPECT_THAT(Made(RecordForm::kFile, "projects", {&blank, 1}), HasSubstr("error: "));
}

TEST(RecordsTest, ZoneLinesKeepTheOrderAndNameEachPort) {
  EXPECT_EQ(Made(RecordForm::kDns, "projects.example.com", kTwo),
            "_dafs._tcp.projects.example.com. SRV 0 0 20149 files1.example.com.\n"
            "_dafs._tcp.projects.example.com. SRV 1 0 20150 files1.example.com.\n"
            "_dafs._tcp.projects.example.com. TXT \"path=/projects\" \"version=1.0\"\n");
  const std::vector<Location> relative = {{kIwarp, "files1", 1, "/", "1.0"}};
  EXPECT_EQ(Made(RecordForm::kDns, "projects", relative),
            "_dafs._tcp.projects SRV 0 0 1 files1\n"
            "_dafs._tcp.projects TXT \"path=/\" \"version=1.0\"\n");
}

TEST(RecordsTest, DnsDoesNotTellTransportsApart) {
  const std::vector<Location> both = {{kIwarp, "h", 1, "/", "1.0"}, {kRdma, "h", 1, "/", "1.0"}};
  EXPECT_EQ(Made(RecordForm::kDns, "n", both),
            "_dafs._tcp.n SRV 0 0 1 h\n_dafs._tcp.n TXT \"path=/\" \"version=1.0\"\n");
}

TEST(RecordsTest, DnsRefusesLongPathsBadNamesAndAddresses) {
  const auto path = [](const std::string& text) {
    return std::vector<Location>{{kIwarp, "h", 1, text, "1.0"}};
  };
  EXPECT_THAT(Made(RecordForm::kDns, "n", path("/a\"b\\\xc3\xbc")),
              HasSubstr("\"path=/a\\\"b\\\\\\195\\188\""));
  EXPECT_THAT(Made(RecordForm::kDns, "n", path("/" + std::string(249, 'a'))),
              HasSubstr("path=/aaa"));
  EXPECT_THAT(Made(RecordForm::kDns, "n", path("/" + std::string(250, 'a'))),
              HasSubstr("error: a TXT record has at most 255 bytes"));
  EXPECT_THAT(Made(RecordForm::kDns, "a..b", kTwo), HasSubstr("not a name for DNS"));
  EXPECT_THAT(Made(RecordForm::kDns, std::string(64, 'a'), kTwo), HasSubstr("not a name for DNS"));
  for (const char* const host : {"127.0.0.1", "2001:db8::1"}) {
    const Location at = {kIwarp, host, 1, "/", "1.0"};
    EXPECT_THAT(Made(RecordForm::kDns, "n", {&at, 1}), HasSubstr("give --host"));
  }
}

TEST(RecordsTest, LdifHasAnEntryForEachLocation) {
  EXPECT_EQ(Made(RecordForm::kLdif, "projects", kTwo, "ou=dafs,o=test"),
            "dn: dafsName=projects,ou=dafs,o=test\n"
            "objectClass: dafsNameSpaceEntry\n"
            "dafsName: projects\n\n"
            "dn: cn=01,dafsName=projects,ou=dafs,o=test\n"
            "objectClass: dafsLocation\nobjectClass: datLocation\n"
            "cn: 01\ndatTransportType: IWARP\ndatTransportHostname: files1.example.com\n"
            "datTransportConnectionQualifier: 20149\ndafsDirectoryPath: /projects\n"
            "dafsProtocolVersion: 1.0\n\n"
            "dn: cn=02,dafsName=projects,ou=dafs,o=test\n"
            "objectClass: dafsLocation\nobjectClass: datLocation\n"
            "cn: 02\ndatTransportType: RDMA\ndatTransportHostname: files1.example.com\n"
            "datTransportConnectionQualifier: 20150\ndafsDirectoryPath: /projects\n"
            "dafsProtocolVersion: 1.0\n\n");
  EXPECT_THAT(Made(RecordForm::kLdif, "projects", kTwo), HasSubstr("error: LDIF needs"));
}

TEST(RecordsTest, LdifEscapesWhatItAndNamesWouldInterpret) {
  EXPECT_THAT(Made(RecordForm::kLdif, "a,b+c", kTwo, "o=t"),
              StartsWith("dn: dafsName=a\\,b\\+c,o=t\nobjectClass: dafsNameSpaceEntry\n"
                         "dafsName: a,b+c\n\n"));
  EXPECT_THAT(Made(RecordForm::kLdif, " x ", kTwo, "o=t"),
              StartsWith("dn: dafsName=\\ x\\ ,o=t\nobjectClass: dafsNameSpaceEntry\n"
                         "dafsName:: IHgg\n\n"));
  EXPECT_THAT(Made(RecordForm::kLdif, "\xc3\xbc", kTwo, "o=t"),
              StartsWith("dn:: ZGFmc05hbWU9w7wsbz10\nobjectClass: dafsNameSpaceEntry\n"
                         "dafsName:: w7w=\n\n"));
}

TEST(RecordsTest, DnsNamesHaveAtMost253BytesAndKeepTheirFinalDot) {
  const std::string label(60, 'a');
  const auto name = [&](size_t last) {
    return absl::StrCat(label, ".", label, ".", label, ".", std::string(last, 'b'));
  };
  const std::vector<Location> one = {{kIwarp, "h.", 1, "/", "1.0"}};
  EXPECT_THAT(Made(RecordForm::kDns, name(59), one), StartsWith("_dafs._tcp."));
  EXPECT_THAT(Made(RecordForm::kDns, name(60), one), HasSubstr("not a name for DNS"));
  EXPECT_THAT(Made(RecordForm::kDns, "n.", one), StartsWith("_dafs._tcp.n. SRV 0 0 1 h.\n"));
}

TEST(RecordsTest, ANameHas1To64Locations) {
  for (const RecordForm form : {RecordForm::kFile, RecordForm::kDns, RecordForm::kLdif}) {
    std::vector<Location> locations;
    EXPECT_THAT(Made(form, "n", locations, "o=t"), HasSubstr("error: there is no location"));
    for (uint16_t port = 1; port <= 64; ++port) {
      locations.push_back({kIwarp, "h", port, "/", "1.0"});
    }
    EXPECT_THAT(Made(form, "n", locations, "o=t"), testing::Not(HasSubstr("error")));
    locations.push_back({kIwarp, "h", 65, "/", "1.0"});
    EXPECT_THAT(Made(form, "n", locations, "o=t"), HasSubstr("error: more than 64 locations"));
  }
}

TEST(RecordsTest, BadNamesAreRefused) {
  for (const RecordForm form : {RecordForm::kFile, RecordForm::kDns, RecordForm::kLdif}) {
    EXPECT_THAT(Made(form, "a/b", kTwo, "o=t"), HasSubstr("error: a DAFS name"));
    EXPECT_THAT(Made(form, "a\nb", kTwo, "o=t"), HasSubstr("error: a DAFS name"));
  }
}

}  // namespace
}  // namespace dafs::names
