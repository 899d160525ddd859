#include "client/status/failover_keeper.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/files/files.h"
#include "runtime/log.h"
#include "runtime/task.h"
#include "wire/dat/address.h"

namespace dafs::client {
namespace {

constexpr size_t kMostAlternates = 64;  // addresses of all alternate locations
constexpr absl::Duration kLeastPause = absl::Milliseconds(200);  // between fetches

absl::StatusOr<std::vector<dat::Address>> AddressesOf(const std::string& server) {
  std::string host;
  uint16_t port = dat::kDefaultPort;
  absl::Status split = dat::SplitHostPort(server, &host, &port);
  if (!split.ok()) return split;
  return dat::ResolveHost(host, port);
}

}  // namespace

void FailoverKeeper::Start() {
  client_.failover().OnDue([this] { loop_.Post([this] { FetchSoon(); }); },
                           [this] { loop_.Post([this] { Resolve(); }); });
  loop_.Post([this] { Resolve(); });  // of what the mount has fetched before
}

// A server may set its flag in each answer and never clear it.
void FailoverKeeper::FetchSoon() {
  if (is_shut_down_) return;
  const absl::Time now = Loop::Now();
  next_fetch_ = std::max(now, next_fetch_);
  timer_ = loop_.RunAfter(next_fetch_ - now, [this] {
    timer_ = 0;
    Fetch();
  });
  next_fetch_ += kLeastPause;
}

// The first worker fetches for all.
void FailoverKeeper::Fetch() {
  bool asked = false;
  client_.ForEachWorker([&asked](Files& files) {
    if (std::exchange(asked, true)) return;
    files.loop().Post([&files] { dafs::Start(files.attributes().FetchLocations()); });
  });
}

void FailoverKeeper::Resolve() {
  if (is_shut_down_) return;
  if (job_ != nullptr) job_->Cancel();
  const auto found = std::make_shared<std::vector<dat::Address>>();
  auto work = [found, servers = client_.failover().Servers(),
               name = client_.options().server_name] {
    for (const std::string& server : servers) {
      const absl::StatusOr<std::vector<dat::Address>> addresses = AddressesOf(server);
      if (!addresses.ok()) {
        LogWarning(absl::StrCat(name, ": alternate location ", absl::CHexEscape(server), ": ",
                                addresses.status().message(), "; it is not used until it changes"));
        continue;
      }
      for (const dat::Address& address : *addresses) {
        if (found->size() < kMostAlternates) found->push_back(address);
      }
    }
  };
  job_ = names_.Run(loop_, std::move(work), [this, found] {
    job_ = nullptr;
    client_.paths().SetAlternates(*found);
  });
}

void FailoverKeeper::Shutdown() {
  is_shut_down_ = true;
  loop_.Cancel(std::exchange(timer_, 0));
  client_.failover().OnDue(nullptr, nullptr);
  if (job_ != nullptr) std::exchange(job_, nullptr)->Cancel();
}

}  // namespace dafs::client
