// Which path a session takes, without any session.
#include "client/state/server/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <deque>

#include "tests/client/scripted_server.h"

namespace dafs::client {
namespace {

using ::testing::ElementsAre;
using testing::ScriptedServer;

std::optional<wire::ServerIdentityRes> ServerNumber(uint8_t number) {
  wire::ServerIdentityRes identity;
  identity.server_id.bytes[0] = number;
  identity.cluster_id = "c";
  return identity;
}

// "192.0.2.1" and so on: path 0, 1, ... An IPv6 address: "::1".
class PathsTest : public ::testing::Test {
 protected:
  void Make(const std::vector<std::string>& hosts, size_t transports = 1) {
    std::vector<dat::Address> addresses;
    for (const std::string& host : hosts) addresses.push_back(dat::ResolveHost(host, 1)->front());
    std::vector<dat::Provider*> providers = {&first_, &second_};
    providers.resize(transports);
    paths_ = std::make_unique<Paths>("mount", providers, addresses, absl::Seconds(5));
  }
  // Takes the path that comes first now, for the rest of the test.
  size_t Take() {
    uses_.push_back(*paths_->Choose(std::vector<bool>(paths_->size()), true));
    return uses_.back().path();
  }
  std::vector<size_t> Order(bool alternates = false) {
    std::vector<bool> tried(paths_->size());
    std::vector<size_t> order;
    while (const std::optional<Paths::Use> use = paths_->Choose(tried, false, alternates)) {
      tried[use->path()] = true;
      order.push_back(use->path());
    }
    return order;
  }

