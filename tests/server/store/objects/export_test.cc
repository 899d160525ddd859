#include "server/store/objects/export.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/store/objects/principal_pattern.h"

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

Peer Encrypted(std::vector<std::string> names = {}) {
  Peer peer = From("192.0.2.1");
  peer.tls = std::make_shared<const dat::TlsPeer>(
      dat::TlsPeer{.has_certificate = !names.empty(), .names = names});
  return peer;
}

TEST(StoreExportTest, XprtsecDecidesWhichConnectionsAreTaken) {
  using enum Export::Misfit;
  const Peer plain = From("192.0.2.1"), tls = Encrypted(), mutual = Encrypted({"a.example"});
  struct Case {
    const char* option;
    Export::Misfit plain, tls, mutual;
  };
  const Case cases[] = {
      {"", kNone, kNone, kNone},
      {",xprtsec=none:tls:mtls", kNone, kNone, kNone},
      {",xprtsec=none", kNone, kRefusesTls, kRefusesTls},
      {",xprtsec=tls", kNeedsTls, kNone, kNone},
      {",xprtsec=tls:mtls", kNeedsTls, kNone, kNone},
      {",xprtsec=mtls", kNeedsTls, kNeedsCertificate, kNone},
      {",xprtsec=none:mtls", kNone, kNeedsCertificate, kNone},
      {",xprtsec=mtls,clients=198.51.100.1", kAddress, kAddress, kAddress},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.option);
    const auto e = ParseExport(std::string("/a=/srv") + one.option);
    ASSERT_TRUE(e.ok()) << e.status();
    EXPECT_EQ(e->MisfitOf(plain), one.plain);
    EXPECT_EQ(e->MisfitOf(tls), one.tls);
    EXPECT_EQ(e->MisfitOf(mutual), one.mutual);
    EXPECT_EQ(e->Admits(tls), one.tls == kNone);
  }
  // TLS does not replace the reserved port.
  Peer high = mutual;
  high.reserved_port = false;
  EXPECT_EQ(ParseExport("/a=/srv,xprtsec=mtls")->MisfitOf(high), kPort);
  EXPECT_EQ(ParseExport("/a=/srv,xprtsec=mtls,insecure")->MisfitOf(high), kNone);
}

TEST(StoreExportTest, FailoverNamesOtherLocationsOfTheExport) {
  const auto e =
      ParseExport("/a=/srv,failover=one.example:/a+192.0.2.1:7:/b/c,failover=[2001:db8::1]:7:/");
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->failover,
            (std::vector<FailoverLocation>{
                {"one.example", "/a"}, {"192.0.2.1:7", "/b/c"}, {"[2001:db8::1]:7", "/"}}));
  for (const char* wrong :
       {"", "one.example", "one.example:", ":/a", "one.example:a", "one.example:/a//b",
        "one.example:/a/..", "one.example:70000:/a", "one.example:0:/a", "one.example:/a+",
        "a/b:/c", "a:/1+a:/2+a:/3+a:/4+a:/5+a:/6+a:/7+a:/8+a:/9"}) {
    EXPECT_FALSE(ParseExport(std::string("/a=/srv,failover=") + wrong).ok()) << wrong;
  }
}

TEST(StoreExportTest, CertsNamesTheCertificatesOfClients) {
  using enum Export::Misfit;
  const auto e = ParseExport("/a=/srv,certs=One.example+*.two.example,certs=192.0.2.7");
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->xprtsec, kXprtsecMtls);
  for (const char* name : {"one.example", "ONE.example", "x.two.example", "192.0.2.7"}) {
    EXPECT_EQ(e->MisfitOf(Encrypted({"other", name})), kNone) << name;
  }
  for (const char* name : {"two.example", "x.y.two.example", ".two.example", "xone.example",
                           "one.example.org", "*.two.example.org", "192.0.2.70"}) {
    EXPECT_EQ(e->MisfitOf(Encrypted({name})), kCertificate) << name;
  }
  EXPECT_EQ(e->Admission(Encrypted({"two.example"})), wire::DafsStatus::kAcces);
  EXPECT_EQ(e->Admission(Encrypted()), wire::DafsStatus::kWrongSec);
  EXPECT_EQ(e->MisfitOf(Encrypted()), kNeedsCertificate);
  EXPECT_EQ(e->MisfitOf(From("192.0.2.1")), kNeedsTls);
  EXPECT_FALSE(ParseExport("/a=/srv,certs=a,xprtsec=tls:mtls").ok());
  EXPECT_TRUE(ParseExport("/a=/srv,xprtsec=mtls,certs=a").ok());
}

