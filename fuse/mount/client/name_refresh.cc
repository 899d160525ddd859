#include "fuse/mount/client/name_refresh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/names/places.h"
#include "fuse/mount/client/mount_name.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

void AddNew(const std::vector<dat::Address>& more, std::vector<dat::Address>& addresses) {
  for (const dat::Address& one : more) {
    if (addresses.size() == names::kMostAddresses) return;
    if (std::find(addresses.begin(), addresses.end(), one) == addresses.end()) {
      addresses.push_back(one);
    }
  }
}

// `texts` are numeric, so this does not block.
std::vector<dat::Address> AddressesOf(const std::vector<std::string>& texts) {
  std::vector<dat::Address> addresses;
  for (const std::string& text : texts) {
    std::string host;
    uint16_t port = dat::kDefaultPort;
    if (!dat::SplitHostPort(text, &host, &port).ok()) continue;
    const absl::StatusOr<std::vector<dat::Address>> found = dat::ResolveHost(host, port);
    if (found.ok()) AddNew(*found, addresses);
  }
  return addresses;
}

}  // namespace

std::optional<std::vector<dat::Address>> NameRefresh::Step(
    absl::Time now, const std::vector<dat::Address>& current) {
  if (query_ != nullptr) {
    const std::optional<absl::StatusOr<names::Answers>> answers = query_->Poll(now);
    if (!answers.has_value()) return std::nullopt;
    query_.reset();
    if (answers->ok()) pause_ = (*answers)->refresh;
    due_ = now + pause_;
    return Take(*answers, current);
  }
  if (now < due_) return std::nullopt;
  due_ = now + pause_;
  absl::StatusOr<names::NameQueryOptions> options = NameQueryFor(options_);
  absl::StatusOr<std::unique_ptr<names::NameQuery>> query =
      options.ok() ? names::NameQuery::Start(*options, now) : options.status();
  if (query.ok()) {
    query_ = *std::move(query);
  } else {
    Keep(std::string(query.status().message()));
  }
  return std::nullopt;
}

// The answer that counts: of the first service that has the name, but of none after the one that
// had it before and is away now. Null: none, and why.
const names::Answer* NameRefresh::Choose(const names::Answers& answers, std::string* why) const {
  for (const names::Answer& answer : answers.services) {
    if (answer.result == names::Result::kFound) return &answer;
    if (answer.service == service_ && answer.result != names::Result::kUnknown) {
      *why = absl::StrCat(answer.service, ": ", answer.message);
      return nullptr;
    }
  }
  *why = names::WhyNotFound(answers);
  return nullptr;
}

std::optional<std::vector<dat::Address>> NameRefresh::Take(
    const absl::StatusOr<names::Answers>& answers, const std::vector<dat::Address>& current) {
  std::string why(answers.status().message());
  const names::Answer* const answer = answers.ok() ? Choose(*answers, &why) : nullptr;
  if (answer == nullptr) return Keep(why), std::nullopt;
  std::string unused;
  const std::vector<names::Place> places =
      names::PlacesOf(answer->locations, TransportsOf(options_), &unused);
  const auto place = std::find_if(places.begin(), places.end(), [this](const names::Place& one) {
    return one.location.path == options_.source.export_path;
  });
  if (place == places.end()) {
    return Keep(absl::StrCat(answer->service, " has no usable location with the path ",
                             options_.source.export_path, unused.empty() ? "" : ": ", unused)),
           std::nullopt;
  }
  std::vector<dat::Address> addresses = AddressesOf(place->addresses);
  // A host without an address may have one again soon: its name service is away.
  if (std::any_of(answer->locations.begin(), answer->locations.end(),
                  [](const names::Located& one) { return !one.problem.empty(); })) {
    AddNew(current, addresses);
  }
  service_ = answer->service;
  if (std::exchange(keeps_, false)) {
    LogNotice(absl::StrCat(options_.source.text, ": found again by ", service_));
  }
  if (addresses == current || addresses.empty()) return std::nullopt;
  std::string list;
  for (const dat::Address& one : addresses) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", one.ToString());
  }
  LogNotice(absl::StrCat(options_.source.text, ": its addresses are now ", list, " (", service_,
                         "); sessions stay where they are"));
  return addresses;
}

void NameRefresh::Keep(const std::string& why) {
  if (std::exchange(keeps_, true)) return;
  LogWarning(absl::StrCat(options_.source.text, ": not looked up again: ", why,
                          "; the mount keeps its addresses and tries again every ",
                          absl::FormatDuration(pause_)));
}

}  // namespace dafs::fuse
