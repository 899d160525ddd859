#include "fuse/operations/shared/name_revalidation.h"

#include <optional>
#include <utility>

#include "runtime/loop/loop.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {

Task<bool> HasLostName(MountState& state, UserFiles& files, CallerIdentity user, InodeView node,
                       const wire::FileAttributes& attributes) {
  if (attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0) co_return true;
  if (!attributes.has(wire::kFattrChange)) co_return false;
  const uint64_t change = attributes.change;
  // What `use` returns for the names of the node; nothing if the kernel has forgotten it.
  const auto with_names = [&](auto&& use) {
    return state.caches.inodes.With(node.nodeid, [&](Inode* inode) {
      return inode != nullptr ? use(inode->names) : decltype(use(inode->names))();
    });
  };
  const auto dentry = with_names([&](InodeDentries& names) {
    const DentryName* unsure = names.NotSeenAt(change, Loop::Now());
    return unsure != nullptr ? std::optional<DentryName>(*unsure) : std::nullopt;
  });
  const std::optional<InodeView> parent =
      dentry.has_value() ? state.caches.inodes.Find(dentry->parent) : std::nullopt;
  if (parent.has_value()) {
    Task<absl::StatusOr<client::Node>> looking =
        files.Of(*user).names().Lookup(*user, parent->handle, dentry->name);
    const absl::StatusOr<client::Node> there = co_await looking;
    const wire::DafsStatus status = wire::DafsFromStatus(there.status());
    with_names([&](InodeDentries& names) {
      if (there.ok() && there->handle == node.handle) {
        names.Confirm(*dentry, change);
      } else if (there.ok() || status == wire::DafsStatus::kNoEnt ||
                 status == wire::DafsStatus::kStale) {
        names.Lose(*dentry);
      }
      return true;
    });
  }
  co_return with_names([&](InodeDentries& names) { return names.AnyLost(change, Loop::Now()); });
}

}  // namespace dafs::fuse
