#include "fuse/options/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <string>
#include <vector>

namespace dafs::fuse {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Options> Parse(std::vector<std::string> words, Caller caller = {}) {
  return ParseOptions(words, caller);
}

absl::StatusOr<Options> ParseList(const std::string& list) {
  return Parse({"server:/data", "/mnt", "-o", list});
}

TEST(ParseOptions, DefaultsAreThoseOfTheHelpText) {
  absl::StatusOr<Options> o = Parse({"server:/data", "/mnt"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->source.host, "server");
  EXPECT_EQ(o->mount_point, "/mnt");
  EXPECT_EQ(o->port, 20149);
  EXPECT_EQ(o->mount_flags, 0u);
  EXPECT_EQ(o->proto, Proto::kAuto);
  EXPECT_EQ(o->nconnect, 1u);
  EXPECT_EQ(o->rsize, 1048576u);
  EXPECT_EQ(o->wsize, 1048576u);
  EXPECT_FALSE(o->soft);
  EXPECT_EQ(o->timeo, absl::Seconds(60));
  EXPECT_EQ(o->cache.reg_min, absl::Seconds(3));
  EXPECT_EQ(o->cache.reg_max, absl::Seconds(60));
  EXPECT_EQ(o->cache.dir_min, absl::Seconds(30));
  EXPECT_EQ(o->cache.dir_max, absl::Seconds(60));
  EXPECT_EQ(o->lookup_cache, LookupCache::kPositive);
  EXPECT_TRUE(o->allow_other);
  EXPECT_TRUE(o->default_permissions);
  EXPECT_TRUE(o->acl);
  EXPECT_FALSE(o->checksum);
  EXPECT_FALSE(o->crc);
  EXPECT_EQ(o->idle_release, absl::Seconds(60));
  EXPECT_TRUE(WritesBehind(*o));
  EXPECT_EQ(o->spin, absl::Microseconds(50));
  EXPECT_EQ(o->io_uring, IoUring::kOff);
  EXPECT_FALSE(o->foreground || o->verbose || o->fake || o->remount);
}

TEST(ParseOptions, AGuardianStaysBesideAMountOfRootInTheBackground) {
  auto o = Parse({"server:/data", "/mnt"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(o->guardian);
  EXPECT_FALSE(Parse({"server:/data", "/mnt", "-f"})->guardian);
  EXPECT_TRUE(Parse({"server:/data", "/mnt", "-f", "-o", "guardian"})->guardian);
  EXPECT_FALSE(Parse({"server:/data", "/mnt", "-o", "noguardian"})->guardian);
  EXPECT_FALSE(Parse({"server:/data", "/mnt"}, {.root = false, .by_mount8 = false})->guardian);
}

TEST(ParseOptions, OtherUsersAreDeniedByDefaultWithoutRoot) {
  Caller user{.root = false, .by_mount8 = false};
  absl::StatusOr<Options> o = Parse({"server:/data", "/mnt"}, user);
  ASSERT_TRUE(o.ok());
  EXPECT_FALSE(o->allow_other);
  EXPECT_FALSE(o->default_permissions);
  o = Parse({"server:/data", "/mnt", "-o", "allow_other,default_permissions"}, user);
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->allow_other);
  EXPECT_TRUE(o->default_permissions);
}

TEST(ParseOptions, AddressesAreSeparatedByPlus) {
  absl::StatusOr<Options> o = ParseList("addresses=files2+192.0.2.1:3+[::1]:4");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->addresses, (std::vector<std::string>{"files2", "192.0.2.1:3", "[::1]:4"}));
}

TEST(ParseOptions, EachOptionSetsItsField) {
  absl::StatusOr<Options> o = ParseList(
      "ro,proto=tcp,port=1234,nconnect=4,rsize=65536,wsize=32768,soft,timeo=15,acregmin=1,"
      "acregmax=2,acdirmin=3,acdirmax=4,lookupcache=none,checksum,msgsize=1024,buffers=8,"
      "byteorder=big,spin=7,cpu_latency=2,rdma_read_channel,io_uring=auto,windows=on,"
      "clientid=node-1,fence_id=rack.2_node-1,noresvport,idle_release=5,crc,persist_locks");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->mount_flags, static_cast<unsigned long>(MS_RDONLY));
  EXPECT_EQ(o->proto, Proto::kTcp);
  EXPECT_EQ(o->port, 1234);
  EXPECT_TRUE(o->persist_locks);
  EXPECT_FALSE(ParseList("persist_locks,nopersist_locks")->persist_locks);
  EXPECT_EQ(o->nconnect, 4u);
  EXPECT_EQ(o->client_id, "node-1");
  EXPECT_EQ(o->fence_id, "rack.2_node-1");
  EXPECT_FALSE(o->reserved_port);
  EXPECT_TRUE(ParseList("noresvport,resvport")->reserved_port);
  EXPECT_EQ(o->rsize, 65536u);
  EXPECT_EQ(o->wsize, 32768u);
  EXPECT_TRUE(o->soft);
  EXPECT_EQ(o->timeo, absl::Milliseconds(1500));
  EXPECT_EQ(o->cache.reg_min, absl::Seconds(1));
  EXPECT_EQ(o->cache.reg_max, absl::Seconds(2));
  EXPECT_EQ(o->cache.dir_min, absl::Seconds(3));
  EXPECT_EQ(o->cache.dir_max, absl::Seconds(4));
  EXPECT_EQ(o->lookup_cache, LookupCache::kNone);
  EXPECT_TRUE(o->checksum);
  EXPECT_TRUE(o->crc);
  EXPECT_EQ(o->idle_release, absl::Seconds(5));
  EXPECT_EQ(o->byte_order, MessageOrder::kBig);
  EXPECT_EQ(o->msgsize, 1024u);
  EXPECT_EQ(o->buffers, 8u);
  EXPECT_EQ(o->spin, absl::Microseconds(7));
  EXPECT_EQ(o->cpu_latency.longest, absl::Microseconds(2));
  EXPECT_TRUE(o->rdma_read_channel);
  EXPECT_EQ(o->io_uring, IoUring::kAuto);
  EXPECT_EQ(ParseList("io_uring=on")->io_uring, IoUring::kOn);
  EXPECT_EQ(ParseList("io_uring=on,io_uring=off")->io_uring, IoUring::kOff);
  EXPECT_EQ(o->windows, Windows::kOn);
  EXPECT_EQ(ParseList("windows=off")->windows, Windows::kOff);
  EXPECT_EQ(ParseList("windows=auto")->windows, Windows::kAuto);
  EXPECT_EQ(ParseList("ro")->windows, Windows::kAuto);
  EXPECT_FALSE(ParseList("windows=yes").ok());
  EXPECT_EQ(ParseList("spin=0")->spin, absl::ZeroDuration());
}

TEST(ParseOptions, NoacAndActimeoSetAllCacheTimes) {
  absl::StatusOr<Options> o = ParseList("noac");
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->cache.dir_max, absl::ZeroDuration());
  EXPECT_EQ(o->cache.reg_min, absl::ZeroDuration());
  o = ParseList("actimeo=7");
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->cache.reg_min, absl::Seconds(7));
  EXPECT_EQ(o->cache.reg_max, absl::Seconds(7));
  EXPECT_EQ(o->cache.dir_min, absl::Seconds(7));
  EXPECT_EQ(o->cache.dir_max, absl::Seconds(7));
}

