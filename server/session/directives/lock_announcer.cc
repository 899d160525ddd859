#include "server/session/directives/lock_announcer.h"

#include <algorithm>
#include <optional>

#include "absl/status/statusor.h"
#include "server/session/directives/back_control.h"
#include "server/store/access/locks/lock_notices.h"
#include "wire/protocol/status.h"

namespace dafs::server {

LockAnnouncer::LockAnnouncer(Store& store) : store_(store) {
  store.lock_notices().SetSend(
      [this](const wire::ClientId& client_id, const wire::BcLockFreeArgs& args) {
        return Send(client_id, args);
      });
}

void LockAnnouncer::Bind(const wire::ClientId& client_id,
                         const std::shared_ptr<BackControlRoute>& route) {
  absl::MutexLock lock(&mutex_);
  routes_[client_id] = route;
}

void LockAnnouncer::Unbind(const std::shared_ptr<BackControlRoute>& route) {
  std::optional<wire::ClientId> client_id;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = std::find_if(routes_.begin(), routes_.end(),
                                    [&](const auto& entry) { return entry.second == route; });
    if (found == routes_.end()) return;  // the client has another channel by now
    client_id = found->first;
    routes_.erase(found);
  }
  store_.lock_notices().DropAwaiting(*client_id);
}

bool LockAnnouncer::Send(const wire::ClientId& client_id, const wire::BcLockFreeArgs& args) {
  std::shared_ptr<BackControlRoute> route;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = routes_.find(client_id);
    if (found == routes_.end()) return false;
    route = found->second;
  }
  route->loop.Post([route, args] {
    if (route->channel == nullptr) return;  // Unbind follows, or has dropped the wait
    // Whatever the client answers: if it does not come, its place expires.
    route->channel->Send(args, [](absl::StatusOr<wire::DafsStatus>) {});
  });
  return true;
}

}  // namespace dafs::server