  ScriptedServer first_, second_;
  std::unique_ptr<Paths> paths_;
  std::deque<Paths::Use> uses_;
  const absl::Time start_ = absl::FromUnixSeconds(1000);
};

// Shows DAFS-A.5-01, DAFS-A.5-07: several transport paths to one server.
TEST_F(PathsTest, SessionsAreSpreadOverPathsToOneServer) {
  Make({"192.0.2.1", "192.0.2.2"});
  EXPECT_TRUE(paths_->several());
  EXPECT_EQ(Take(), 0u);
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(Take(), 0u);
  EXPECT_EQ(Take(), 1u);
  uses_.erase(uses_.begin());
  EXPECT_EQ(Take(), 0u) << "one session on it has ended";
}

TEST_F(PathsTest, SessionsAreNotSpreadIfTheServerDoesNotSayWhichOneItIs) {
  Make({"192.0.2.1", "192.0.2.2"});
  EXPECT_EQ(Take(), 0u);
  ASSERT_TRUE(paths_->Reached(0, std::nullopt).ok());
  EXPECT_EQ(Take(), 0u);
  paths_->Failed(0, start_);
  EXPECT_THAT(Order(), ElementsAre(1, 0));
  EXPECT_TRUE(paths_->Reached(1, std::nullopt).ok()) << "but it serves for reconnecting";
}

TEST_F(PathsTest, FailedPathIsTriedLastUntilItIsReached) {
  Make({"192.0.2.1", "192.0.2.2", "192.0.2.3"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  paths_->Failed(0, start_);
  EXPECT_THAT(Order(), ElementsAre(1, 2, 0));
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_THAT(Order(), ElementsAre(0, 1, 2));
}

TEST_F(PathsTest, TransportsAreTriedInTheirOrder) {
  Make({"192.0.2.1", "192.0.2.2"}, 2);
  EXPECT_THAT(Order(), ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_EQ(Take(), 0u);
  EXPECT_THAT(Order(), ElementsAre(1, 0, 2, 3));
  paths_->Failed(0, start_);
  paths_->Failed(1, start_);
  EXPECT_THAT(Order(), ElementsAre(2, 3, 1, 0));
}

TEST_F(PathsTest, AddressOfTheOtherFamilyIsForReconnectingOnly) {
  Make({"::1", "192.0.2.1"});
  EXPECT_FALSE(paths_->several());
  Make({"::1", "192.0.2.1", "192.0.2.2"});
  paths_->Failed(0, start_);
  ASSERT_TRUE(paths_->Reached(1, ServerNumber(1)).ok());
  EXPECT_EQ(Take(), 1u);
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_THAT(Order(), ElementsAre(2, 1, 0));
  paths_->Failed(1, start_);
  paths_->Failed(2, start_);
  EXPECT_THAT(Order(), ElementsAre(0, 2, 1));
  EXPECT_EQ(Take(), 0u);
  EXPECT_EQ(paths_->Better(0), std::nullopt);
  ASSERT_TRUE(paths_->Reached(2, ServerNumber(1)).ok());
  const std::optional<Paths::Use> better = paths_->Better(0);
  ASSERT_TRUE(better.has_value());
  EXPECT_EQ(better->path(), 2u);
}

TEST_F(PathsTest, AddressOfAnotherServerIsNotUsed) {
  Make({"192.0.2.1", "192.0.2.2"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  const absl::Status other = paths_->Reached(1, ServerNumber(2));
  EXPECT_TRUE(absl::IsUnavailable(other));
  EXPECT_THAT(std::string(other.message()),
              ::testing::AllOf(::testing::HasSubstr("192.0.2.2:1 leads to server 02"),
                               ::testing::HasSubstr("not to server 01")));
  paths_->Failed(1, start_);
  EXPECT_EQ(paths_->DueProbe(0, start_ + absl::Hours(1)), std::nullopt);
  paths_->Failed(0, start_);
  EXPECT_THAT(Order(), ElementsAre(0, 1)) << "even if no other works";
  EXPECT_FALSE(paths_->Reached(1, std::nullopt).ok()) << "it cannot be known to be the server";
  EXPECT_EQ(paths_->GetReport()[1].state, "another server");
  EXPECT_TRUE(paths_->Reached(1, ServerNumber(1)).ok()) << "the address was corrected";
}

TEST_F(PathsTest, ServerThatReplacesItAtAllAddressesIsTaken) {
  Make({"192.0.2.1", "192.0.2.2"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  ASSERT_TRUE(paths_->Reached(1, ServerNumber(1)).ok());
  EXPECT_FALSE(paths_->Reached(0, ServerNumber(2)).ok());
  EXPECT_TRUE(paths_->Reached(1, ServerNumber(2)).ok());
  EXPECT_TRUE(paths_->Reached(0, ServerNumber(2)).ok());
  Make({"192.0.2.1"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_TRUE(paths_->Reached(0, ServerNumber(2)).ok()) << "one address is never refused";
  EXPECT_TRUE(paths_->Reached(0, std::nullopt).ok());
}

TEST_F(PathsTest, FailedPathIsTriedAgainAfterGrowingPauses) {
  Make({"192.0.2.1", "192.0.2.2"});
  paths_->Failed(0, start_);
  absl::Time now = start_;
  for (const int pause : {5, 10, 20, 40, 60, 60}) {
    EXPECT_EQ(paths_->DueProbe(1, now + absl::Seconds(pause - 1)), std::nullopt) << pause;
    now += absl::Seconds(pause);
    const std::optional<Paths::Use> due = paths_->DueProbe(1, now);
    ASSERT_TRUE(due.has_value()) << pause;
    EXPECT_EQ(due->path(), 0u);
    EXPECT_EQ(paths_->DueProbe(1, now), std::nullopt) << "by one session only";
    paths_->Failed(0, now);
  }
}

TEST_F(PathsTest, SessionsChangeToAPathThatWorksAgainUntilTheyAreSpread) {
  Make({"192.0.2.1", "192.0.2.2"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  ASSERT_TRUE(paths_->Reached(1, ServerNumber(1)).ok());
  paths_->Failed(0, start_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(), 1u);
  EXPECT_EQ(paths_->Better(1), std::nullopt) << "the other has failed";
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  std::optional<Paths::Use> first = paths_->Better(1);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->path(), 0u);
  uses_.pop_back();
  EXPECT_EQ(paths_->Better(1), std::nullopt) << "two and one";
  EXPECT_EQ(paths_->Better(0), std::nullopt);
}

// The addresses of 192.0.2.HOST.
std::vector<dat::Address> AddressesOf(const std::vector<int>& hosts) {
  std::vector<dat::Address> addresses;
  for (const int host : hosts) {
    addresses.push_back(dat::ResolveHost("192.0.2." + std::to_string(host), 1)->front());
  }
  return addresses;
}

TEST_F(PathsTest, ReplacedListLeavesASessionOnItsPathUntilTheSessionEnds) {
  Make({"192.0.2.1"});
  EXPECT_EQ(Take(), 0u);
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  paths_->Replace(AddressesOf({3, 2}));
  EXPECT_TRUE(paths_->several());
  EXPECT_EQ(paths_->address(0).ToString(), "192.0.2.1:1");
  const auto report = paths_->GetReport();
  ASSERT_EQ(report.size(), 3u);
  EXPECT_EQ(report[0].state, "not listed");
  EXPECT_EQ(report[0].sessions, 1u);
  EXPECT_EQ(paths_->Better(0), std::nullopt) << "nothing shows yet that the others work";
  EXPECT_THAT(Order(), ElementsAre(1, 2)) << "in the order of the list";
  uses_.clear();
  EXPECT_EQ(paths_->GetReport().size(), 2u);
  paths_->Replace(AddressesOf({2, 4}));
  EXPECT_EQ(paths_->size(), 3u) << "a path without a use makes room";
  std::vector<std::string> addresses;
  for (const size_t path : Order()) addresses.push_back(paths_->address(path).ToString());
  EXPECT_THAT(addresses, ElementsAre("192.0.2.2:1", "192.0.2.4:1"));
}

TEST_F(PathsTest, PathThatStaysListedKeepsWhatIsKnownOfIt) {
  Make({"192.0.2.1", "192.0.2.2"}, 2);
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  paths_->Failed(0, start_);
  EXPECT_FALSE(paths_->Reached(1, ServerNumber(2)).ok());
  paths_->Replace(AddressesOf({2, 1, 3}));
  const auto report = paths_->GetReport();
  ASSERT_EQ(report.size(), 6u);
  EXPECT_EQ(report[0].state, "failed");
  EXPECT_EQ(report[1].state, "another server");
  EXPECT_EQ(paths_->addresses(), AddressesOf({2, 1, 3}));
}

TEST_F(PathsTest, NewAddressOfAnotherServerDoesNotReplaceTheServer) {
  Make({"192.0.2.1"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  paths_->Replace(AddressesOf({2}));
  const size_t added = Order().front();
  EXPECT_FALSE(paths_->Reached(added, ServerNumber(2)).ok());
  EXPECT_EQ(paths_->GetReport().back().state, "another server");
  EXPECT_TRUE(paths_->Reached(added, ServerNumber(1)).ok());
}

dat::Address AddressOf(const char* host) { return dat::ResolveHost(host, 1)->front(); }

// Shows DAFS-5.3-03.
TEST_F(PathsTest, AlternatesAreTriedOnlyWhenWantedAndLikeOthersOnceTheServerHasMovedThere) {
  Make({"192.0.2.1"});
  ASSERT_TRUE(paths_->Reached(0, ServerNumber(1)).ok());
  EXPECT_FALSE(paths_->several());
  paths_->SetAlternates({AddressOf("192.0.2.8"), AddressOf("192.0.2.9")});
  EXPECT_TRUE(paths_->several());
  EXPECT_THAT(Order(), ElementsAre(0));
  EXPECT_THAT(Order(true), ElementsAre(0, 1, 2));
  EXPECT_FALSE(paths_->Reached(1, ServerNumber(2)).ok()) << "another server";
  EXPECT_FALSE(paths_->Reached(1, std::nullopt).ok());
  paths_->Failed(0, start_);
  EXPECT_THAT(Order(), ElementsAre(0));
  ASSERT_TRUE(paths_->Reached(2, ServerNumber(1)).ok());
  EXPECT_THAT(Order(), ElementsAre(2, 0));
  // The server need not name the address that is in use.
  paths_->SetAlternates({AddressOf("192.0.2.1")});
  EXPECT_THAT(Order(true), ElementsAre(2, 0));
  paths_->Replace({AddressOf("192.0.2.1")});
  EXPECT_THAT(Order(), ElementsAre(2, 0));
  EXPECT_EQ(paths_->GetReport().size(), 2u);
  EXPECT_THAT(paths_->addresses(), ElementsAre(AddressOf("192.0.2.1")));
  EXPECT_THAT(paths_->ReachableAddresses(),
              ElementsAre(AddressOf("192.0.2.1"), AddressOf("192.0.2.9")));
}

TEST_F(PathsTest, AlternateOfAServerWithoutAnIdentityIsNotUsed) {
  Make({"192.0.2.1"});
  ASSERT_TRUE(paths_->Reached(0, std::nullopt).ok());
  paths_->SetAlternates({AddressOf("192.0.2.8")});
  EXPECT_FALSE(paths_->Reached(1, std::nullopt).ok());
  EXPECT_FALSE(paths_->Reached(1, ServerNumber(1)).ok());
  EXPECT_EQ(paths_->GetReport()[1].state, "alternate");
}

}  // namespace
}  // namespace dafs::client