TEST(ParseOptions, TransferSizesAreRoundedAndClamped) {
  EXPECT_EQ(ParseList("rsize=1")->rsize, 4096u);
  EXPECT_EQ(ParseList("rsize=5000")->rsize, 4096u);
  EXPECT_EQ(ParseList("wsize=4294967295")->wsize, 1048576u);
}

TEST(ParseOptions, TheLastOfTwoConflictingOptionsWins) {
  EXPECT_EQ(ParseList("ro,rw")->mount_flags, 0u);
  EXPECT_EQ(ParseList("rw,ro")->mount_flags, static_cast<unsigned long>(MS_RDONLY));
  EXPECT_FALSE(ParseList("soft,hard")->soft);
  EXPECT_EQ(ParseList("noac,ac")->cache.reg_min, absl::Seconds(3));
}

TEST(ParseOptions, AcceptsOptionsThatMount8AndFstabPass) {
  absl::StatusOr<Options> o = ParseList(
      "rw,noexec,nosuid,nodev,user=fred,_netdev,nofail,noauto,x-systemd.automount,"
      "X-mount.mkdir,comment=backup,relatime,defaults,,");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->mount_flags,
            static_cast<unsigned long>(MS_NOEXEC | MS_NOSUID | MS_NODEV | MS_RELATIME));
  EXPECT_EQ(ParseList("user")->mount_flags,
            static_cast<unsigned long>(MS_NOEXEC | MS_NOSUID | MS_NODEV));
}

