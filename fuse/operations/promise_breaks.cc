#include "fuse/operations/promise_breaks.h"

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

#include "fuse/kernel/notifications/memory_pressure.h"
#include "runtime/status_macros.h"
#include "wire/messages/promises.h"

namespace dafs::fuse {
namespace {

// The kernel may not have the node of an answer yet that it has been sent. It either gets it soon,
// or has forgotten it, which is then read soon.
constexpr absl::Duration kAskAgain = absl::Milliseconds(1);
constexpr absl::Duration kNodeWithin = absl::Seconds(1);
// A LOOKUP of a known name holds no lock of the kernel. Its answer has been accepted after this
// time, so that an expired name stays expired.
constexpr absl::Duration kTaken = absl::Milliseconds(50);

}  // namespace

// One announced change, until all that it concerns is dropped. Thread-safe.
class PromiseBreaks::Break {
 public:
  explicit Break(absl::AnyInvocable<void()> dropped) : dropped_(std::move(dropped)) {}

  // Something more is to be dropped; it has been dropped. The maker of the break has one to begin
  // with.
  void Begin() { left_.fetch_add(1, std::memory_order_relaxed); }
  void End() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish();
  }
  // Does not wait for the rest.
  void Finish() {
    if (!finished_.exchange(true, std::memory_order_acq_rel)) dropped_();
  }
  bool finished() const { return finished_.load(std::memory_order_acquire); }

 private:
  std::atomic<size_t> left_{1};
  std::atomic<bool> finished_{false};
  absl::AnyInvocable<void()> dropped_;
};

absl::StatusOr<std::unique_ptr<PromiseBreaks>> PromiseBreaks::Start(MountState& state,
                                                                    UniqueFd device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create({.max_spin = absl::ZeroDuration()}));
  std::unique_ptr<PromiseBreaks> breaks(
      new PromiseBreaks(state, std::move(device), std::move(loop)));
  breaks->thread_ = std::thread([self = breaks.get()] {
    BecomeIoFlusher();
    self->loop_->Run();
  });
  return breaks;
}

PromiseBreaks::PromiseBreaks(MountState& state, UniqueFd device, std::unique_ptr<Loop> loop)
    : state_(state), channel_(std::move(device)), loop_(std::move(loop)) {}

PromiseBreaks::~PromiseBreaks() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

void PromiseBreaks::OnChanged(const wire::FileHandle& object, uint32_t what,
                              const std::string& name, absl::AnyInvocable<void()> dropped) {
  if (state_.caches.inodes.NodesOf(object).empty()) {
    dropped();
    return;
  }
  auto broken = std::make_shared<Break>(std::move(dropped));
  loop_->Post([this, broken, object, what, name] {
    for (const uint64_t nodeid : state_.caches.inodes.NodesOf(object)) {
      if ((what & wire::kChangedAttributes) != 0) DropAttributes(broken, nodeid, Loop::Now());
      if ((what & wire::kChangedNames) != 0) DropNames(broken, nodeid, name);
    }
    broken->End();
  });
}

// The kernel also discards attributes that it requested before this. But a program may use the old
// ones for as long as answers are discarded: until the node's pages are dropped, too.
void PromiseBreaks::DropAttributes(const BreakPtr& broken, uint64_t nodeid, absl::Time since) {
  if (channel_.ForgetAttributes(nodeid)) {
    state_.caches.attributes.Invalidated(nodeid);
    AwaitPages(broken, nodeid);
    return;
  }
  // While the kernel still has to make the node of an answer, that answer must be dropped later.
  if (!state_.caches.inodes.Find(nodeid).has_value() || Loop::Now() - since > kNodeWithin) return;
  broken->Begin();
  loop_->RunAfter(kAskAgain, [this, broken, nodeid, since] {
    DropAttributes(broken, nodeid, since);
    broken->End();
  });
}

void PromiseBreaks::AwaitPages(const BreakPtr& broken, uint64_t nodeid) {
  broken->Begin();
  auto pages = std::make_shared<Break>([broken] { broken->End(); });
  if (state_.notifier->AfterDrops(nodeid, [pages] { pages->End(); })) return;
  loop_->RunAfter(kPatience, [this, pages, nodeid] { EndIfChanging(pages, nodeid); });
}