TEST(StoreExportTest, ProtectionNeedsCertificatesOfTheServer) {
  const auto check = [](const char* text, const dat::TlsOptions& tls) {
    return std::string(CheckProtection({*ParseExport(text)}, tls, false).message());
  };
  const dat::TlsOptions none = {.is_server = true};
  const dat::TlsOptions own = {.is_server = true, .cert_file = "/c", .key_file = "/k"};
  dat::TlsOptions both = own;
  both.ca_file = "/ca";
  EXPECT_EQ(check("/a=/srv", none), "");
  EXPECT_EQ(check("/a=/srv,xprtsec=none:tls", none), "");
  EXPECT_THAT(check("/a=/srv,xprtsec=tls", none), HasSubstr("export /a=/srv: xprtsec=tls needs"));
  EXPECT_EQ(check("/a=/srv,xprtsec=tls", own), "");
  EXPECT_THAT(check("/a=/srv,certs=x", own), HasSubstr("--tls-ca"));
  EXPECT_EQ(check("/a=/srv,certs=x", both), "");
}

Peer Principal(const char* name, bool tls = false) {
  Peer peer = tls ? Encrypted() : From("192.0.2.1", false);
  peer.reserved_port = false;  // proves nothing beside the principal
  peer.principal = std::make_shared<const std::string>(name);
  return peer;
}

// Shows DAFS-6.2.2-06 for exports: sec= decides how clients authenticate.
TEST(StoreExportTest, SecDecidesHowClientsAuthenticate) {
  using enum Export::Misfit;
  struct Case {
    const char* option;
    Export::Misfit plain, kerberos, kerberos_tls;
    bool may;  // plain, before it has authenticated
  };
  const Case cases[] = {
      {"", kNone, kRefusesKerberos, kRefusesKerberos, false},
      {",sec=sys:krb5", kNone, kNone, kNone, true},
      {",sec=krb5", kNeedsKerberos, kNone, kNone, true},
      {",sec=krb5p", kNeedsKerberos, kNeedsTls, kNone, false},
      {",sec=krb5i", kNeedsKerberos, kNeedsTls, kNone, false},
      {",sec=krb5,principals=alice@R", kNeedsKerberos, kNone, kNone, true},
      {",sec=krb5,principals=bob@R+host/*@R", kNeedsKerberos, kPrincipal, kPrincipal, true},
      {",sec=krb5,clients=198.51.100.1", kAddress, kAddress, kAddress, false},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.option);
    const auto e = ParseExport(std::string("/a=/srv") + one.option);
    ASSERT_TRUE(e.ok()) << e.status();
    EXPECT_EQ(e->MisfitOf(From("192.0.2.1")), one.plain);
    EXPECT_EQ(e->MisfitOf(Principal("alice@R")), one.kerberos);
    EXPECT_EQ(e->MisfitOf(Principal("alice@R", true)), one.kerberos_tls);
    EXPECT_EQ(e->MayAdmitByKerberos(From("192.0.2.1")), one.may);
  }
  EXPECT_FALSE(ParseExport("/a=/srv,sec=krb5:ntlm").ok());
  EXPECT_FALSE(ParseExport("/a=/srv,principals=alice@R").ok());  // others prove none
  EXPECT_FALSE(ParseExport("/a=/srv,sec=krb5,principals=alice").ok());
  EXPECT_EQ(SecText(ParseExport("/a=/srv,sec=krb5p:sys")->sec), "sys:krb5p");
  const dat::TlsOptions none = {.is_server = true};
  EXPECT_FALSE(CheckProtection({*ParseExport("/a=/srv,sec=krb5")}, none, false).ok());
  EXPECT_TRUE(CheckProtection({*ParseExport("/a=/srv,sec=krb5")}, none, true).ok());
  EXPECT_FALSE(CheckProtection({*ParseExport("/a=/srv,sec=krb5p")}, none, true).ok());
  EXPECT_TRUE(CheckProtection({*ParseExport("/a=/srv,sec=sys:krb5")}, none, false).ok());
}

