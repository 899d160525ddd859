// Against a scripted server, for what a correct one never sends. dnsmasq is in
// tests/mount/scenarios/mounting/names.py.
#include "client/names/dns_service.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"

namespace dafs::names {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint16_t kSrv = 33, kTxt = 16, kA = 1, kCname = 5;

std::string Two(size_t n) { return {static_cast<char>(n >> 8), static_cast<char>(n & 255)}; }

// A name in the format of DNS.
std::string Encoded(const std::string& name) {
  std::string bytes;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    bytes += static_cast<char>(end - begin);
    bytes += name.substr(begin, end - begin);
    begin = end + 1;
  }
  return bytes + '\0';
}

// One record. The owner is the name of the question.
std::string Record(uint16_t type, const std::string& data, const std::string& owner = "\xc0\x0c") {
  return owner + Two(type) + Two(1) + std::string("\0\0\0\x0a", 4) + Two(data.size()) + data;
}
std::string Srv(uint16_t priority, uint16_t weight, uint16_t port, const std::string& host) {
  return Record(kSrv, Two(priority) + Two(weight) + Two(port) + Encoded(host));
}
std::string Txt(const std::string& text) {
  return Record(kTxt, static_cast<char>(text.size()) + text);
}

struct Question {
  std::string id;
  uint16_t type = 0;
  std::string question;  // its bytes
};

std::string ReplyTo(const Question& q, const std::vector<std::string>& records,
                    const std::string& flags = "\x85\x80") {
  std::string reply = q.id + flags + Two(1) + Two(records.size()) + Two(0) + Two(0) + q.question;
  for (const std::string& record : records) reply += record;
  return reply;
}

// A server on UDP whose reply to each question the test makes; empty: none.
class ScriptedDns {
 public:
  using Answer = std::function<std::string(const Question&)>;

  explicit ScriptedDns(Answer answer)
      : answer_(std::move(answer)), fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    conf_.dns_servers = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    conf_.timeout = absl::Seconds(1);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedDns() {
    stops_ = true;
    thread_.join();
  }

  void SetAnswer(Answer answer) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }
  absl::StatusOr<std::vector<Located>> Ask(const std::string& name) { return AskDns(conf_, name); }

 private:
  void Serve() {
    while (!stops_) {
      pollfd wait = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, 5) <= 0) continue;
      std::array<char, 512> bytes;
      sockaddr_storage peer;
      socklen_t size = sizeof(peer);
      const ssize_t got = recvfrom(fd_.get(), bytes.data(), bytes.size(), 0,
                                   reinterpret_cast<sockaddr*>(&peer), &size);
      if (got < 17) continue;
      const std::string text(bytes.data(), static_cast<size_t>(got));
      Question q = {.id = text.substr(0, 2), .type = 0, .question = ""};
      const size_t end = text.find('\0', 12);
      q.question = text.substr(12, end + 5 - 12);
      q.type = static_cast<uint8_t>(text[end + 2]);
      std::string reply;
      {
        absl::MutexLock lock(&mutex_);
        reply = answer_(q);
      }
      if (reply.empty()) continue;
      sendto(fd_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&peer), size);
    }
  }

  absl::Mutex mutex_;
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  UniqueFd fd_;
  NamesConf conf_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

TEST(DnsServiceTest, OwnerIsTheNameInTheDomain) {
  EXPECT_EQ(*SrvName("projects", "example.com"), "_dafs._tcp.projects.example.com");
  EXPECT_EQ(*SrvName("projects.example.org", "example.com"), "_dafs._tcp.projects.example.org");
  EXPECT_EQ(*SrvName("projects.", "example.com"), "_dafs._tcp.projects");
  EXPECT_EQ(*SrvName("projects", ""), "_dafs._tcp.projects");
  for (const std::string& bad : {std::string("a b"), std::string("a..b"), std::string(64, 'a'),
                                 std::string("gr\xc3\xbc"), std::string(".")}) {
    EXPECT_FALSE(SrvName(bad, "").ok()) << bad;
  }
}

