#include "wire/auth/idmap/id_message.h"

#include <algorithm>

#include "wire/auth/helper_packet.h"

namespace dafs::auth {
namespace {

using Kind = IdQuestion::Kind;
using Outcome = IdAnswer::Outcome;

bool IsByName(Kind kind) { return kind != Kind::kUserName && kind != Kind::kGroupName; }

}  // namespace

bool IsIdName(std::string_view text) {
  if (text.empty() || text.size() > kMostIdNameBytes) return false;
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (std::any_of(text.begin(), text.end(), is_control)) return false;
  const size_t at = text.find('@', 1);
  return at != std::string_view::npos && at != text.size() - 1;
}

uint32_t NumberOf(std::string_view bytes) { return PacketReader(bytes).Number<uint32_t>(); }

std::string Encode(const IdQuestion& question) {
  return PacketWriter()
      .Number(question.number)
      .Number(static_cast<uint32_t>(question.kind))
      .Number(question.generation)
      .Number(question.id)
      .Field(question.name)
      .Take();
}

std::optional<IdQuestion> DecodeIdQuestion(std::string_view bytes) {
  PacketReader reader(bytes);
  IdQuestion question;
  question.number = reader.Number<uint32_t>();
  const auto kind = reader.Number<uint32_t>();
  question.generation = reader.Number<uint32_t>();
  question.id = reader.Number<uint32_t>();
  question.name = reader.Field(kMostIdNameBytes);
  if (!reader.AtEnd() || kind > static_cast<uint32_t>(Kind::kPrincipal)) return std::nullopt;
  question.kind = static_cast<Kind>(kind);
  const bool is_name_right =
      IsByName(question.kind) ? IsIdName(question.name) : question.name.empty();
  return is_name_right ? std::optional(std::move(question)) : std::nullopt;
}

std::string Encode(const IdAnswer& answer) {
  PacketWriter writer;
  writer.Number(answer.number)
      .Number(static_cast<uint32_t>(answer.outcome))
      .Number(answer.id)
      .Number(answer.gid)
      .Number(static_cast<uint32_t>(answer.groups.size()));
  for (const uint32_t group : answer.groups) writer.Number(group);
  return writer.Field(std::string_view(answer.text).substr(0, kMostIdNameBytes)).Take();
}

std::optional<IdAnswer> DecodeIdAnswer(const IdQuestion& question, std::string_view bytes) {
  PacketReader reader(bytes);
  IdAnswer answer;
  answer.number = reader.Number<uint32_t>();
  const auto outcome = reader.Number<uint32_t>();
  answer.id = reader.Number<uint32_t>();
  answer.gid = reader.Number<uint32_t>();
  const auto groups = reader.Number<uint32_t>();
  if (groups > kMostMappedGroups || !reader.HasNumbers<uint32_t>(groups)) return std::nullopt;
  answer.groups.reserve(groups);
  for (uint32_t i = 0; i < groups; ++i) answer.groups.push_back(reader.Number<uint32_t>());
  answer.text = reader.Field(kMostIdNameBytes);
  if (!reader.AtEnd() || answer.number != question.number ||
      outcome > static_cast<uint32_t>(Outcome::kUnavailable)) {
    return std::nullopt;
  }
  answer.outcome = static_cast<Outcome>(outcome);
  if (answer.outcome != Outcome::kFound) {
    answer.text = Printable(std::move(answer.text));
    return answer;
  }
  const bool is_principal = question.kind == Kind::kPrincipal;
  if (answer.id == kNoId || (is_principal && answer.gid == kNoId) ||
      (!is_principal && groups != 0) ||
      (IsByName(question.kind) ? !answer.text.empty() : !IsIdName(answer.text))) {
    return std::nullopt;
  }
  return answer;
}

}  // namespace dafs::auth