// Shows DAFS-6.2.2-06 likewise: a name without a realm is proven by a password, over TLS only.
TEST(StoreExportTest, SecTextTakesNamesWithAPassword) {
  using enum Export::Misfit;
  const auto misfit = [](const char* options, const Peer& peer) {
    const auto e = ParseExport(std::string("/a=/srv") + options);
    EXPECT_TRUE(e.ok()) << e.status();
    return e->MisfitOf(peer);
  };
  EXPECT_EQ(misfit(",sec=text", Principal("alice", true)), kNone);
  EXPECT_EQ(misfit(",sec=text", Principal("alice")), kRefusesPassword);
  EXPECT_EQ(misfit(",sec=text", From("192.0.2.1")), kNeedsPassword);
  EXPECT_EQ(misfit(",sec=text", Principal("alice@R", true)), kRefusesKerberos);
  EXPECT_EQ(misfit(",sec=sys:krb5:krb5p", Principal("alice", true)), kRefusesPassword);
  EXPECT_EQ(misfit(",sec=krb5:text,principals=alice@R+bob", Principal("alice", true)), kPrincipal);
  EXPECT_EQ(misfit(",sec=krb5:text,principals=alice@R+bob", Principal("bob", true)), kNone);
  EXPECT_EQ(misfit(",sec=krb5:text,principals=alice@R+bob", Principal("bob@R", true)), kPrincipal);
  EXPECT_EQ(misfit(",sec=krb5:text,principals=*@R", Principal("bob", true)), kPrincipal);
  EXPECT_TRUE(ParseExport("/a=/srv,sec=text")->MayAdmitByPassword(Encrypted()));
  EXPECT_FALSE(ParseExport("/a=/srv,sec=text")->MayAdmitByPassword(From("192.0.2.1")));
  EXPECT_FALSE(ParseExport("/a=/srv,sec=krb5")->MayAdmitByPassword(Encrypted()));
  EXPECT_FALSE(ParseExport("/a=/srv,sec=krb5,principals=alice").ok());
  EXPECT_FALSE(ParseExport("/a=/srv,sec=text,principals=al*").ok());
  const dat::TlsOptions none = {.is_server = true};
  const dat::TlsOptions own = {.is_server = true, .cert_file = "/c", .key_file = "/k"};
  EXPECT_FALSE(CheckProtection({*ParseExport("/a=/srv,sec=text")}, own, true, false).ok());
  EXPECT_FALSE(CheckProtection({*ParseExport("/a=/srv,sec=text")}, none, true, true).ok());
  EXPECT_TRUE(CheckProtection({*ParseExport("/a=/srv,sec=text")}, own, false, true).ok());
}

// A star does not reach over the parts of a principal.
TEST(StoreExportTest, PatternsOfPrincipals) {
  EXPECT_TRUE(PrincipalFits("alice@R", "alice@R"));
  EXPECT_TRUE(PrincipalFits("*@R", "alice@R"));
  EXPECT_TRUE(PrincipalFits("host/*.example@R", "host/a.b.example@R"));
  EXPECT_TRUE(PrincipalFits("a*b*c@R", "aXbYbZc@R"));
  EXPECT_TRUE(PrincipalFits("*@*", "alice@R"));
  for (const char* name : {"alice@S", "alice@RR", "xalice@R", "", "alice", "Alice@R"}) {
    EXPECT_FALSE(PrincipalFits("alice@R", name)) << name;
  }
  EXPECT_FALSE(PrincipalFits("*@R", "host/a@R"));
  EXPECT_FALSE(PrincipalFits("host/*@R", "host/a/b@R"));
  EXPECT_FALSE(PrincipalFits("*@R", "a\\@x@R"));
  EXPECT_FALSE(PrincipalFits("*@R", "a@x@R"));
  for (const char* bad : {"", "alice", "@R", "alice@", "a b@R"}) {
    EXPECT_FALSE(CheckPrincipalPattern(bad).ok()) << bad;
  }
}

TEST(StoreExportTest, PeersAreEqualIfTlsHasProvenTheSame) {
  EXPECT_FALSE(Principal("a@R") == Principal("b@R"));
  EXPECT_TRUE(Principal("a@R") == Principal("a@R"));
  EXPECT_TRUE(Encrypted({"a"}) == Encrypted({"a"}));
  EXPECT_FALSE(Encrypted({"a"}) == Encrypted({"b"}));
  EXPECT_FALSE(Encrypted({"a"}) == Encrypted());
  EXPECT_FALSE(Encrypted() == From("192.0.2.1"));
  EXPECT_TRUE(From("192.0.2.1") == From("192.0.2.1"));
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
  EXPECT_THAT(message("/a=/srv,xprtsec=ssl"), HasSubstr("none, tls and mtls"));
  EXPECT_THAT(message("/a=/srv,xprtsec="), HasSubstr("none, tls and mtls"));
  EXPECT_THAT(message("/a=/srv,certs="), HasSubstr("names of certificates"));
  EXPECT_THAT(message("/a=/srv,certs=a/b"), HasSubstr("not 'a/b'"));
  EXPECT_THAT(message("/a=/srv,certs=*"), HasSubstr("not '*'"));
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
