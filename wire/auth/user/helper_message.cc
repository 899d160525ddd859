#include "wire/auth/user/helper_message.h"

#include <utility>

#include "absl/status/status.h"
#include "wire/auth/credentials.h"
#include "wire/auth/helper_packet.h"

namespace dafs::auth {
namespace {

enum class Outcome : uint32_t { kDone, kContinues, kNoCredentials, kExpired, kRefused, kLater };

constexpr int64_t kInfinite = -1;  // seconds
constexpr int64_t kMostSeconds = int64_t{1} << 32;

Outcome OutcomeOf(const absl::StatusOr<Exchange::Progress>& progress) {
  if (progress.ok()) {
    return *progress == Exchange::Progress::kDone ? Outcome::kDone : Outcome::kContinues;
  }
  if (HaveExpired(progress.status())) return Outcome::kExpired;
  if (absl::IsUnavailable(progress.status())) return Outcome::kLater;
  return absl::IsUnauthenticated(progress.status()) ? Outcome::kRefused : Outcome::kNoCredentials;
}

absl::StatusOr<Exchange::Progress> ProgressOf(Outcome outcome, const std::string& text) {
  switch (outcome) {
    case Outcome::kDone:
      return Exchange::Progress::kDone;
    case Outcome::kContinues:
      return Exchange::Progress::kContinues;
    case Outcome::kExpired:
      return ExpiredError(text);
    case Outcome::kRefused:
      return absl::UnauthenticatedError(text);
    case Outcome::kLater:
      return absl::UnavailableError(text);
    case Outcome::kNoCredentials:
      break;
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace

std::string Encode(const HelperRequest& request) {
  return PacketWriter()
      .Field(request.server_host)
      .Field(request.channel_binding)
      .Field(request.token)
      .Take();
}

std::optional<HelperRequest> DecodeHelperRequest(std::string_view bytes) {
  PacketReader reader(bytes);
  HelperRequest request;
  request.server_host = reader.Field(kMostTextBytes);
  request.channel_binding = reader.Field(kMostTextBytes);
  request.token = reader.Field(kMostTokenBytes);
  if (!reader.AtEnd()) return std::nullopt;
  return request;
}

std::string Encode(const HelperReply& reply) {
  const std::string text(reply.progress.status().message());
  const bool is_finite = reply.lifetime != absl::InfiniteDuration();
  return PacketWriter()
      .Number(static_cast<uint32_t>(OutcomeOf(reply.progress)))
      .Number(reply.major_status)
      .Number(reply.minor_status)
      .Number(is_finite ? absl::ToInt64Seconds(reply.lifetime) : kInfinite)
      .Field(reply.token)
      .Field(std::string_view(reply.peer_name).substr(0, kMostTextBytes))
      .Field(std::string_view(text).substr(0, kMostTextBytes))
      .Take();
}

std::optional<HelperReply> DecodeHelperReply(std::string_view bytes) {
  PacketReader reader(bytes);
  HelperReply reply;
  const auto outcome = reader.Number<uint32_t>();
  reply.major_status = reader.Number<uint32_t>();
  reply.minor_status = reader.Number<uint32_t>();
  const auto seconds = reader.Number<int64_t>();
  reply.token = reader.Field(kMostTokenBytes);
  reply.peer_name = Printable(reader.Field(kMostTextBytes));
  const std::string text = Printable(reader.Field(kMostTextBytes));
  if (!reader.AtEnd() || outcome > static_cast<uint32_t>(Outcome::kLater) || seconds < kInfinite ||
      seconds > kMostSeconds) {
    return std::nullopt;
  }
  reply.lifetime = seconds == kInfinite ? absl::InfiniteDuration() : absl::Seconds(seconds);
  reply.progress = ProgressOf(static_cast<Outcome>(outcome), text);
  return reply;
}

}  // namespace dafs::auth