void PromiseBreaks::EndIfChanging(const BreakPtr& pages, uint64_t nodeid) {
  if (pages->finished()) return;
  if (state_.caches.attributes.IsChanging(nodeid)) return pages->Finish();
  loop_->RunAfter(kPatience, [this, pages, nodeid] { EndIfChanging(pages, nodeid); });
}

// `name` empty: all names. Most of them do not change, so the kernel keeps what they lead to.
void PromiseBreaks::DropNames(const BreakPtr& broken, uint64_t directory, const std::string& name) {
  const absl::Time now = Loop::Now();
  bool any = false;
  if (name.empty()) {
    for (DirectoryNames::Name& one : state_.caches.directory_names.NamesOf(directory, now)) {
      DropName(broken, directory, std::move(one), KernelChannel::NameDrop::kExpire);
      any = true;
    }
  } else if (auto one = state_.caches.directory_names.Find(directory, name, now)) {
    const std::optional<InodeView> node = state_.caches.inodes.Find(one->nodeid);
    const bool is_directory = node.has_value() && node->type == wire::ObjectType::kDir;
    DropName(broken, directory, *std::move(one),
             is_directory ? KernelChannel::NameDrop::kExpire : KernelChannel::NameDrop::kRemove);
    any = true;
  }
  if (state_.caches.directory_names.ListingOf(directory).cached) {
    broken->Begin();
    state_.notifier->DropListing(directory, [broken] { broken->End(); });
    any = true;
  }
  if (any) {
    loop_->RunAfter(kPatience, [this, broken, directory] { LosePatience(broken, directory); });
  }
}

void PromiseBreaks::DropName(const BreakPtr& broken, uint64_t directory, DirectoryNames::Name name,
                             KernelChannel::NameDrop how) {
  broken->Begin();
  auto drop = [this, broken, directory, how, text = std::move(name.name)]() mutable {
    state_.notifier->DropName(directory, std::move(text), how, [broken] { broken->End(); });
  };
  const absl::Duration wait = name.given + kTaken - Loop::Now();
  if (how == KernelChannel::NameDrop::kExpire && wait > absl::ZeroDuration()) {
    loop_->RunAfter(wait, std::move(drop));
  } else {
    drop();
  }
}

void PromiseBreaks::LosePatience(const BreakPtr& broken, uint64_t directory) {
  if (broken->finished()) return;
  if (state_.caches.attributes.IsChanging(directory)) {
    state_.caches.directory_names.Distrust(directory, Loop::Now() + kDistrustFor);
    broken->Finish();
    return;
  }
  loop_->RunAfter(kPatience, [this, broken, directory] { LosePatience(broken, directory); });
}

// All is dropped at once, so that a mount that was out of reach soon shows the changes made since.
// Answers on their way to the kernel are dropped when they have arrived.
void PromiseBreaks::OnVoid(absl::AnyInvocable<void()> dropped) {
  auto broken = std::make_shared<Break>(std::move(dropped));
  loop_->Post([this, broken] {
    DropAll(broken);
    loop_->RunAfter(kTaken, [this, broken] {
      DropAll(broken);
      broken->End();
    });
  });
}

// Attributes first: they do not wait for the locks of directories.
void PromiseBreaks::DropAll(const BreakPtr& broken) {
  const absl::Time now = Loop::Now();
  for (uint64_t shard = 0; shard < InodeTable::kShards; ++shard) {
    for (const uint64_t nodeid : state_.caches.attributes.KeptByKernel(shard, now)) {
      DropAttributes(broken, nodeid, now);
    }
  }
  for (uint64_t shard = 0; shard < InodeTable::kShards; ++shard) DropNamesOf(shard, broken, now);
}

void PromiseBreaks::DropNamesOf(uint64_t shard, const BreakPtr& broken, absl::Time now) {
  const auto expire = [&](uint64_t directory, std::string name) {
    DropName(broken, directory, {.name = std::move(name), .given = absl::InfinitePast()},
             KernelChannel::NameDrop::kExpire);
  };
  for (const uint64_t directory : state_.caches.directory_names.Directories(shard)) {
    if (state_.caches.directory_names.ListingOf(directory).cached) {
      broken->Begin();
      state_.notifier->DropListing(directory, [broken] { broken->End(); });
    }
    for (DirectoryNames::Name& name : state_.caches.directory_names.NamesOf(directory, now)) {
      expire(directory, std::move(name.name));
    }
  }
}

}  // namespace dafs::fuse
