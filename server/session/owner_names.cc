#include "server/session/owner_names.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "wire/protocol/header.h"

namespace dafs::server {
namespace {

using auth::IdKind;
using auth::IdMap;
using wire::DafsStatus;

IdKind KindOf(const wire::Ace& ace) {
  return (ace.flag & wire::kAceIdentifierGroup) != 0 ? IdKind::kGroup : IdKind::kUser;
}

// For AskId and AskName: the client asks again, and then the answer is kept.
constexpr auto kNothing = [] {};

enum class Naming : uint8_t { kDone, kAsked, kFailed };

// kFailed leaves the number.
Naming Name(IdMap& ids, IdKind kind, std::string& text) {
  uint32_t id = 0;
  if (!absl::SimpleAtoi(text, &id)) return Naming::kDone;  // a special identifier
  std::optional<absl::StatusOr<std::string>> name = ids.KeptName(kind, id);
  if (!name.has_value()) {
    ids.AskName(kind, id, kNothing);
    return Naming::kAsked;
  }
  if (!name->ok()) return absl::IsNotFound(name->status()) ? Naming::kDone : Naming::kFailed;
  text = **std::move(name);
  return Naming::kDone;
}

DafsStatus Number(IdMap& ids, IdKind kind, std::string& text) {
  if (!IdMap::IsName(text)) return DafsStatus::kOk;  // the store checks the others
  const std::optional<absl::StatusOr<uint32_t>> id = ids.KeptId(kind, text);
  if (!id.has_value()) {
    ids.AskId(kind, text, kNothing);
    return DafsStatus::kDelay;
  }
  if (absl::IsNotFound(id->status())) return DafsStatus::kInval;
  if (!id->ok()) return DafsStatus::kServerFault;
  text = std::to_string(**id);
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus NameOwners(IdMap* ids, wire::FileAttributes& attributes, uint16_t* promises) {
  if (ids == nullptr) return DafsStatus::kOk;
  bool complete = true;
  const auto name = [&](IdKind kind, std::string& text) {
    const Naming naming = Name(*ids, kind, text);
    complete = complete && naming != Naming::kAsked;
    if (naming == Naming::kFailed && promises != nullptr) {
      *promises = static_cast<uint16_t>(*promises & ~wire::kSpcondAttributes);
    }
    return naming;
  };
  const auto name_owner = [&](IdKind kind, std::string& text) {
    if (name(kind, text) == Naming::kFailed) text = absl::StrCat("nobody@", ids->domain());
  };
  if (attributes.has(wire::kFattrOwner)) name_owner(IdKind::kUser, attributes.owner);
  if (attributes.has(wire::kFattrOwnerGroup)) name_owner(IdKind::kGroup, attributes.owner_group);
  if (attributes.has(wire::kFattrAcl)) {
    for (wire::Ace& ace : attributes.acl) name(KindOf(ace), ace.who);
  }
  return complete ? DafsStatus::kOk : DafsStatus::kDelay;
}

DafsStatus NumberOwners(IdMap* ids, wire::FileAttributes& attributes) {
  if (ids == nullptr) return DafsStatus::kOk;
  DafsStatus first = DafsStatus::kOk;
  // All names are looked up at once, so that a list with many takes few requests.
  const auto number = [&](IdKind kind, std::string& text) {
    const DafsStatus status = Number(*ids, kind, text);
    const bool replaces = first == DafsStatus::kDelay && status != DafsStatus::kOk;
    if (first == DafsStatus::kOk || replaces) first = status;
  };
  if (attributes.has(wire::kFattrOwner)) number(IdKind::kUser, attributes.owner);
  if (attributes.has(wire::kFattrOwnerGroup)) number(IdKind::kGroup, attributes.owner_group);
  if (attributes.has(wire::kFattrAcl)) {
    for (wire::Ace& ace : attributes.acl) number(KindOf(ace), ace.who);
  }
  return first;
}

}  // namespace dafs::server
