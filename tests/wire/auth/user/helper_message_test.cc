#include "wire/auth/user/helper_message.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "wire/auth/credentials.h"

namespace dafs::auth {
namespace {

HelperReply Reply(absl::StatusOr<Exchange::Progress> progress) {
  HelperReply reply;
  reply.progress = std::move(progress);
  reply.token = std::string("to\0ken", 6);
  reply.peer_name = "dafs@files.test";
  reply.lifetime = absl::Seconds(20);
  reply.major_status = 7;
  reply.minor_status = 8;
  return reply;
}

TEST(HelperMessageTest, RequestArrivesAsItWasSent) {
  const auto request = DecodeHelperRequest(
      Encode(HelperRequest{.server_host = "h", .channel_binding = "b\n", .token = "t"}));
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->server_host, "h");
  EXPECT_EQ(request->channel_binding, "b\n");
  EXPECT_EQ(request->token, "t");
}

TEST(HelperMessageTest, ReplyArrivesAsItWasSent) {
  for (const absl::StatusOr<Exchange::Progress>& progress :
       {absl::StatusOr<Exchange::Progress>(Exchange::Progress::kDone),
        absl::StatusOr<Exchange::Progress>(Exchange::Progress::kContinues),
        absl::StatusOr<Exchange::Progress>(absl::UnauthenticatedError("no")),
        absl::StatusOr<Exchange::Progress>(absl::FailedPreconditionError("none")),
        absl::StatusOr<Exchange::Progress>(absl::UnavailableError("later")),
        absl::StatusOr<Exchange::Progress>(ExpiredError("old"))}) {
    const auto reply = DecodeHelperReply(Encode(Reply(progress)));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->progress.status(), progress.status());
    EXPECT_EQ(HaveExpired(reply->progress.status()), HaveExpired(progress.status()));
    if (progress.ok()) {
      EXPECT_EQ(*reply->progress, *progress);
    }
    EXPECT_EQ(reply->token.size(), 6u);
    EXPECT_EQ(reply->peer_name, "dafs@files.test");
    EXPECT_EQ(reply->lifetime, absl::Seconds(20));
    EXPECT_EQ(reply->major_status, 7u);
    EXPECT_EQ(reply->minor_status, 8u);
  }
  HelperReply endless = Reply(Exchange::Progress::kDone);
  endless.lifetime = absl::InfiniteDuration();
  EXPECT_EQ(DecodeHelperReply(Encode(endless))->lifetime, absl::InfiniteDuration());
}

TEST(HelperMessageTest, TruncatedAndLongerMessagesAreRefused) {
  const std::string reply = Encode(Reply(Exchange::Progress::kDone));
  for (size_t size = 0; size < reply.size(); ++size) {
    EXPECT_FALSE(DecodeHelperReply(reply.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeHelperReply(reply + "x").has_value());
  const std::string request =
      Encode(HelperRequest{.server_host = "h", .channel_binding = "", .token = "t"});
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(DecodeHelperRequest(request.substr(0, size)).has_value()) << size;
  }
}

TEST(HelperMessageTest, FieldsBeyondTheirLimitsAreRefused) {
  HelperReply reply = Reply(Exchange::Progress::kDone);
  reply.token = std::string(kMostTokenBytes + 1, 'x');
  EXPECT_FALSE(DecodeHelperReply(Encode(reply)).has_value());
  reply.token.pop_back();
  EXPECT_TRUE(DecodeHelperReply(Encode(reply)).has_value());
  reply.lifetime = absl::Seconds(-2);
  EXPECT_FALSE(DecodeHelperReply(Encode(reply)).has_value());
  reply.lifetime = absl::Hours(24) * 365 * 1000;
  EXPECT_FALSE(DecodeHelperReply(Encode(reply)).has_value());
}

TEST(HelperMessageTest, TextOfAnErrorIsBoundedAndPrintable) {
  const std::string hostile = "\x1b[2J\n" + std::string(5000, 'x');
  const auto reply = DecodeHelperReply(Encode(Reply(absl::UnauthenticatedError(hostile))));
  ASSERT_TRUE(reply.has_value());
  const std::string text(reply->progress.status().message());
  EXPECT_EQ(text.size(), kMostTextBytes);
  EXPECT_EQ(text.substr(0, 6), "?[2J?x");
}

TEST(HelperMessageTest, ChangedBytesAreRefusedOrDecoded) {
  std::mt19937 random(20);
  const std::string reply = Encode(Reply(Exchange::Progress::kDone));
  for (int i = 0; i < 20000; ++i) {
    std::string changed = reply;
    for (int bytes = 0; bytes < 3; ++bytes) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const auto decoded = DecodeHelperReply(changed);
    if (!decoded.has_value()) continue;
    EXPECT_LE(decoded->token.size(), kMostTokenBytes);
    EXPECT_LE(decoded->progress.status().message().size(), kMostTextBytes);
  }
}

}  // namespace
}  // namespace dafs::auth