TEST(ParseOptions, LocalLockOptionsAreThoseOfNfs) {
  EXPECT_EQ(ParseList("rw")->local_lock, LocalLock::kNone);
  EXPECT_TRUE(PosixAtServer(*ParseList("lock")) && FlockAtServer(*ParseList("lock")));
  EXPECT_FALSE(PosixAtServer(*ParseList("nolock")) || FlockAtServer(*ParseList("nolock")));
  EXPECT_FALSE(PosixAtServer(*ParseList("local_lock=posix")));
  EXPECT_TRUE(FlockAtServer(*ParseList("local_lock=posix")));
  EXPECT_TRUE(PosixAtServer(*ParseList("local_lock=flock")));
  EXPECT_FALSE(FlockAtServer(*ParseList("local_lock=flock")));
  EXPECT_EQ(ParseList("nolock,local_lock=none")->local_lock, LocalLock::kNone);
  EXPECT_EQ(ParseList("local_lock=all")->local_lock, LocalLock::kAll);
}

TEST(ParseOptions, RefusesEachBadOptionByName) {
  const std::string long_host = "addresses=" + std::string(256, 'a');
  const std::pair<const char*, const char*> cases[] = {
      {"bogus", "bogus"},
      {"proto=udp", "proto=udp"},
      {"port=0", "port=0"},
      {"port=70000", "port=70000"},
      {"port=", "port="},
      {"nconnect=0", "nconnect=0"},
      {"nconnect=17", "nconnect=17"},
      {"clientid=", "clientid="},
      {"clientid=a/b", "clientid=a/b"},
      {"fence_id=", "fence_id="},
      {"fence_id=a b", "fence_id=a b"},
      {"rsize=0", "rsize=0"},
      {"rsize=1k", "rsize=1k"},
      {"wsize=-1", "wsize=-1"},
      {"timeo=0", "timeo=0"},
      {"actimeo=x", "actimeo=x"},
      {"acregmin=90", "ac*"},
      {"msgsize=1023", "msgsize=1023"},
      {"buffers=1", "buffers=1"},
      {"idle_release=86401", "idle_release=86401"},
      {"spin=10001", "spin=10001"},
      {"cpu_latency=soon", "cpu_latency=soon"},
      {"rdmadev=", "rdmadev="},
      {"addresses=", "addresses="},
      {"addresses=a++b", "addresses=a++b"},
      {"addresses=a+", "addresses=a+"},
      {"addresses=::1", "an IPv6 address goes in brackets"},
      {"addresses=a:70000", "not a number up to 65535"},
      {long_host.c_str(), "expected hosts"},
      {"addresses=a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a", "at most 16"},
      {"proto=tcp,rdmadev=siw0", "rdmadev=siw0"},
      {"xprtsec=ssl", "xprtsec=ssl"},
      {"xprtsec=tls,tlsca=ca.pem", "tlsca=ca.pem: expected an absolute path"},
      {"tlsca=/ca", "tlsca=: needs xprtsec=tls or xprtsec=mtls"},
      {"xprtsec=mtls", "needs tlscert= and tlskey="},
      {"xprtsec=mtls,tlscert=/c", "needs tlscert= and tlskey="},
      {"xprtsec=tls,tlscert=/c,tlskey=/k", "tlscert=: needs xprtsec=mtls"},
      {"tlskey=/k", "tlskey=: needs xprtsec=mtls"},
      {"sec=text,xprtsec=tls", "sec=text: needs credentials="},
      {"sec=text,credentials=/f", "needs xprtsec=tls or xprtsec=mtls"},
      {"credentials=/f", "credentials=: needs sec=text"},
      {"sec=krb5host,credentials=/f", "credentials=: needs sec=text"},
      {"sec=text,credentials=/f,xprtsec=tls,keytab=/k", "keytab=: needs sec=krb5host or sec=krb5"},
      {"sec=text,credentials=f,xprtsec=tls", "expected an absolute path"},
      {"xprtsec=tls,proto=rdma", "RDMA devices have no TLS"},
      {"xprtsec=tls,rdmadev=siw0", "RDMA devices have no TLS"},
      {"keytab=/k", "keytab=: needs sec=krb5host or sec=krb5"},
      {"ccache=FILE:/c", "ccache=: needs sec=krb5"},
      {"sec=krb5,ccache=", "ccache="},
      {"sec=krb5,guardian", "guardian: not allowed with sec=krb5"},
      {"sec=krb5,nodefault_permissions", "nodefault_permissions: not allowed with sec=krb5"},
      {"sec=krb5p,proto=rdma", "RDMA devices have no TLS"},
      {"max_user_sessions=0", "max_user_sessions=0"},
      {"id_domain=", "id_domain=: expected a domain, such as example.com"},
      {"id_domain=a b", "expected a domain"},
      {"id_domain=@example.com", "expected a domain"},
      {"id_domain=example..com", "expected a domain"},
      {"id_domain=-a.com", "expected a domain"},
      {"lookupcache=some", "lookupcache=some"},
      {"local_lock=some", "local_lock=some"},
      {"byteorder=middle", "byteorder=middle"},
      {"soft=1", "soft=1"},
      {"io_uring=yes", "io_uring=yes"},
  };
  for (auto [list, named] : cases) {
    absl::StatusOr<Options> o = ParseList(list);
    ASSERT_EQ(o.status().code(), absl::StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(std::string(o.status().message()), HasSubstr("bad option ")) << list;
    EXPECT_THAT(std::string(o.status().message()), HasSubstr(named)) << list;
  }
}

TEST(ParseOptions, TlsNeedsItsFiles) {
  absl::StatusOr<Options> o = ParseList("xprtsec=mtls,tlsca=/a,tlscert=/b,tlskey=/c");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->xprtsec, Xprtsec::kMtls);
  EXPECT_EQ(o->tls_ca, "/a");
  EXPECT_EQ(o->tls_cert, "/b");
  EXPECT_EQ(o->tls_key, "/c");
  ASSERT_TRUE(ParseList("xprtsec=tls").ok());
  EXPECT_EQ(ParseList("")->xprtsec, Xprtsec::kNone);
}

