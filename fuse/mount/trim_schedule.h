// Decides when to return the memory of forgotten nodes to the system: after many FORGETs, and once
// the kernel has stopped sending them, so that the search for free pages delays no request.
// Not thread-safe.
#pragma once

#include <cstdint>

namespace dafs::fuse {

class TrimSchedule {
 public:
  // Nodes; each holds half a kilobyte, and more if it had names and attributes.
  static constexpr uint64_t kWorthwhile = 4096;
  // If fewer nodes are forgotten between two calls of IsDue, the kernel is assumed to have stopped.
  static constexpr uint64_t kFew = 1024;

  // Called at regular intervals. `forgotten` is the number of nodes forgotten so far. Returns true
  // if the caller should trim now.
  bool IsDue(uint64_t forgotten) {
    const uint64_t lately = forgotten - seen_;
    seen_ = forgotten;
    if (forgotten - trimmed_ < kWorthwhile || lately >= kFew) return false;
    trimmed_ = forgotten;
    return true;
  }

 private:
  uint64_t seen_ = 0;
  uint64_t trimmed_ = 0;
};

}  // namespace dafs::fuse
