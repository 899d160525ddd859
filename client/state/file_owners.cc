#include "client/state/file_owners.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

using auth::IdKind;

std::optional<uint32_t> NumberIn(std::string_view text) {
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

bool FileOwners::ToNumbers(wire::FileAttributes& attributes, std::vector<OwnerQuestion>* ask) {
  if (!maps()) return true;
  const bool has_owner = ToNumber(IdKind::kUser, attributes.owner, ask);
  const bool has_group = ToNumber(IdKind::kGroup, attributes.owner_group, ask);
  return has_owner && has_group;
}

bool FileOwners::ToNumber(IdKind kind, std::string& owner, std::vector<OwnerQuestion>* ask) {
  if (!IsName(owner)) return true;
  const std::optional<absl::StatusOr<uint32_t>> kept = names_->KeptId(kind, owner);
  if (!kept.has_value() && ask != nullptr) {
    ask->push_back({kind, owner});
    return true;
  }
  if (kept.has_value() && kept->ok()) {
    owner = std::to_string(**kept);
    return true;
  }
  if (ask == nullptr) {
    LogNobody(kind, owner,
              kept.has_value() ? kept->status() : absl::UnavailableError("no answer in time"));
  }
  owner = std::to_string(kNobody);
  return false;
}

absl::Status FileOwners::ToNames(wire::FileAttributes& attributes,
                                 std::vector<OwnerQuestion>* ask) const {
  if (!maps()) return absl::OkStatus();
  if (attributes.has(wire::kFattrOwner)) {
    RETURN_IF_ERROR(ToName(IdKind::kUser, attributes.owner, ask));
  }
  if (attributes.has(wire::kFattrOwnerGroup)) {
    RETURN_IF_ERROR(ToName(IdKind::kGroup, attributes.owner_group, ask));
  }
  return absl::OkStatus();
}

absl::Status FileOwners::ToName(IdKind kind, std::string& owner,
                                std::vector<OwnerQuestion>* ask) const {
  const std::optional<uint32_t> number = NumberIn(owner);
  if (!number.has_value()) return absl::OkStatus();
  std::optional<absl::StatusOr<std::string>> kept = names_->KeptName(kind, *number);
  if (!kept.has_value() && ask != nullptr) {
    ask->push_back({kind, owner});
  } else if (!kept.has_value() || (!kept->ok() && !absl::IsNotFound(kept->status()))) {
    return absl::InternalError(
        absl::StrCat("no name for the ", kind == IdKind::kUser ? "user " : "group ", owner, ": ",
                     kept.has_value() ? kept->status().message() : "no answer in time"));
  } else if (kept->ok()) {
    owner = **std::move(kept);
  }
  return absl::OkStatus();
}

void FileOwners::Ask(const OwnerQuestion& question, std::function<void()> done) {
  if (const std::optional<uint32_t> number = NumberIn(question.owner)) {
    names_->AskName(question.kind, *number, std::move(done));
  } else {
    names_->AskId(question.kind, question.owner, std::move(done));
  }
}

void FileOwners::LogNobody(IdKind kind, const std::string& name, const absl::Status& why) {
  const absl::Time now = Loop::Now();
  const char* const what = kind == IdKind::kUser ? "user" : "group";
  absl::MutexLock lock(&mutex_);
  if (now - logged_since_ > kLoggedFor) {
    logged_since_ = now;
    logged_.clear();
  }
  const std::string key = absl::StrCat(what, " ", name);
  if (logged_.size() >= kMostLogged || logged_.contains(key) || !budget_.Admits(now)) return;
  logged_.insert(key);
  LogWarning(absl::StrCat(
      server_, ": no number for the ", what, " ", absl::CHexEscape(name), ": ", why.message(),
      "; its files are shown as those of ", kNobody,
      absl::IsNotFound(why)
          ? "; add it to this machine, or correct id_domain= or the Domain of /etc/idmapd.conf"
          : "; it is looked up again with the next request",
      budget_.TakeLeftOut()));
}

}  // namespace dafs::client
