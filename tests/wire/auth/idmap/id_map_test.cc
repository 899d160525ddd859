// IdMap with libnfsidmap, the users of /etc/passwd and configurations of its own.
#include "wire/auth/idmap/id_map.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/wire/auth/idmap/id_map_fixture.h"

namespace dafs::auth {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

constexpr uint32_t kNoUser = 3999999999;

class IdMapTest : public IdMapFixture {
 protected:
  IdMapOptions With(const std::string& config, const std::string& domain = "") const {
    return {.helper = DAFS_IDMAP, .domain = domain, .config = File("idmapd.conf", config)};
  }
  IdMapOptions WithFake(const std::string& script) const {
    return {.helper = Script(script), .domain = "example.org", .config = "/nowhere"};
  }
  static void ExpectId(IdMap& map, IdKind kind, const std::string& name, uint32_t id) {
    const auto mapped = map.Id(kind, name);
    ASSERT_TRUE(mapped.ok()) << name << ": " << mapped.status();
    EXPECT_EQ(*mapped, id) << name;
  }
  static void ExpectName(IdMap& map, IdKind kind, uint32_t id, const std::string& name) {
    const auto mapped = map.Name(kind, id);
    ASSERT_TRUE(mapped.ok()) << id << ": " << mapped.status();
    EXPECT_EQ(*mapped, name);
  }
  static void ExpectNone(IdMap& map, IdKind kind, const std::string& name) {
    EXPECT_EQ(map.Id(kind, name).status().code(), absl::StatusCode::kNotFound) << name;
  }
};

constexpr char kExampleOrg[] = "[General]\nDomain = example.org\n";

TEST_F(IdMapTest, UsersAndGroupsHaveTheDomainOfTheConfiguration) {
  IdMap map(With(kExampleOrg));
  ExpectId(map, IdKind::kUser, "root@example.org", 0);
  ExpectId(map, IdKind::kUser, "daemon@example.org", 1);
  ExpectId(map, IdKind::kUser, "nobody@EXAMPLE.org", 65534);
  ExpectId(map, IdKind::kGroup, "nogroup@example.org", 65534);
  ExpectName(map, IdKind::kUser, 1, "daemon@example.org");
  ExpectName(map, IdKind::kGroup, 65534, "nogroup@example.org");
}

TEST_F(IdMapTest, UnknownNamesAndNamesOfAnotherDomainAreNotFound) {
  IdMap map(With(kExampleOrg));
  ExpectNone(map, IdKind::kUser, "nosuch@example.org");
  ExpectNone(map, IdKind::kGroup, "nosuch@example.org");
  ExpectNone(map, IdKind::kUser, "root@other.net");
  ExpectNone(map, IdKind::kGroup, "root@other.net");
  ExpectNone(map, IdKind::kUser, "root@sub.example.org");
  ExpectNone(map, IdKind::kUser, "root@other.net@example.org");
  ExpectNone(map, IdKind::kUser, "12@example.org");
  for (const char* no_name : {"root", "0", "", "root@"}) {
    ExpectNone(map, IdKind::kUser, no_name);
  }
  const auto name = map.Name(IdKind::kUser, kNoUser);
  EXPECT_EQ(name.status().code(), absl::StatusCode::kNotFound) << name.status();
}

TEST_F(IdMapTest, DomainOfTheOptionsOverridesEachFileOfTheConfiguration) {
  const IdMapOptions options = With("[general]\ndomain=example.org # text\n", "other.net");
  File("idmapd.conf.d/1.conf", "[General]\nDomain = third.net\n");
  IdMap map(options);
  ExpectName(map, IdKind::kUser, 0, "root@other.net");
  ExpectName(map, IdKind::kGroup, 0, "root@other.net");
  ExpectId(map, IdKind::kUser, "root@other.net", 0);
  ExpectNone(map, IdKind::kUser, "root@example.org");
  ExpectNone(map, IdKind::kGroup, "root@third.net");
}

TEST_F(IdMapTest, DomainOfTheOptionsNeedsNoConfiguration) {
  IdMap map({.helper = DAFS_IDMAP, .domain = "example.org", .config = "/nowhere/idmapd.conf"});
  ExpectId(map, IdKind::kUser, "daemon@example.org", 1);
  ExpectName(map, IdKind::kUser, 1, "daemon@example.org");
  ExpectNone(map, IdKind::kUser, "nosuch@example.org");
}

// Debian's file has these.
TEST_F(IdMapTest, FallbackUserOfTheConfigurationHasNoEffect) {
  IdMap map(
      With(absl::StrCat(kExampleOrg, "[Mapping]\nNobody-User = games\nNobody-Group = nogroup\n")));
  ExpectNone(map, IdKind::kUser, "nosuch@example.org");
  ExpectNone(map, IdKind::kGroup, "root@other.net");
  ExpectId(map, IdKind::kUser, "daemon@example.org", 1);
  EXPECT_EQ(map.Name(IdKind::kUser, kNoUser).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(map.User("nosuch@EXAMPLE.ORG").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(IdMapTest, PrincipalsAreThoseOfTheRealmOrTheStaticList) {
  IdMap map(With(absl::StrCat(kExampleOrg, "[Translation]\nGSS-Methods = static,nsswitch\n",
                              "[Static]\nalice@DAFS.TEST = daemon\nbob@DAFS.TEST = nosuch\n")));
  const auto alice = map.User("alice@DAFS.TEST");
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(alice->uid, 1u);
  EXPECT_EQ(alice->gid, 1u);
  EXPECT_THAT(alice->groups, Contains(1u));
  const auto daemon = map.User("daemon@EXAMPLE.ORG");
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(daemon->uid, 1u);
  for (const char* principal : {"bob@DAFS.TEST", "daemon@OTHER.NET", "nosuch@EXAMPLE.ORG",
                                "dafs/daemon@EXAMPLE.ORG", "daemon", "daemon@X@EXAMPLE.ORG"}) {
    EXPECT_EQ(map.User(principal).status().code(), absl::StatusCode::kNotFound) << principal;
  }
  // The static list is of principals only.
  ExpectNone(map, IdKind::kUser, "alice@DAFS.TEST");
  ExpectName(map, IdKind::kUser, 1, "daemon@example.org");
}

TEST_F(IdMapTest, ConfigurationThatTheLibraryRefusesIsNamed) {
  IdMap map(With(absl::StrCat(kExampleOrg, "[Translation]\nMethod = nosuch\n")));
  const auto id = map.Id(IdKind::kUser, "root@example.org");
  EXPECT_EQ(id.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("idmapd.conf"));
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("'nosuch', is not available"));
  With(kExampleOrg);
  map.Forget();
  ExpectId(map, IdKind::kUser, "root@example.org", 0);
}

TEST_F(IdMapTest, AnswersAreKeptUntilForgotten) {
  IdMap map(With(kExampleOrg));
  EXPECT_FALSE(map.KeptId(IdKind::kUser, "daemon@example.org").has_value());
  EXPECT_FALSE(map.KeptName(IdKind::kUser, 1).has_value());
  ExpectId(map, IdKind::kUser, "daemon@example.org", 1);
  ExpectName(map, IdKind::kUser, 1, "daemon@example.org");
  ExpectNone(map, IdKind::kGroup, "nosuch@example.org");
  With("[General]\nDomain = other.net\n");
  ASSERT_TRUE(map.KeptId(IdKind::kUser, "daemon@example.org").has_value());
  EXPECT_EQ(**map.KeptId(IdKind::kUser, "daemon@example.org"), 1u);
  EXPECT_FALSE(map.KeptId(IdKind::kGroup, "daemon@example.org").has_value());
  EXPECT_EQ(**map.KeptName(IdKind::kUser, 1), "daemon@example.org");
  EXPECT_FALSE(map.KeptId(IdKind::kGroup, "nosuch@example.org")->ok());
  map.Forget();
  EXPECT_FALSE(map.KeptName(IdKind::kUser, 1).has_value());
  ExpectName(map, IdKind::kUser, 1, "daemon@other.net");
  ExpectNone(map, IdKind::kUser, "daemon@example.org");
}

TEST_F(IdMapTest, AskCallsBackWithTheAnswerKept) {
  IdMap map(With(kExampleOrg));
  absl::Notification id, name, none;
  map.AskId(IdKind::kUser, "daemon@example.org", [&id] { id.Notify(); });
  map.AskName(IdKind::kGroup, 0, [&name] { name.Notify(); });
  map.AskId(IdKind::kUser, "nosuch@example.org", [&none] { none.Notify(); });
  id.WaitForNotification();
  name.WaitForNotification();
  none.WaitForNotification();
  EXPECT_EQ(**map.KeptId(IdKind::kUser, "daemon@example.org"), 1u);
  EXPECT_EQ(**map.KeptName(IdKind::kGroup, 0), "root@example.org");
  EXPECT_FALSE(map.KeptId(IdKind::kUser, "nosuch@example.org")->ok());
  bool at_once = false;
  map.AskName(IdKind::kGroup, 0, [&at_once] { at_once = true; });
  EXPECT_TRUE(at_once);
}

TEST_F(IdMapTest, ConcurrentQuestionsGetTheirOwnAnswers) {
  IdMap map(With(kExampleOrg));
  std::atomic<int> called = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&map, &called, i] {
      for (int round = 0; round < 20; ++round) {
        const std::string none = absl::StrCat("nosuch", i % 4, "-", round, "@example.org");
        ExpectId(map, IdKind::kUser, "daemon@example.org", 1);
        ExpectNone(map, IdKind::kUser, none);
        ExpectName(map, IdKind::kUser, 0, "root@example.org");
        map.AskId(IdKind::kGroup, none, [&called] { ++called; });
        EXPECT_TRUE(map.User("daemon@EXAMPLE.ORG").ok());
        if (round == 10) map.Forget();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (called < 8 * 20) absl::SleepFor(absl::Milliseconds(2));
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(1));
}

TEST_F(IdMapTest, FailedHelperFailsAllQuestionsForATime) {
  IdMap map(WithFake("exit 1"));
  EXPECT_EQ(map.Id(IdKind::kUser, "a@example.org").status().code(), absl::StatusCode::kUnavailable);
  const size_t starts = Starts();
  const auto other = map.KeptName(IdKind::kGroup, 5);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(map.User("b@EXAMPLE.ORG").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Starts(), starts);
  map.Forget();
  EXPECT_FALSE(map.KeptName(IdKind::kGroup, 5).has_value());
  EXPECT_FALSE(map.Name(IdKind::kGroup, 5).ok());
  EXPECT_GT(Starts(), starts);
}

TEST_F(IdMapTest, StopEndsQuestions) {
  IdMap map(WithFake("exec sleep 60"));
  std::thread waits([&map] {
    EXPECT_EQ(map.User("a@EXAMPLE.ORG").status().code(), absl::StatusCode::kCancelled);
  });
  while (Starts() == 0) absl::SleepFor(absl::Milliseconds(2));
  map.Stop();
  waits.join();
  EXPECT_EQ(map.Name(IdKind::kUser, 0).status().code(), absl::StatusCode::kCancelled);
}

// Names that a peer has made up leave room for numbers and principals.
TEST_F(IdMapTest, InventedNamesDoNotFillTheQueue) {
  int at_once = 0;  // the destructor of the map calls back, too
  IdMap map(WithFake("exec sleep 60"));
  const auto count = [&at_once] { ++at_once; };
  for (int i = 0; i < 3000; ++i) {
    map.AskId(IdKind::kUser, absl::StrCat("a", i, "@example.org"), count);
  }
  EXPECT_GT(at_once, 0) << "all wait";
  const int refused = at_once;
  map.AskName(IdKind::kUser, 1, count);
  EXPECT_EQ(at_once, refused);
  map.Stop();
}

TEST_F(IdMapTest, MissingHelperIsNamedWithTheRemedy) {
  IdMap map({.helper = "/nowhere/dafs-idmap", .domain = "example.org"});
  EXPECT_EQ(map.Start().code(), absl::StatusCode::kUnavailable);
  const auto id = map.Id(IdKind::kUser, "root@example.org");
  EXPECT_EQ(id.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("/nowhere/dafs-idmap"));
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("install the package"));
}

TEST_F(IdMapTest, NothingRunsBeforeTheFirstQuestionOrStart) {
  IdMap map(With(kExampleOrg));
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(0));
  EXPECT_TRUE(map.Start().ok());
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(1));
  ExpectId(map, IdKind::kUser, "root@example.org", 0);
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(1));
}

TEST_F(IdMapTest, DestructorCancelsQuestionsAndEndsTheHelper) {
  int called = 0;
  std::thread waits;
  {
    IdMap map(WithFake("head -c 1 <&0; printf x >>" + folder_ + "/starts; exec sleep 60"));
    waits = std::thread([&map] {
      EXPECT_EQ(map.User("a@EXAMPLE.ORG").status().code(), absl::StatusCode::kCancelled);
    });
    while (Starts() < 2)
      absl::SleepFor(absl::Milliseconds(2));  // until the helper has the question
    // A callback may look for its answer, and ask again if there is none.
    for (uint32_t i = 0; i < 10; ++i) {
      map.AskName(IdKind::kUser, i, [&map, &called, i] {
        const auto kept = map.KeptName(IdKind::kUser, i);
        ASSERT_TRUE(kept.has_value());
        EXPECT_EQ(kept->status().code(), absl::StatusCode::kCancelled);
        ++called;
      });
    }
  }
  waits.join();
  EXPECT_EQ(called, 10);
  EXPECT_THAT(ChildrenOf(getpid()), SizeIs(0));
}

}  // namespace
}  // namespace dafs::auth
