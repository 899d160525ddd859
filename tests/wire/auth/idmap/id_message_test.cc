// The packets of dafs-idmap, from a right and a hostile peer.
#include "wire/auth/idmap/id_message.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/auth/helper_packet.h"
#include "wire/auth/idmap/id_domain.h"

namespace dafs::auth {
namespace {

using Kind = IdQuestion::Kind;
using Outcome = IdAnswer::Outcome;

TEST(IdNameTest, NameHasAnAtInsideAndNoControlCharacter) {
  for (const char* name :
       {"a@b", "alice@example.org", "Domain Users@x", "a@b@c", "j\xc3\xb6rg@x"}) {
    EXPECT_TRUE(IsIdName(name)) << name;
  }
  for (const char* name : {"", "@", "a@", "@a", "OWNER@", "1000", "alice", "a\n@b", "a@b\x7f"}) {
    EXPECT_FALSE(IsIdName(name)) << name;
  }
  EXPECT_FALSE(IsIdName(std::string_view("a@b\0c", 5)));
  EXPECT_TRUE(IsIdName(std::string(1022, 'a') + "@b"));
  EXPECT_FALSE(IsIdName(std::string(1023, 'a') + "@b"));
}

TEST(IdNameTest, DomainIsOneOfDns) {
  for (const std::string& domain :
       {std::string("example.org"), std::string("a"), std::string("x_1.b-2.C"),
        std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c')}) {
    EXPECT_TRUE(IsIdDomain(domain)) << domain;
  }
  std::string long_one = "a";
  while (long_one.size() <= 253) long_one += ".a";
  for (const std::string& domain :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string("a#"),
        std::string("a@b"), std::string("a..b"), std::string(".a"), std::string("a."),
        std::string("-a"), std::string("a-.b"), std::string(64, 'a'), long_one}) {
    EXPECT_FALSE(IsIdDomain(domain)) << domain;
  }
}

TEST(IdMessageTest, QuestionsAndAnswersSurviveTheWay) {
  const IdQuestion by_name = {.kind = Kind::kPrincipal, .generation = 7, .name = "a@B"};
  const auto question = DecodeIdQuestion(Encode(by_name));
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(question->kind, Kind::kPrincipal);
  EXPECT_EQ(question->generation, 7u);
  EXPECT_EQ(question->name, "a@B");
  const auto user = DecodeIdAnswer(
      by_name, Encode(IdAnswer{.outcome = Outcome::kFound, .id = 1, .gid = 2, .groups = {2, 3}}));
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(user->id, 1u);
  EXPECT_EQ(user->gid, 2u);
  EXPECT_EQ(user->groups, (std::vector<uint32_t>{2, 3}));
  const IdQuestion by_id = {.kind = Kind::kUserName, .id = 5};
  ASSERT_TRUE(DecodeIdQuestion(Encode(by_id)).has_value());
  const auto name =
      DecodeIdAnswer(by_id, Encode(IdAnswer{.outcome = Outcome::kFound, .text = "a@b"}));
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->text, "a@b");
}

TEST(IdMessageTest, TruncatedAndExtendedPacketsAreRefused) {
  const IdQuestion question = {.kind = Kind::kPrincipal, .name = "a@B"};
  const std::string asked = Encode(question);
  const std::string answered =
      Encode(IdAnswer{.outcome = Outcome::kFound, .id = 1, .gid = 2, .groups = {2, 3}});
  for (size_t size = 0; size < asked.size(); ++size) {
    EXPECT_FALSE(DecodeIdQuestion(asked.substr(0, size)).has_value()) << size;
  }
  for (size_t size = 0; size < answered.size(); ++size) {
    EXPECT_FALSE(DecodeIdAnswer(question, answered.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeIdQuestion(asked + '\0').has_value());
  EXPECT_FALSE(DecodeIdAnswer(question, answered + '\0').has_value());
}

TEST(IdMessageTest, WrongQuestionsAreRefused) {
  const auto decoded = [](uint32_t kind, std::string_view name) {
    return DecodeIdQuestion(
        PacketWriter().Number(1u).Number(kind).Number(0u).Number(0u).Field(name).Take());
  };
  EXPECT_TRUE(decoded(0, "a@b").has_value());
  EXPECT_FALSE(decoded(5, "a@b").has_value());
  EXPECT_FALSE(decoded(0, "a").has_value());
  EXPECT_FALSE(decoded(4, "a\n@b").has_value());
  EXPECT_FALSE(decoded(2, "a@b").has_value());
  EXPECT_FALSE(decoded(0, std::string(1024, 'a') + "@b").has_value());
}

TEST(IdMessageTest, AnswersToAnotherQuestionAreRefused) {
  const IdQuestion id = {.kind = Kind::kUserId, .name = "a@b"};
  const IdQuestion name = {.kind = Kind::kUserName, .id = 1};
  const IdQuestion principal = {.kind = Kind::kPrincipal, .name = "a@b"};
  const auto takes = [](const IdQuestion& question, IdAnswer answer) {
    answer.outcome = Outcome::kFound;
    return DecodeIdAnswer(question, Encode(answer)).has_value();
  };
  EXPECT_TRUE(takes(id, {.id = 1}));
  EXPECT_FALSE(takes(id, {.id = kNoId}));
  EXPECT_FALSE(takes(id, {.id = 1, .text = "a@b"}));
  EXPECT_FALSE(takes(id, {.id = 1, .groups = {1}}));
  EXPECT_FALSE(takes(name, {.id = 1}));
  EXPECT_FALSE(takes(name, {.text = "a"}));
  EXPECT_FALSE(takes(name, {.text = "a\n@b"}));
  EXPECT_FALSE(takes(principal, {.id = 1, .gid = kNoId}));
  EXPECT_FALSE(takes(principal, {.id = 1, .text = "a@b"}));
  EXPECT_FALSE(takes(id, {.number = 1, .id = 1}));
}

TEST(IdMessageTest, GroupsAreBoundedBeforeTheyAreRead) {
  const IdQuestion principal = {.kind = Kind::kPrincipal, .name = "a@b"};
  const auto with_groups = [](size_t count) {
    return Encode(IdAnswer{.outcome = Outcome::kFound, .groups = std::vector<uint32_t>(count)});
  };
  EXPECT_TRUE(DecodeIdAnswer(principal, with_groups(kMostMappedGroups)).has_value());
  EXPECT_LE(with_groups(kMostMappedGroups).size(), kMostIdMessageBytes);
  EXPECT_FALSE(DecodeIdAnswer(principal, with_groups(kMostMappedGroups + 1)).has_value());
  const std::string lie =
      PacketWriter().Number(0u).Number(0u).Number(0u).Number(0u).Number(20000u).Field("").Take();
  EXPECT_FALSE(DecodeIdAnswer(principal, lie).has_value());
}

TEST(IdMessageTest, ReasonIsPrintableAndBounded) {
  const IdQuestion id = {.kind = Kind::kUserId, .name = "a@b"};
  const auto answer = DecodeIdAnswer(
      id, Encode(IdAnswer{.outcome = Outcome::kFailed, .text = "\x1b[m" + std::string(5000, 'x')}));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->text.substr(0, 4), "?[mx");
  EXPECT_EQ(answer->text.size(), kMostIdNameBytes);
}

}  // namespace
}  // namespace dafs::auth
