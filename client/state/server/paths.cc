#include "client/state/server/paths.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"

namespace dafs::client {
namespace {

constexpr int kMostRetryPauses = 12;  // the longest pause between trials, in first pauses

std::string ServerText(const std::optional<wire::ServerIdentityRes>& server) {
  if (!server.has_value()) return "a server without an identity";
  return absl::StrCat("server ", wire::HexOf(server->server_id), " of cluster ",
                      absl::CHexEscape(server->cluster_id));
}

}  // namespace

bool HaveSeveralPaths(const std::vector<dat::Address>& addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (addresses[i].family() == addresses[j].family()) return true;
    }
  }
  return false;
}

Paths::Paths(std::string name, const std::vector<dat::Provider*>& providers,
             const std::vector<dat::Address>& addresses, absl::Duration retry)
    : name_(std::move(name)), providers_(providers), retry_(retry) {
  Replace(addresses);
}

// The path, or a place for it: that of one which is neither listed nor used, or a new one.
Paths::Path& Paths::Place(size_t transport, const dat::Address& address) {
  Path* free = nullptr;
  for (Path& one : paths_) {
    if (one.transport == transport && one.address == address) return one;
    if (!one.is_listed && one.uses == 0) free = &one;
  }
  if (free == nullptr) free = &paths_.emplace_back();
  *free = Path();
  free->transport = transport;
  free->address = address;
  return *free;
}

void Paths::Replace(const std::vector<dat::Address>& addresses) {
  absl::MutexLock lock(&mutex_);
  addresses_ = addresses;
  several_ = HaveSeveralPaths(addresses);
  // Those that stay keep their places until all are found.
  for (Path& one : paths_) {
    const bool is_own =
        std::find(addresses.begin(), addresses.end(), one.address) != addresses.end();
    one.is_listed = is_own || one.is_kept;
    if (is_own) one.is_alternate = false;
  }
  for (size_t transport = 0; transport < providers_.size(); ++transport) {
    for (size_t i = 0; i < addresses.size(); ++i) Place(transport, addresses[i]).position = i;
  }
}

void Paths::SetAlternates(const std::vector<dat::Address>& addresses) {
  absl::MutexLock lock(&mutex_);
  has_alternates_ = !addresses.empty();
  const auto is_in = [](const std::vector<dat::Address>& list, const dat::Address& address) {
    return std::find(list.begin(), list.end(), address) != list.end();
  };
  // A path to which the server has moved stays: its new instance need not name it.
  for (Path& one : paths_) {
    if (!one.is_alternate || is_in(addresses, one.address)) continue;
    one.is_kept = one.is_alternate = false;
    one.is_listed = is_in(addresses_, one.address);
  }
  for (size_t transport = 0; transport < providers_.size(); ++transport) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      Path& one = Place(transport, addresses[i]);
      const bool is_new = !one.is_kept && !is_in(addresses_, addresses[i]);
      if (is_new) one.is_alternate = !one.was_reached || one.is_foreign;
      one.is_kept = one.is_listed = true;
      if (is_new) one.position = addresses_.size() + i;
    }
  }
}

std::vector<dat::Address> Paths::addresses() const {
  absl::MutexLock lock(&mutex_);
  return addresses_;
}

std::vector<dat::Address> Paths::ReachableAddresses() const {
  absl::MutexLock lock(&mutex_);
  std::vector<dat::Address> all = addresses_;
  for (const Path& one : paths_) {
    if (!one.is_kept || one.is_alternate || one.is_foreign) continue;
    if (std::find(all.begin(), all.end(), one.address) == all.end()) all.push_back(one.address);
  }
  return all;
}

bool Paths::several() const {
  absl::MutexLock lock(&mutex_);
  return several_ || has_alternates_;
}

size_t Paths::size() const {
  absl::MutexLock lock(&mutex_);
  return paths_.size();
}

dat::Provider& Paths::provider(size_t path) const {
  absl::MutexLock lock(&mutex_);
  return *providers_[paths_[path].transport];
}

dat::Address Paths::address(size_t path) const {
  absl::MutexLock lock(&mutex_);
  return paths_[path].address;
}

Paths::Use::~Use() {
  if (paths_ != nullptr) paths_->Leave(path_, weight_);
}

Paths::Use Paths::Take(size_t path, size_t weight) {
  ++paths_[path].uses;
  paths_[path].sessions += weight;
  return Use(this, path, weight);
}

void Paths::Leave(size_t path, size_t weight) {
  absl::MutexLock lock(&mutex_);
  --paths_[path].uses;
  paths_[path].sessions -= weight;
}

// An address of another family than that at which the server was found: used if no other works.
bool Paths::IsReserve(size_t path) const {
  return server_.has_value() && paths_[path].address.family() != family_;
}

// The path with the lowest rank is tried first.
auto Paths::RankOf(size_t path) const {
  const Path& one = paths_[path];
  const size_t sessions = server_.has_value() ? one.sessions : 0;
  return std::tuple(one.is_foreign, one.has_failed, one.transport, IsReserve(path), sessions,
                    one.position);
}