// Every user of such a mount is one user of the server.
TEST(ParseOptions, MountWithAPasswordIsForTheUserWhoMounts) {
  const std::string text = "sec=text,credentials=/f,xprtsec=tls";
  EXPECT_TRUE(ParseList("")->allow_other);
  EXPECT_FALSE(ParseList(text)->allow_other);
  EXPECT_TRUE(ParseList(text + ",allow_other")->allow_other);
  EXPECT_FALSE(ParseList(text + ",noallow_other")->allow_other);
}

TEST(ParseOptions, SessionOfEachUserHasNoPromisesAndNoGuardian) {
  absl::StatusOr<Options> o = ParseList("sec=krb5,ccache=FILE:/c/%{uid},max_user_sessions=9");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->sec, Sec::kKrb5);
  EXPECT_EQ(o->ccache, "FILE:/c/%{uid}");
  EXPECT_EQ(o->max_user_sessions, 9u);
  EXPECT_FALSE(TakesPromises(*o));
  EXPECT_FALSE(TakesDelegations(*o));
  EXPECT_FALSE(o->guardian);
  EXPECT_TRUE(ParseList("")->guardian);
}

TEST(ParseOptions, IdDomainIsANameOfTheDns) {
  EXPECT_EQ(ParseList("")->id_domain, "");
  for (const char* domain : {"example.com", "localdomain", "a-1.b_2.Example"}) {
    absl::StatusOr<Options> o = ParseList("id_domain=" + std::string(domain));
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->id_domain, domain);
  }
}

