// The state of libdafs-preload.so in its process. A fork clears it in the child (MADV_WIPEONFORK),
// so that a child never uses the sessions of its parent. Thread-safe, signals included; nothing
// blocks.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "client/preload/descriptor_table.h"

namespace dafs::preload {

struct State {
  DescriptorTable descriptors;
  OwnDescriptors own;
  std::atomic<pid_t> process;  // the owner of this state; 0: none yet

  // Each lane has one session. A thread that finds all of them in use reads through the mount.
  static constexpr size_t kLanes = 4;
  struct Lane {
    std::atomic<bool> is_used;  // by a thread, which alone may use `session`
    void* session = nullptr;    // of DirectCalls; null: not connected
  };
  std::array<Lane, kLanes> lanes;
  std::atomic<bool> is_making_client;
  std::atomic<void*> client;            // of DirectCalls
  std::atomic<int64_t> next_attempt_s;  // monotonic clock: no attempt to connect before this time
  // Counts lost sessions. Files of an earlier epoch are not read: see ReadEnd::kSessionLost.
  std::atomic<uint32_t> epoch;
  std::atomic<bool> abandoned;  // the sessions are never used again
};

// Null: this process cannot have a state, and the kernel reads everything. This holds also in a
// child of a process that had used libdafs before fork(2): a mutex of libdafs that another thread
// held then is never released in the child.
State* GetState();
// Records that this process has used libdafs, so that GetState returns null in later children.
void NoteUse();

// Whether the calling thread is inside libdafs, whose own calls of libc go to the kernel.
bool IsInside();
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int cancel_state_ = 0;  // C++ code must not be unwound by pthread_cancel(3)
  int errno_ = 0;
};

// Returns a free lane, if possible the one that this thread had before. Null: all are in use.
State::Lane* TakeLane(State& state);
inline void ReturnLane(State::Lane& lane) { lane.is_used.store(false); }

}  // namespace dafs::preload
