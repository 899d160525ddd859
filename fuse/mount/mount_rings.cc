#include "fuse/mount/mount_rings.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "fuse/kernel/rings/ring_plan.h"
#include "fuse/kernel/uring_protocol.h"

namespace dafs::fuse {
namespace {

// Initial entries of all queues together; usually fewer requests are outstanding. Each entry has
// room for the largest request, and takes memory once it has held one.
constexpr uint32_t kRingEntries = 64;
constexpr uint32_t kLeastPayload = 128u << 10;

}  // namespace

void MountRings::Make(Workers workers) {
  const Options& o = state_.options;
  RingPlan plan;
  plan.queues = PossibleCpus();
  plan.workers = static_cast<uint32_t>(workers.size());
  plan.entries = std::clamp(kRingEntries / std::max(plan.queues, 1u), 4u, 16u);
  plan.payload_bytes = o.wsize;
  plan.name = o.source.text;
  if (o.io_uring == IoUring::kOff) {
    why_not_ = "io_uring=off";
  } else if (plan.queues == 0) {
    why_not_ = "the number of CPUs is not known";
  } else if (o.wsize < kLeastPayload) {
    // The kernel requires this much room for an answer; an xattr's value has up to 64 KiB.
    why_not_ = "wsize is below " + std::to_string(kLeastPayload);
  }
  for (uint32_t i = 0; i < workers.size() && why_not_.empty(); ++i) {
    absl::Status made = workers[i]->ring().Make(plan, i);
    if (!made.ok()) why_not_ = std::string(made.message());
  }
  state_.kernel.wants_io_uring = why_not_.empty();
}

Outcome MountRings::Start(Workers workers) {
  if (state_.kernel.wants_io_uring && (state_.kernel.init.flags() & kInitOverIoUring) == 0) {
    why_not_ =
        "the kernel does not offer it: /sys/module/fuse/parameters/enable_uring has to be Y before "
        "the mount";
  }
  for (auto& worker : workers) {
    if (!why_not_.empty()) {
      worker->ring().Drop();
    } else if (absl::Status started = worker->ring().Start(); !started.ok()) {
      why_not_ = std::string(started.message());
    }
  }
  if (why_not_.empty() || state_.options.io_uring != IoUring::kOn) return {};
  return {ExitCode::kSystem, "io_uring=on: " + why_not_};
}

}  // namespace dafs::fuse
