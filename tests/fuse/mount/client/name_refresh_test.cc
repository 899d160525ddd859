// The effect of an answer of the name services on a living mount, without services and mount.
#include "fuse/mount/client/name_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/names/location.h"
#include "fuse/mount/client/mount_name.h"
#include "fuse/restart/named_place.h"

namespace dafs::fuse {
namespace {

using ::testing::ElementsAre;

class NameRefreshTest : public ::testing::Test {
 protected:
  NameRefreshTest() {
    options_.source.text = "projects";
    options_.source.is_name = true;
    options_.source.host = "a";
    options_.source.export_path = "/x";
  }

  static names::Located At(const std::string& location, const std::string& address) {
    names::Located located{*names::ParseLocation(location), {}, ""};
    if (address.empty()) {
      located.problem = "unknown";
    } else {
      located.addresses = {address};
    }
    return located;
  }
  static names::Answer Found(std::vector<names::Located> locations) {
    return {"dns", names::Result::kFound, "", std::move(locations)};
  }
  static names::Answer Of(const char* service, names::Result result) {
    return {service, result, "why", {}};
  }
  // The new addresses; empty: the mount keeps what it has.
  std::vector<std::string> Take(std::vector<names::Answer> services) {
    names::Answers answers;
    answers.name = "projects";
    answers.services = std::move(services);
    const auto taken = refresh_.Take(answers, current_);
    if (!taken.has_value()) return {};
    std::vector<std::string> texts;
    for (const dat::Address& one : *taken) texts.push_back(one.ToString());
    return texts;
  }

  Options options_;
  const std::vector<dat::Address> current_ = {dat::ResolveHost("192.0.2.1", 1)->front()};
  NameRefresh refresh_{options_, "dns", absl::InfinitePast()};
};

// Shows DAFS-A.5-04.
TEST_F(NameRefreshTest, TakesTheAddressesOfItsPath) {
  EXPECT_THAT(Take({Found({At("a:/x", "192.0.2.2:1"), At("b:/y", "192.0.2.3:1"),
                           At("c:/x", "192.0.2.4:1")})}),
              ElementsAre("192.0.2.2:1", "192.0.2.4:1"));
  EXPECT_THAT(Take({Found({At("a:/x", "192.0.2.1:1")})}), ElementsAre()) << "nothing has changed";
}

TEST_F(NameRefreshTest, KeepsWhatItHasWhileTheServiceIsAway) {
  EXPECT_FALSE(refresh_.Take(absl::UnavailableError("late"), current_).has_value());
  EXPECT_THAT(Take({Of("dns", names::Result::kAway)}), ElementsAre());
  EXPECT_THAT(Take({Of("dns", names::Result::kUnknown)}), ElementsAre());
  names::Answer other = Found({At("a:/x", "192.0.2.9:1")});
  other.service = "ldap";
  EXPECT_THAT(Take({Of("dns", names::Result::kAway), other}), ElementsAre())
      << "another service says something, but the one that had the name is away";
  EXPECT_THAT(Take({Of("dns", names::Result::kUnknown), other}), ElementsAre("192.0.2.9:1"))
      << "the name has moved";
}

TEST_F(NameRefreshTest, KeepsWhatItHasIfThePathIsGone) {
  EXPECT_THAT(Take({Found({At("a:/z", "192.0.2.2:1")})}), ElementsAre());
}

TEST_F(NameRefreshTest, AddressOfAHostThatIsNotResolvedNowStays) {
  EXPECT_THAT(Take({Found({At("a:/x", ""), At("b:/x", "192.0.2.2:1")})}),
              ElementsAre("192.0.2.2:1", "192.0.2.1:1"));
}

TEST(MountNameTest, PlaceIsPassedOnAsText) {
  Options options;
  options.source.is_name = true;
  options.source.text = "projects";
  EXPECT_FALSE(SetPlace("nonsense", options).ok());
  ASSERT_TRUE(SetPlace("[2001:db8::1]:7:/x/y", options).ok());
  EXPECT_EQ(options.source.host, "2001:db8::1");
  EXPECT_EQ(options.port, 7);
  EXPECT_EQ(options.source.export_path, "/x/y");
  EXPECT_EQ(PlaceText(options), "[2001:db8::1]:7:/x/y");
  options.source.is_name = false;
  EXPECT_EQ(PlaceText(options), "");
}

}  // namespace
}  // namespace dafs::fuse