// Shows DAFS-A.1-01, DAFS-A.5-07, DAFS-E.8-03: RDMA-CM makes the service id of the port.
TEST(DnsServiceTest, LocationsAreInTheOrderOfTheirPriorityAndWeight) {
  ScriptedDns dns([](const Question& q) -> std::string {
    if (q.type == kSrv) {
      return ReplyTo(q, {Srv(2, 0, 3, "c.test"), Srv(1, 0, 2, "b.test"), Srv(1, 9, 1, "a.test")});
    }
    if (q.type == kTxt) return ReplyTo(q, {Txt("path=/x"), Txt("version=1.0"), Txt("else")});
    if (q.type == kA)
      return ReplyTo(q, {Record(kA, "\x7f\x01\x01\x01"), Record(kA, "\x7f\x01\x01\x02")});
    return ReplyTo(q, {});
  });
  const auto found = dns.Ask("projects.test");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Located& one = (*found)[i];
    EXPECT_EQ(one.location.host, std::string(1, static_cast<char>('a' + i)) + ".test");
    EXPECT_EQ(one.location.path, "/x");
    EXPECT_EQ(one.location.version, "1.0");
    const std::string port = std::to_string(i + 1);
    EXPECT_THAT(one.addresses, ElementsAre("127.1.1.1:" + port, "127.1.1.2:" + port));
  }
}

TEST(DnsServiceTest, NameWithoutRecordsIsUnknown) {
  ScriptedDns dns([](const Question& q) { return ReplyTo(q, {}, "\x85\x83"); });
  EXPECT_TRUE(absl::IsNotFound(dns.Ask("projects.test").status()));
  EXPECT_TRUE(absl::IsNotFound(dns.Ask("two words").status()));
}

TEST(DnsServiceTest, ForgedAndTruncatedRepliesAreNoAnswer) {
  const ScriptedDns::Answer kBad[] = {
      [](const Question& q) {  // another id
        Question other = q;
        other.id[0] = static_cast<char>(~other.id[0]);
        return ReplyTo(other, {Srv(1, 1, 1, "evil.test")});
      },
      [](const Question& q) {
        const std::string good = ReplyTo(q, {Srv(1, 1, 1, "a.test")});
        return good.substr(0, good.size() - 5);
      },
      [](const Question&) { return std::string(40, '\xff'); },
      [](const Question& q) {  // records that are not there
        return q.id + "\x85\x80" + Two(1) + Two(60000) + Two(0) + Two(0) + q.question;
      },
  };
  ScriptedDns dns(kBad[0]);
  for (const ScriptedDns::Answer& bad : kBad) {
    dns.SetAnswer(bad);
    EXPECT_TRUE(absl::IsUnavailable(dns.Ask("projects.test").status())) << &bad - kBad;
  }
}

TEST(DnsServiceTest, LoopOfAliasesIsUnknown) {
  ScriptedDns dns([](const Question& q) {
    const std::string to = Encoded("b.test");
    return ReplyTo(q, {Record(kCname, to), Record(kCname, "\xc0\x0c", to)});
  });
  EXPECT_TRUE(absl::IsNotFound(dns.Ask("projects.test").status()));
}

TEST(DnsServiceTest, WrongRecordsAreNamed) {
  ScriptedDns dns([](const Question&) { return std::string(); });
  const auto why = [&](std::vector<std::string> srv, std::vector<std::string> txt) {
    dns.SetAnswer([srv = std::move(srv), txt = std::move(txt)](const Question& q) {
      return ReplyTo(q, q.type == kTxt ? txt : srv);
    });
    return std::string(dns.Ask("projects.test").status().message());
  };
  const std::string good = Srv(1, 1, 1, "a.test");
  EXPECT_THAT(why({Srv(1, 1, 0, "a.test")}, {}),
              HasSubstr("SRV _dafs._tcp.projects.test: not a host and port"));
  EXPECT_FALSE(why({Srv(1, 1, 1, "a$b.test")}, {}).empty());
  EXPECT_THAT(why({good}, {Txt("path=/x/../y")}),
              HasSubstr("TXT _dafs._tcp.projects.test: path=: the path must not"));
  EXPECT_THAT(why({good}, {Txt("path=/x"), Txt("path=/y")}), HasSubstr("more than one path="));
}

}  // namespace
}  // namespace dafs::names
