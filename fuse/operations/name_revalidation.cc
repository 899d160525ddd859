#include "fuse/operations/name_revalidation.h"

#include <utility>

#include "runtime/loop.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {

// Looks up `places`, and records which of them still lead to the node. `change` is the CHANGE that
// the node had before; nullopt: use the CHANGE that the lookup returns.
Task<void> NameRevalidation::LookAtNames(CallerIdentity who, InodeView node, Places places,
                                         std::optional<uint64_t> change,
                                         std::shared_ptr<Looking> looking) {
  for (const Place& place : places) {
    const std::optional<InodeView> parent = state_.inodes.Find(place.parent);
    if (!parent.has_value()) continue;
    const absl::Time asked = Loop::Now();
    Task<absl::StatusOr<client::Node>> look =
        files_.names().Lookup(*who, parent->handle, place.name);
    absl::StatusOr<client::Node> there = co_await look;
    const wire::DafsStatus status = wire::DafsFromStatus(there.status());
    if (there.ok() && there->handle == node.handle) {
      state_.names.Confirm(node.nodeid, place, change.value_or(there->attributes.change), asked);
    } else if (there.ok() || status == wire::DafsStatus::kNoEnt ||
               status == wire::DafsStatus::kStale) {
      state_.names.Lose(node.nodeid, place);
    }
  }
  if (looking != nullptr) looking->done.Set(true);
}

std::shared_ptr<NameRevalidation::Looking> NameRevalidation::LookAtLikelyOld(
    const CallerIdentity& who, const InodeView& node) {
  Places places = state_.names.LikelyOld(node.nodeid, Loop::Now());
  if (places.empty()) return nullptr;
  auto looking = std::make_shared<Looking>();
  const client::Files::Gathering gathering(files_, true);  // the OPEN follows at once
  Start(LookAtNames(who, node, std::move(places), std::nullopt, looking));
  return looking;
}

Task<bool> NameRevalidation::HasLostName(const CallerIdentity& who, const InodeView& node,
                                         const wire::FileAttributes& attributes) {
  if (attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0) co_return true;
  if (!attributes.has(wire::kFattrChange)) co_return false;
  Places places = state_.names.NotSeenAt(node.nodeid, attributes.change, Loop::Now());
  if (!places.empty()) {
    Task<void> looking = LookAtNames(who, node, std::move(places), attributes.change, nullptr);
    co_await looking;
  }
  co_return state_.names.AnyLost(node.nodeid, attributes.change, Loop::Now());
}

}  // namespace dafs::fuse
