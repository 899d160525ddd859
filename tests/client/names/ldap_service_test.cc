// Without a server; tests/mount/scenarios/mounting/names.py has one.
#include "client/names/ldap_service.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "runtime/files/unique_fd.h"

namespace dafs::names {
namespace {

using ::testing::HasSubstr;

TEST(LdapServiceTest, FilterEscapesWhatIsSpecialInIt) {
  EXPECT_EQ(NameFilter("a*)(b=\\"),
            "(&(objectClass=dafsNameSpaceEntry)(dafsName=a\\2a\\29\\28b=\\5c))");
  EXPECT_THAT(NameFilter("Gr\xc3\xbc\xc3\x9f"), HasSubstr("=Gr\xc3\xbc\xc3\x9f)"));
}

// Shows DAFS-A.4-01, DAFS-A.7-02.
TEST(LdapServiceTest, EntryIsALocation) {
  const auto location = LocationOf({.type = "IWARP",
                                    .host = "server28",
                                    .qualifier = "dafs",
                                    .path = "dbms_dir",
                                    .version = "1.0"});
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(*location, (Location{kIwarp, "server28", 0, "/dbms_dir", "1.0"}));
}

TEST(LdapServiceTest, QualifierOfAnotherTransportIsNotRead) {
  const auto location = LocationOf(
      {.type = "VI", .host = "server28", .qualifier = "4:dafs", .path = "", .version = ""});
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(location->transport, "VI");
}

TEST(LdapServiceTest, BadValueIsNamedWithItsAttribute) {
  const LdapValues good = {
      .type = "RDMA", .host = "h", .qualifier = "1", .path = "/x", .version = ""};
  LdapValues bad = good;
  bad.host = "h h";
  EXPECT_THAT(std::string(LocationOf(bad).status().message()), HasSubstr("datTransportHostname"));
  bad = good;
  bad.qualifier = "x";
  EXPECT_THAT(std::string(LocationOf(bad).status().message()),
              HasSubstr("datTransportConnectionQualifier"));
  bad = good;
  bad.path = "/x/..";
  EXPECT_THAT(std::string(LocationOf(bad).status().message()), HasSubstr("dafsDirectoryPath"));
}

TEST(LdapServiceTest, PasswordIsNotSentInTheClear) {
  NamesConf conf;
  conf.ldap_uri = "ldap://127.0.0.1:1";
  conf.ldap_base = "dc=x";
  conf.ldap_bind_dn = "cn=a";
  conf.ldap_password_file = "/dev/null";
  EXPECT_THAT(std::string(AskLdap(conf, "a").status().message()), HasSubstr("ldaps://"));
}

TEST(LdapServiceTest, SilentServerIsUnavailable) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), any, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), any, &size), 0);
  NamesConf conf;
  conf.ldap_uri = "ldap://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  conf.ldap_base = "dc=x";
  conf.timeout = absl::Milliseconds(300);
  EXPECT_TRUE(absl::IsUnavailable(AskLdap(conf, "a").status()));
}

TEST(LdapServiceTest, ServerThatIsAwayIsUnavailable) {
  NamesConf conf;
  conf.ldap_uri = "ldap://127.0.0.1:1";
  conf.ldap_base = "dc=x";
  EXPECT_TRUE(absl::IsUnavailable(AskLdap(conf, "a").status()));
}

}  // namespace
}  // namespace dafs::names