TEST(ParseOptions, Krb5pAndKrb5iAreKrb5WithTls) {
  for (const char* list : {"sec=krb5p", "sec=krb5i"}) {
    absl::StatusOr<Options> o = ParseList(list);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->sec, Sec::kKrb5);
    EXPECT_EQ(o->xprtsec, Xprtsec::kTls);
  }
  EXPECT_EQ(ParseList("sec=krb5p,xprtsec=mtls,tlscert=/b,tlskey=/c")->xprtsec, Xprtsec::kMtls);
}

TEST(ParseOptions, SloppyIgnoresUnknownOptionsOnly) {
  EXPECT_TRUE(Parse({"server:/data", "/mnt", "-s", "-o", "bogus,other=1"}).ok());
  EXPECT_FALSE(Parse({"server:/data", "/mnt", "-s", "-o", "port=x"}).ok());
}

TEST(ParseOptions, FlagFMeansForegroundButFakeFromMount8) {
  absl::StatusOr<Options> o = Parse({"server:/data", "/mnt", "-f"});
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->foreground);
  EXPECT_FALSE(o->fake);
  o = Parse({"server:/data", "/mnt", "-f", "-o", "rw"}, {.root = true, .by_mount8 = true});
  ASSERT_TRUE(o.ok());
  EXPECT_FALSE(o->foreground);
  EXPECT_TRUE(o->fake);
}

