#include "client/names/names_conf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/names/name_file.h"
#include "client/names/text_lines.h"

namespace dafs::names {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NamesConfTest, SettingsReplaceTheDefaults) {
  const absl::StatusOr<NamesConf> conf = ParseNamesConf(
      "# comment\n"
      "order = ldap dns   # and not the file\n"
      "\n"
      "dns-servers=127.0.0.1:5353\r\n"
      "ldap-base = ou=dafs,dc=example,dc=com\n"
      "timeout = 2\n"
      "refresh = 60",
      "names.conf");
  ASSERT_TRUE(conf.ok()) << conf.status();
  EXPECT_THAT(conf->order, ElementsAre(Service::kLdap, Service::kDns));
  EXPECT_EQ(conf->dns_servers, "127.0.0.1:5353");
  EXPECT_EQ(conf->ldap_base, "ou=dafs,dc=example,dc=com");
  EXPECT_EQ(conf->timeout, absl::Seconds(2));
  EXPECT_EQ(conf->refresh, absl::Minutes(1));
  EXPECT_EQ(conf->file, "/etc/dafs/names");
  EXPECT_EQ(*ParseNamesConf("", "names.conf"), NamesConf());
}

TEST(NamesConfTest, FaultIsNamedWithFileAndLine) {
  for (const std::string bad :
       {"order = nis", "order = dns dns", "order", "order =", "nonsense = 1", "timeout = 0",
        "timeout = 9", "refresh = ten", "file = names"}) {
    const absl::StatusOr<NamesConf> conf = ParseNamesConf("\n" + bad + "\n", "/etc/x.conf");
    ASSERT_FALSE(conf.ok()) << bad;
    EXPECT_THAT(std::string(conf.status().message()), HasSubstr("/etc/x.conf, line 2: " + bad));
  }
  EXPECT_FALSE(ParseNamesConf("ldap-bind-dn = cn=a", "x").ok()) << "it has no password";
}

TEST(NamesConfTest, MissingFileIsAnErrorOnlyIfItWasNamed) {
  EXPECT_TRUE(absl::IsNotFound(ReadNamesConf("/nonexistent/names.conf").status()));
  EXPECT_FALSE(ReadTextFile("/dev/zero").ok()) << "it has no end";
}

// Shows DAFS-2.4.2-01.
TEST(NameFileTest, LineHasTheLocationsOfItsName) {
  constexpr char kText[] =
      "other   h:/x\n"
      "  projects\tfiles1:/projects files2:20150:/projects#no-comment\n"
      "last h:/y";
  const auto found = FindInNameFile(kText, "names", "projects");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].location.host, "files1");
  EXPECT_EQ((*found)[1].location.path, "/projects#no-comment");
  EXPECT_TRUE(absl::IsNotFound(FindInNameFile(kText, "names", "project").status()));
  EXPECT_TRUE(absl::IsNotFound(FindInNameFile("", "names", "project").status()));
}

// Shows DAFS-A.3-01 (at most one entry), DAFS-A.3-02.
TEST(NameFileTest, FaultOfAnyLineIsNamedWithFileAndLine) {
  const std::pair<const char*, const char*> kBad[] = {
      {"a h:/x\nb\n", "names, line 2: no location"},
      {"a h:/x\n\na h:/y\n", "names, line 3: a is also on line 1"},
      {"a h:/x\nb/c h:/y\n", "names, line 2: a DAFS name must not"},
      {"a h:/x h:/../y\n", "names, line 1: h:/../y: the path"},
      {"\xff h:/x", "names, line 1: a DAFS name must be UTF-8"},
  };
  for (const auto& [text, why] : kBad) {
    const auto found = FindInNameFile(text, "names", "a");
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << text;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(why));
  }
  std::string many = "a";
  for (int i = 0; i < 65; ++i) many += " h:/x";
  EXPECT_THAT(std::string(FindInNameFile(many, "names", "a").status().message()),
              HasSubstr("more than 64"));
}

}  // namespace
}  // namespace dafs::names
