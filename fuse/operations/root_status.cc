#include "fuse/operations/root_status.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fuse/kernel/protocol.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {
namespace {

fuse_statfs_out KernelStatfs(const wire::FsAttributes& a) {
  fuse_statfs_out out = {};
  // The unit is a page, as df(1) expects, not the 512 bytes of st_blocks and du(1).
  constexpr uint32_t kBlock = 4096;
  out.st.bsize = kBlock;
  out.st.frsize = kBlock;
  out.st.blocks = a.space_total / kBlock;
  out.st.bfree = a.space_free / kBlock;
  out.st.bavail = a.space_available / kBlock;
  out.st.files = a.files_total;
  out.st.ffree = a.files_free;
  out.st.namelen = a.has(wire::kFsattrMaxName) ? std::min(a.max_name, 255u) : 255u;
  return out;
}

}  // namespace

// A race between the server's reply and a timer; the first resumes the call. Shared by the call,
// the request to the server and the timer.
struct RootStatus::Race {
  Pending<bool> first;
  bool answered = false;          // the server has replied
  absl::Status status;            // of that reply
  client::Attributes attributes;  // of the root, in that reply
  Loop::TimerId timer = 0;
  void Finish() {
    if (!first.is_set()) first.Set(true);
  }
};

// Checks with a NULL whether the server answers at all. Only one NULL is outstanding at a time.
Task<void> RootStatus::ProbeServer() {
  if (std::exchange(probing_, true)) co_return;
  absl::Status ignored = co_await files_.Null();
  probing_ = false;
  if (std::exchange(silent_, false)) {
    state_.root.silent_workers.fetch_sub(1, std::memory_order_relaxed);
  }
}

void RootStatus::NoteSilence() {
  if (!std::exchange(silent_, true)) {
    state_.root.silent_workers.fetch_add(1, std::memory_order_relaxed);
  }
}

void RootStatus::GiveUpLater(std::shared_ptr<Race> race) {
  const bool was_silent = state_.root.silent_workers.load(std::memory_order_relaxed) > 0 ||
                          files_.DisconnectedFor() >= kAskAfter;
  race->timer = files_.loop().RunAfter(was_silent ? kGlance : kAskAfter, [this, race, was_silent] {
    if (was_silent || files_.DisconnectedFor() > absl::ZeroDuration()) {
      race->Finish();
      return;
    }
    Start(ProbeServer());
    race->timer = files_.loop().RunAfter(kSilentAfter, [this, race] {
      if (probing_) {
        NoteSilence();
        race->Finish();
      } else {
        race->timer = files_.loop().RunAfter(kWaitForAnswer, [race] { race->Finish(); });
      }
    });
  });
}

Task<void> RootStatus::RefreshRoot(std::shared_ptr<Race> race, wire::FileHandle handle,
                                   CallerIdentity user) {
  absl::StatusOr<client::Attributes> attributes =
      co_await files_.attributes().GetAttributes(*user, handle);
  race->answered = true;
  race->status = attributes.status();
  if (attributes.ok()) {
    state_.caches.attributes.Learn(kRootNode, *attributes);
    race->attributes = *std::move(attributes);
  }
  race->Finish();
}

// The mount's own session asks. It acts for users only if they have no sessions of their own.
CallerIdentity RootStatus::Asker(const Call& call) const {
  return state_.users == nullptr ? CallerOf(state_, call) : std::make_shared<client::Identity>();
}

Task<void> RootStatus::Getattr(Call& call, InodeView root) {
  CallerIdentity user = Asker(call);
  auto race = std::make_shared<Race>();
  // None in a program that continues a mount, until the server has answered once.
  const std::optional<client::Attributes> last =
      state_.caches.attributes.LastOfDirectory(kRootNode);
  Start(RefreshRoot(race, root.handle, user));
  if (last.has_value()) GiveUpLater(race);
  co_await race->first;
  files_.loop().Cancel(race->timer);
  if (!race->status.ok()) {
    call.ReplyStatus(race->status);
  } else if (race->answered) {
    context_.attributes.Reply(call, call.nodeid(), race->attributes);
  } else {  // may be outdated
    context_.attributes.ReplyValidFor(
        call, state_.caches.attributes.LastOfDirectory(kRootNode).value_or(*last),
        absl::ZeroDuration());
  }
}

Task<void> RootStatus::RefreshStatfs(std::shared_ptr<Race> race, wire::FileHandle handle,
                                     CallerIdentity user) {
  absl::StatusOr<wire::FsAttributes> attributes =
      co_await files_.attributes().StatFs(*user, handle);
  if (attributes.ok()) state_.root.statfs.Set(*attributes);
  race->answered = true;
  race->status = attributes.status();
  race->Finish();
}

Task<void> RootStatus::Statfs(Call& call) {
  std::optional<InodeView> node = NodeOf(state_, call);
  if (!node) co_return;
  CallerIdentity user = Asker(call);
  auto race = std::make_shared<Race>();
  Start(RefreshStatfs(race, node->handle, user));
  if (state_.root.statfs.Get().valid != 0) GiveUpLater(race);
  co_await race->first;
  files_.loop().Cancel(race->timer);
  if (!race->status.ok()) {
    call.ReplyStatus(race->status);
    co_return;
  }
  fuse_statfs_out out = KernelStatfs(state_.root.statfs.Get());
  call.Reply({AsBytes(out)});
}

}  // namespace dafs::fuse
