#include "client/names/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/names/places.h"

namespace dafs::names {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Located At(const std::string& text, std::vector<std::string> addresses = {"192.0.2.1:20149"}) {
  return {*ParseLocation(text), std::move(addresses), ""};
}

Answers Example() {
  Answers answers;
  answers.name = "projects";
  answers.refresh = absl::Seconds(7);
  answers.services = {{"file", Result::kUnknown, "no line", {}},
                      {"dns", Result::kFound, "", {At("a:1:/x"), At("rdma://b/x", {})}}};
  answers.services[1].locations[1].problem = "b: unknown";
  return answers;
}

TEST(AnswersTest, JsonKeepsAllOfThem) {
  const absl::StatusOr<Answers> parsed = ParseAnswers(ToJson(Example()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Example());
  EXPECT_EQ(FirstFound(*parsed), &parsed->services[1]);
}

TEST(AnswersTest, JsonOfAnythingElseIsRefused) {
  const std::string good = ToJson(Example());
  for (size_t size = 0; size + 2 < good.size(); ++size) {
    EXPECT_FALSE(ParseAnswers(good.substr(0, size)).ok()) << size;
  }
  for (const auto& [part, instead] :
       {std::pair("\"port\": 1", "\"port\": 65536"), std::pair("\"port\": 1", "\"port\": -1"),
        std::pair("\"host\": \"a\"", "\"host\": 7"),
        std::pair("\"host\": \"a\"", "\"host\": \"a b\""),
        std::pair("\"path\": \"/x\"", "\"path\": \"/x/..\""), std::pair("\"found\"", "\"lost\""),
        std::pair("\"unknown\"", "\"found\"")}) {
    std::string bad = good;
    bad.replace(bad.find(part), std::string(part).size(), instead);
    EXPECT_FALSE(ParseAnswers(bad).ok()) << instead;
  }
}

TEST(AnswersTest, MessageNamesEachServiceAndWhy) {
  Answers answers = Example();
  answers.services[1] = {"dns", Result::kUnknown, "no record SRV x", {}};
  EXPECT_EQ(WhyNotFound(answers), "no such DAFS name: file: no line; dns: no record SRV x");
  answers.services[1].result = Result::kAway;
  EXPECT_THAT(WhyNotFound(answers), HasSubstr("the DAFS name was not found: file:"));
}

// Shows DAFS-A.5-01.
TEST(PlacesTest, LocationsOfOnePathAreOnePlace) {
  std::string unused;
  const std::vector<Place> places =
      PlacesOf({At("a:1:/x", {"192.0.2.1:1"}), At("b:1:/y", {"192.0.2.2:1"}),
                At("a:2:/x", {"192.0.2.1:2", "192.0.2.1:1"})},
               {}, &unused);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].location.path, "/x");
  EXPECT_THAT(places[0].addresses, ElementsAre("192.0.2.1:1", "192.0.2.1:2"));
  EXPECT_THAT(places[1].addresses, ElementsAre("192.0.2.2:1"));
  EXPECT_THAT(unused, IsEmpty());
}

// Shows DAFS-A.4.1-02.
TEST(PlacesTest, LocationsThatTheMountCannotUseAreLeftOut) {
  Located vi = At("a:/x"), later = At("b:/x"), lost = At("c:/x", {});
  vi.location.transport = "VI";
  later.location.version = "2.0";
  lost.problem = "c: Name or service not known";
  std::string why;
  EXPECT_THAT(PlacesOf({vi, later, lost, At("rdma://d/x")}, {.tcp = true, .rdma = false}, &why),
              IsEmpty());
  EXPECT_EQ(why,
            "a:/x: this mount cannot use transport VI; b:/x: DAFS version 2.0 is not supported; "
            "c:/x: c: Name or service not known; d:/x: this mount cannot use transport RDMA");
  why.clear();
  EXPECT_EQ(PlacesOf({At("rdma://d/x"), At("tcp://d/x")}, {}, &why).size(), 1u);
}

}  // namespace
}  // namespace dafs::names
