// Which queues of the kernel's io_uring each worker of a mount serves, and how large they are.
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dafs::fuse {

// The queues that the workers of a mount serve, and their sizes.
struct RingPlan {
  uint32_t queues = 0;       // of the mount: the possible CPUs
  uint32_t workers = 1;      // of the mount
  uint32_t entries = 16;     // of each queue at first
  size_t payload_bytes = 0;  // whole pages; the largest READ, WRITE, name or value
  std::string name;          // "server:/export", for the log

  // The queues of worker `number`. Each queue has a worker, and each worker has a queue.
  std::vector<uint16_t> QueuesOf(uint32_t number) const;
};

// The number of CPUs that this machine may ever have; 0: unknown.
uint32_t PossibleCpus();

}  // namespace dafs::fuse