std::optional<Paths::Use> Paths::Choose(const std::vector<bool>& tried, bool counts,
                                        bool alternates) {
  absl::MutexLock lock(&mutex_);
  std::optional<size_t> best;
  for (size_t path = 0; path < paths_.size(); ++path) {
    if (!paths_[path].is_listed || (path < tried.size() && tried[path])) continue;
    if (paths_[path].is_alternate && !alternates) continue;
    if (!best.has_value() || RankOf(path) < RankOf(*best)) best = path;
  }
  if (!best.has_value()) return std::nullopt;
  return Take(*best, counts ? 1 : 0);
}

bool Paths::IsSame(const std::optional<wire::ServerIdentityRes>& identity) const {
  if (!server_.has_value()) return true;  // there is nothing to compare
  return identity.has_value() && identity->server_id == server_->server_id;
}

absl::Status Paths::Reached(size_t path, const std::optional<wire::ServerIdentityRes>& identity) {
  absl::MutexLock lock(&mutex_);
  Path& reached = paths_[path];
  const bool is_news = !reached.is_foreign || reached.identity != identity;
  const bool is_first = !std::exchange(reached.was_reached, true);
  reached.has_failed = false;
  reached.identity = identity;
  const auto contradicts = [&](const Path& other) {
    if (!other.was_reached || !other.is_listed) return false;
    return other.identity.has_value() != identity.has_value() ||
           (identity.has_value() && other.identity->server_id != identity->server_id);
  };
  if (reached.is_alternate && !(identity.has_value() && server_.has_value())) {
    return absl::UnavailableError(
        absl::StrCat(reached.address.ToString(),
                     ": an alternate location, and a server without an identity; it is not used"));
  }
  if (!IsSame(identity)) {
    // An address that has never led to the server does not show that another one replaces it.
    if (is_first || std::any_of(paths_.begin(), paths_.end(), contradicts)) {
      reached.is_foreign = true;
      const std::string what = absl::StrCat(reached.address.ToString(), " leads to ",
                                            ServerText(identity), ", not to ", ServerText(server_));
      if (is_news) LogWarning(absl::StrCat(name_, ": ", what, "; no session uses it"));
      return absl::UnavailableError(what);
    }
    LogNotice(absl::StrCat(name_, ": ", ServerText(identity), " has replaced ", ServerText(server_),
                           " at all of its addresses"));
    for (Path& one : paths_) one.is_foreign = false;
    server_.reset();
  }
  reached.is_foreign = reached.is_alternate = false;
  if (identity.has_value()) {
    if (!server_.has_value()) family_ = reached.address.family();
    server_ = identity;
  }
  return absl::OkStatus();
}

void Paths::Failed(size_t path, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(paths_[path].has_failed, true)) return;
  paths_[path].probe_pause = retry_;
  paths_[path].next_probe = now + retry_;
}

std::optional<Paths::Use> Paths::DueProbe(size_t like, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const size_t transport = paths_[like].transport;
  if (std::string_view(providers_[transport]->name()) == "rdma") return std::nullopt;
  for (size_t path = 0; path < paths_.size(); ++path) {
    Path& one = paths_[path];
    if (!one.is_listed || one.transport != transport || !one.has_failed || one.is_foreign ||
        one.is_alternate || now < one.next_probe) {
      continue;
    }
    one.probe_pause = std::min(2 * one.probe_pause, kMostRetryPauses * retry_);
    one.next_probe = now + one.probe_pause;
    return Take(path, 0);
  }
  return std::nullopt;
}

std::optional<Paths::Use> Paths::Better(size_t path) {
  absl::MutexLock lock(&mutex_);
  if (!server_.has_value()) return std::nullopt;
  std::optional<size_t> best;
  for (size_t other = 0; other < paths_.size(); ++other) {
    const Path& one = paths_[other];
    if (other == path || !one.is_listed || one.transport != paths_[path].transport ||
        !one.was_reached || one.has_failed || one.is_foreign || IsReserve(other)) {
      continue;
    }
    if (!best.has_value() || RankOf(other) < RankOf(*best)) best = other;
  }
  if (!best.has_value()) return std::nullopt;
  if (!IsReserve(path) && paths_[*best].sessions + 1 >= paths_[path].sessions) return std::nullopt;
  return Take(*best, 1);
}

std::vector<Paths::Report> Paths::GetReport() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Report> reports;
  for (const Path& one : paths_) {
    if (!one.is_listed && one.uses == 0) continue;
    const char* const state = !one.is_listed     ? "not listed"
                              : one.is_foreign   ? "another server"
                              : one.is_alternate ? "alternate"
                              : one.has_failed   ? "failed"
                              : one.was_reached  ? "works"
                                                 : "unused";
    reports.push_back(
        {one.address.ToString(), providers_[one.transport]->name(), one.sessions, state});
  }
  return reports;
}

}  // namespace dafs::client
