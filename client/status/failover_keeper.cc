#include "client/status/failover_keeper.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/files/files.h"
#include "runtime/log/log.h"
#include "runtime/loop/task.h"
#include "wire/dat/address.h"

namespace dafs::client {
namespace {

constexpr size_t kMostAlternates = 64;  // addresses of all alternate locations
// Between fetches. The long ones are for a server that sets its flag in each answer: one that never
// clears it, or one that waits for the fetch of a file system to which the client has no handle.
constexpr absl::Duration kLeastPause = absl::Milliseconds(400);
constexpr absl::Duration kMostPause = absl::Minutes(1);

absl::StatusOr<std::vector<dat::Address>> AddressesOf(const std::string& server) {
  std::string host;
  uint16_t port = dat::kDefaultPort;
  absl::Status split = dat::SplitHostPort(server, &host, &port);
  if (!split.ok()) return split;
  return dat::ResolveHost(host, port);
}

}  // namespace

FailoverKeeper::FailoverKeeper(Client& client, Loop& loop)
    : client_(client), loop_(loop), pauses_(kLeastPause, kMostPause) {}

void FailoverKeeper::Start() {
  client_.failover().OnDue(
      [this] { loop_.Post([this] { FetchSoon(); }); },
      [this](bool has_news) { loop_.Post([this, has_news] { Fetched(has_news); }); });
  loop_.Post([this] { Resolve(); });  // of what the mount has fetched before
}

void FailoverKeeper::FetchSoon() {
  if (is_shut_down_) return;
  const absl::Time now = Loop::Now();
  if (now > next_fetch_ + kMostPause) pauses_.Reset();  // the flag was clear for long
  const absl::Duration pause = std::max(absl::ZeroDuration(), next_fetch_ - now);
  timer_ = loop_.RunAfter(pause, [this] {
    timer_ = 0;
    Fetch();
  });
}

// The first worker fetches for all.
void FailoverKeeper::Fetch() {
  bool asked = false;
  client_.ForEachWorker([&asked](Files& files) {
    if (std::exchange(asked, true)) return;
    files.loop().Post([&files] { dafs::Start(files.attributes().FetchLocations()); });
  });
}

// Runs before the FetchSoon that EndFetch may post.
void FailoverKeeper::Fetched(bool has_news) {
  if (has_news) pauses_.Reset();
  next_fetch_ = Loop::Now() + pauses_.Next();
  Resolve();
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
