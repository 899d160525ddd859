#include "server/store/objects/export.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace dafs::server {
namespace {

using testing::HasSubstr;

PeerAddress Address(const char* text) { return PeerAddress::Parse(text).value(); }
Peer From(const char* address, bool reserved_port = true) {
  return {.address = Address(address), .reserved_port = reserved_port};
}

TEST(StoreExportTest, ParsesNameDirectoryAndOptions) {
  absl::StatusOr<Export> e = ParseExport(
      "/data/x=/srv/x,ro,all_squash,anonuid=77,anongid=78,clients=192.0.2.0/24+2001:db8::/32,"
      "clients=198.51.100.7,handles=lasting,changed_by=clients");
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->name, "/data/x");
  EXPECT_EQ(e->directory, "/srv/x");
  EXPECT_TRUE(e->read_only);
  EXPECT_EQ(e->squash, Squash::kAll);
  EXPECT_EQ(e->anonuid, 77u);
  EXPECT_TRUE(e->lasting_handles);
  EXPECT_TRUE(e->only_clients_change);
  EXPECT_EQ(e->anongid, 78u);
  EXPECT_THAT(e->Components(), testing::ElementsAre("data", "x"));
  EXPECT_TRUE(e->Admits(From("192.0.2.200")));
  EXPECT_FALSE(e->Admits(From("192.0.3.1")));
  EXPECT_TRUE(e->Admits(From("2001:db8:1::5")));
  EXPECT_FALSE(e->Admits(From("2001:db9::5")));
  EXPECT_TRUE(e->Admits(From("198.51.100.7")));
  EXPECT_FALSE(e->Admits(From("198.51.100.8")));
}

TEST(StoreExportTest, DefaultsMatchNfs) {
  absl::StatusOr<Export> e = ParseExport("/=/srv");
  ASSERT_TRUE(e.ok());
  EXPECT_FALSE(e->read_only);
  EXPECT_EQ(e->squash, Squash::kRoot);
  EXPECT_EQ(e->anonuid, 65534u);
  EXPECT_FALSE(e->lasting_handles);
  EXPECT_FALSE(e->only_clients_change);
  EXPECT_TRUE(e->Components().empty());
  EXPECT_TRUE(e->Admits(From("203.0.113.1")));
}

TEST(StoreExportTest, SecureAcceptsOnlyReservedPorts) {
  for (const char* option : {"", ",secure", ",insecure,secure"}) {
    absl::StatusOr<Export> e = ParseExport(std::string("/a=/srv,clients=192.0.2.0/24") + option);
    ASSERT_TRUE(e.ok());
    EXPECT_EQ(e->Admission(From("192.0.2.1")), wire::DafsStatus::kOk);
    EXPECT_EQ(e->Admission(From("192.0.2.1", false)), wire::DafsStatus::kWrongSec);
    EXPECT_EQ(e->Admission(From("192.0.3.1", false)), wire::DafsStatus::kAcces);
  }
  absl::StatusOr<Export> e = ParseExport("/a=/srv,insecure");
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->Admission(From("192.0.2.1", false)), wire::DafsStatus::kOk);
}

TEST(StoreExportTest, ErrorsNameTheFault) {
  const auto message = [](const char* text) {
    return std::string(ParseExport(text).status().message());
  };
  EXPECT_THAT(message("a=/srv"), HasSubstr("must begin with '/'"));
  EXPECT_THAT(message("/a"), HasSubstr("/NAME=DIR"));
  EXPECT_THAT(message("/a=srv"), HasSubstr("absolute path"));
  EXPECT_THAT(message("/a=/srv,rx"), HasSubstr("option 'rx' is unknown"));
  EXPECT_THAT(message("/a/../b=/srv"), HasSubstr("'..'"));
  EXPECT_THAT(message("/a//b=/srv"), HasSubstr("empty part"));
  EXPECT_THAT(message("/a=/srv,handles=some"), HasSubstr("the word lasting, not 'some'"));
  EXPECT_THAT(message("/a=/srv,changed_by=root"), HasSubstr("clients or anyone, not 'root'"));
  EXPECT_THAT(message("/a=/srv,anonuid=x"), HasSubstr("anonuid needs a number"));
  EXPECT_THAT(message("/a=/srv,anonuid=4294967295"), HasSubstr("anonuid needs a number"));
  EXPECT_THAT(message("/a=/srv,clients=1.2.3"), HasSubstr("'1.2.3' is not an IP address"));
  EXPECT_THAT(message("/a=/srv,clients=1.2.3.4/33"), HasSubstr("prefix length of 0 to 32"));
  EXPECT_THAT(message("/a=/srv,clients=::1/129"), HasSubstr("prefix length of 0 to 128"));
}

TEST(StoreExportTest, NestedExportNamesAreRefused) {
  const auto check = [](std::vector<const char*> texts) {
    std::vector<Export> exports;
    for (const char* text : texts) exports.push_back(ParseExport(text).value());
    return CheckExports(exports);
  };
  EXPECT_TRUE(check({"/a=/x", "/ab=/y", "/b/c=/z"}).ok());
  EXPECT_TRUE(check({"/=/x"}).ok());
  EXPECT_THAT(std::string(check({"/a=/x", "/a=/y"}).message()), HasSubstr("twice"));
  EXPECT_THAT(std::string(check({"/a/b=/x", "/a=/y"}).message()), HasSubstr("inside export /a"));
  EXPECT_THAT(std::string(check({"/=/x", "/a=/y"}).message()), HasSubstr("inside export /"));
  EXPECT_THAT(std::string(check({}).message()), HasSubstr("nothing to export"));
}

TEST(StoreExportTest, SocketAddressesAreMapped) {
  sockaddr_storage storage = {};
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.9", &in.sin_addr);
  std::memcpy(&storage, &in, sizeof in);
  EXPECT_EQ(PeerAddress::FromSockaddr(storage), Address("192.0.2.9"));
  EXPECT_EQ(PeerAddress::FromSockaddr(storage), Address("::ffff:192.0.2.9"));
  EXPECT_TRUE(Cidr::Parse("0.0.0.0/0")->Contains(Address("192.0.2.9")));
  EXPECT_FALSE(Cidr::Parse("0.0.0.0/0")->Contains(Address("2001:db8::1")));
  EXPECT_TRUE(Cidr::Parse("::/0")->Contains(Address("192.0.2.9")));
  EXPECT_EQ(*Cidr::Parse("192.0.2.77/24"), *Cidr::Parse("192.0.2.0/24"));
}

}  // namespace
}  // namespace dafs::server
