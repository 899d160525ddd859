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
  std::atomic<pid_t> process;  // that made this; 0: none has

  // One session each. A thread that finds all in use reads by the mount.
  static constexpr size_t kLanes = 4;
  struct Lane {
    std::atomic<bool> is_used;  // by a thread, which alone may use `session`
    void* session = nullptr;    // of DirectCalls; null: not connected
  };
  std::array<Lane, kLanes> lanes;
  std::atomic<bool> is_making_client;
  std::atomic<void*> client;            // of DirectCalls
  std::atomic<int64_t> next_attempt_s;  // of the monotonic clock: no connection is tried before it
  // Counts lost sessions. Files of an earlier epoch are not read: see ReadEnd::kSessionLost.
  std::atomic<uint32_t> epoch;
  std::atomic<bool> abandoned;  // the sessions are never used again
};

// Null: this process cannot have one, and everything passes through. Also in a child of a process
// whose libdafs was in use when it forked: locks of its threads may never be released there.
State* GetState();
// From now on children are such.
void NoteUse();

// Whether the calling thread is in libdafs. Its own system calls pass through.
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

// A lane for the calling thread, the same if possible. Null: all are in use.
State::Lane* TakeLane(State& state);
inline void ReturnLane(State::Lane& lane) { lane.is_used.store(false); }

}  // namespace dafs::preload