TEST(ParseOptions, FlagsCanBeCombinedAndPlacedAnywhere) {
  absl::StatusOr<Options> o =
      Parse({"-fv", "-oro", "server:/data", "-n", "/mnt", "-t", "dafs", "-osoft,port=5"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(o->foreground);
  EXPECT_TRUE(o->verbose);
  EXPECT_TRUE(o->soft);
  EXPECT_EQ(o->port, 5);
  EXPECT_EQ(o->mount_flags, static_cast<unsigned long>(MS_RDONLY));
  EXPECT_EQ(Parse({"server:/data", "/mnt", "-r"})->mount_flags,
            static_cast<unsigned long>(MS_RDONLY));
  EXPECT_EQ(Parse({"server:/data", "--", "-odd"})->mount_point, "-odd");
}

TEST(ParseOptions, RefusesWrongNumbersOfArgumentsAndUnknownFlags) {
  EXPECT_THAT(std::string(Parse({}).status().message()), HasSubstr("usage:"));
  EXPECT_THAT(std::string(Parse({"server:/data"}).status().message()), HasSubstr("usage:"));
  EXPECT_THAT(std::string(Parse({"server:/data", "/mnt", "/third"}).status().message()),
              HasSubstr("/third"));
  EXPECT_THAT(std::string(Parse({"server:/data", "/mnt", "-x"}).status().message()),
              HasSubstr("-x"));
  EXPECT_THAT(std::string(Parse({"server:/data", "/mnt", "-o"}).status().message()),
              HasSubstr("-o"));
  EXPECT_THAT(std::string(Parse({"server:/data", "/mnt", "-N", "1"}).status().message()),
              HasSubstr("-N"));
}

TEST(ParseOptions, PortOfSourceAndOptionMustAgree) {
  EXPECT_EQ(Parse({"server:5:/data", "/mnt"})->port, 5);
  EXPECT_EQ(Parse({"server:5:/data", "/mnt", "-o", "port=5"})->port, 5);
  EXPECT_FALSE(Parse({"server:5:/data", "/mnt", "-o", "port=6"}).ok());
}

TEST(ParseOptions, HelpAndVersionNeedNoOtherArguments) {
  EXPECT_TRUE(Parse({"--help"})->help);
  EXPECT_TRUE(Parse({"-V"})->version);
}

TEST(ParseOptions, RemountAcceptsAnySourceAndKernelOptions) {
  absl::StatusOr<Options> o =
      Parse({"none", "/mnt", "-o", "remount,ro,user_id=0,max_read=1048576", "-o", "noac"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(o->remount);
  EXPECT_EQ(o->mount_flags, static_cast<unsigned long>(MS_RDONLY));
  EXPECT_THAT(o->list,
              testing::ElementsAre("remount", "ro", "user_id=0", "max_read=1048576", "noac"));
  EXPECT_FALSE(ParseList("user_id=0").ok());
}

TEST(ParseOptions, RetryIsTwoMinutesInTheForegroundAndAWeekInTheBackground) {
  EXPECT_EQ(RetryFor(*ParseList("rw")), absl::Minutes(2));
  EXPECT_EQ(RetryFor(*ParseList("bg")), absl::Minutes(10000));
  EXPECT_EQ(RetryFor(*ParseList("bg,fg")), absl::Minutes(2));
  EXPECT_EQ(RetryFor(*ParseList("bg,retry=0")), absl::ZeroDuration());
  EXPECT_EQ(RetryFor(*ParseList("retry=7")), absl::Minutes(7));
  EXPECT_FALSE(ParseList("retry=-1").ok());
  EXPECT_FALSE(ParseList("retry=soon").ok());
}

TEST(ParseOptions, NowriteBehindAndNoacDisableWriteBehind) {
  EXPECT_TRUE(WritesBehind(*ParseList("write_behind")));
  EXPECT_FALSE(WritesBehind(*ParseList("nowrite_behind")));
  EXPECT_FALSE(WritesBehind(*ParseList("noac")));
  EXPECT_FALSE(WritesBehind(*ParseList("noac,write_behind")));
}

TEST(ParseOptions, NocallbacksAndNoacDisablePromises) {
  EXPECT_TRUE(TakesPromises(*ParseList("rw")));
  EXPECT_FALSE(TakesPromises(*ParseList("nocallbacks")));
  EXPECT_TRUE(TakesPromises(*ParseList("nocallbacks,callbacks")));
  EXPECT_FALSE(TakesPromises(*ParseList("noac")));
  EXPECT_FALSE(TakesPromises(*ParseList("callbacks,actimeo=0")));
  EXPECT_TRUE(TakesPromises(*ParseList("actimeo=1")));
}

TEST(ParseOptions, DelegationsNeedPromises) {
  EXPECT_TRUE(TakesDelegations(*ParseList("rw")));
  EXPECT_FALSE(TakesDelegations(*ParseList("nodelegations")));
  EXPECT_TRUE(TakesDelegations(*ParseList("nodelegations,delegations")));
  EXPECT_FALSE(TakesDelegations(*ParseList("nocallbacks")));
  EXPECT_FALSE(TakesDelegations(*ParseList("noac")));
}

TEST(ParseOptions, TheLastOfAclAndNoaclWins) {
  EXPECT_FALSE(ParseList("noacl")->acl);
  EXPECT_TRUE(ParseList("noacl,acl")->acl);
}

}  // namespace
}  // namespace dafs::fuse
