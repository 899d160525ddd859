#include "client/state/paths.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log.h"

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
    : name_(std::move(name)),
      providers_(providers),
      addresses_(addresses),
      retry_(retry),
      count_(providers.size() * addresses.size()),
      several_(HaveSeveralPaths(addresses)),
      paths_(count_) {}

Paths::Use::~Use() {
  if (paths_ != nullptr) paths_->Leave(path_, weight_);
}

void Paths::Leave(size_t path, size_t weight) {
  absl::MutexLock lock(&mutex_);
  paths_[path].sessions -= weight;
}

// An address of another family than that at which the server was found: used if no other works.
bool Paths::IsReserve(size_t path) const {
  return server_.has_value() && address(path).family() != family_;
}

// The path with the lowest rank is tried first.
auto Paths::RankOf(size_t path) const {
  const Path& one = paths_[path];
  const size_t sessions = server_.has_value() ? one.sessions : 0;
  return std::tuple(one.is_foreign, one.has_failed, TransportOf(path), IsReserve(path), sessions,
                    path);
}

std::optional<Paths::Use> Paths::Choose(const std::vector<bool>& tried, bool counts) {
  absl::MutexLock lock(&mutex_);
  std::optional<size_t> best;
  for (size_t path = 0; path < count_; ++path) {
    if (!tried[path] && (!best.has_value() || RankOf(path) < RankOf(*best))) best = path;
  }
  if (!best.has_value()) return std::nullopt;
  const size_t weight = counts ? 1 : 0;
  paths_[*best].sessions += weight;
  return Use(this, *best, weight);
}

bool Paths::IsSame(const std::optional<wire::ServerIdentityRes>& identity) const {
  if (!server_.has_value()) return true;  // there is nothing to compare
  return identity.has_value() && identity->server_id == server_->server_id;
}

absl::Status Paths::Reached(size_t path, const std::optional<wire::ServerIdentityRes>& identity) {
  absl::MutexLock lock(&mutex_);
  Path& reached = paths_[path];
  const bool is_news = !reached.is_foreign || reached.identity != identity;
  reached.was_reached = true;
  reached.has_failed = false;
  reached.identity = identity;
  const auto contradicts = [&](const Path& other) {
    if (!other.was_reached) return false;
    return other.identity.has_value() != identity.has_value() ||
           (identity.has_value() && other.identity->server_id != identity->server_id);
  };
  if (!IsSame(identity)) {
    if (std::any_of(paths_.begin(), paths_.end(), contradicts)) {
      reached.is_foreign = true;
      const std::string what = absl::StrCat(address(path).ToString(), " leads to ",
                                            ServerText(identity), ", not to ", ServerText(server_));
      if (is_news) LogWarning(absl::StrCat(name_, ": ", what, "; no session uses it"));
      return absl::UnavailableError(what);
    }
    LogNotice(absl::StrCat(name_, ": ", ServerText(identity), " has replaced ", ServerText(server_),
                           " at all of its addresses"));
    for (Path& one : paths_) one.is_foreign = false;
    server_.reset();
  }
  reached.is_foreign = false;
  if (identity.has_value()) {
    if (!server_.has_value()) family_ = address(path).family();
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

std::optional<size_t> Paths::DueProbe(size_t like, absl::Time now) {
  if (std::string_view(provider(like).name()) == "rdma") return std::nullopt;
  absl::MutexLock lock(&mutex_);
  for (size_t path = 0; path < count_; ++path) {
    Path& one = paths_[path];
    if (TransportOf(path) != TransportOf(like) || !one.has_failed || one.is_foreign ||
        now < one.next_probe) {
      continue;
    }
    one.probe_pause = std::min(2 * one.probe_pause, kMostRetryPauses * retry_);
    one.next_probe = now + one.probe_pause;
    return path;
  }
  return std::nullopt;
}

std::optional<Paths::Use> Paths::Better(size_t path) {
  absl::MutexLock lock(&mutex_);
  if (!server_.has_value()) return std::nullopt;
  std::optional<size_t> best;
  for (size_t other = 0; other < count_; ++other) {
    const Path& one = paths_[other];
    if (other == path || TransportOf(other) != TransportOf(path) || !one.was_reached ||
        one.has_failed || one.is_foreign || IsReserve(other)) {
      continue;
    }
    if (!best.has_value() || RankOf(other) < RankOf(*best)) best = other;
  }
  if (!best.has_value()) return std::nullopt;
  if (!IsReserve(path) && paths_[*best].sessions + 1 >= paths_[path].sessions) return std::nullopt;
  ++paths_[*best].sessions;
  return Use(this, *best, 1);
}

std::vector<Paths::Report> Paths::GetReport() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Report> reports;
  for (size_t path = 0; path < count_; ++path) {
    const Path& one = paths_[path];
    const char* const state = one.is_foreign    ? "another server"
                              : one.has_failed  ? "failed"
                              : one.was_reached ? "works"
                                                : "unused";
    reports.push_back({address(path).ToString(), provider(path).name(), one.sessions, state});
  }
  return reports;
}

}  // namespace dafs::client
