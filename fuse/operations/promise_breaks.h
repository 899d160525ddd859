// Drops from the kernel's caches what the server is about to change, and then lets the server go on
// (WIRE 9.6). Attributes are dropped at once. A name waits for the lock of its directory, so the
// Notifier drops it.
//
// Two mounts that change names in one directory could wait for each other: each holds the lock of
// its own kernel until the server answers, and the server waits until the other has dropped a name.
// So a change of names by this mount does not delay the answer to the server for longer than
// kPatience. The kernel then keeps no names of that directory for kDistrustFor.
//
// A name that leads to a directory is expired, not removed, because the kernel would detach file
// systems that are mounted on it.
//
// Has a thread with a loop. Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/state/promises.h"
#include "fuse/cache/directories/directory_names.h"
#include "fuse/kernel/channel.h"
#include "fuse/operations/shared/mount_state.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class PromiseBreaks : public client::PromiseObserver {
 public:
  static constexpr absl::Duration kPatience = absl::Milliseconds(20);
  static constexpr absl::Duration kDistrustFor = absl::Seconds(30);

  // `device`: an end of the mount's connection, of which no requests are read. `state`, with its
  // notifier, must outlive this.
  static absl::StatusOr<std::unique_ptr<PromiseBreaks>> Start(MountState& state, UniqueFd device);
  // Changes that still wait are not answered by this, but by the notifier.
  ~PromiseBreaks() override;
  PromiseBreaks(const PromiseBreaks&) = delete;
  PromiseBreaks& operator=(const PromiseBreaks&) = delete;

  void OnChanged(const wire::FileHandle& object, uint32_t what, const std::string& name,
                 absl::AnyInvocable<void()> dropped) override;
  void OnVoid(absl::AnyInvocable<void()> dropped) override;

 private:
  class Break;
  using BreakPtr = std::shared_ptr<Break>;  // of the loop, and of the notifications that it awaits

  PromiseBreaks(MountState& state, UniqueFd device, std::unique_ptr<Loop> loop);

  void Drop(const BreakPtr& broken, const wire::FileHandle& object, uint32_t what,
            const std::string& name);
  void DropAttributes(const BreakPtr& broken, uint64_t nodeid, absl::Time since);
  // Waits for drops of the node's pages. They may wait for a change by this mount, which may wait
  // for another mount that waits likewise: then not for longer than kPatience.
  void AwaitPages(const BreakPtr& broken, uint64_t nodeid);
  void EndIfChanging(const BreakPtr& pages, uint64_t nodeid);
  void DropNames(const BreakPtr& broken, uint64_t directory, const std::string& name);
  void DropName(const BreakPtr& broken, uint64_t directory, DirectoryNames::Name name,
                KernelChannel::NameDrop how);
  void LosePatience(const BreakPtr& broken, uint64_t directory);
  void DropAll(const BreakPtr& broken);
  void DropNamesOf(uint64_t shard, const BreakPtr& broken, absl::Time now);

  MountState& state_;
  KernelChannel channel_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace dafs::fuse
