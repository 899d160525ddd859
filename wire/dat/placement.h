// Keeps a worker's thread on the CPU of the one that it takes turns with. Where a program, the
// worker that serves it and what the worker asks wait for each other in turn, no two of them ever
// run at once: apart, each hand-over costs the wake-up of a sleeping CPU, ten times the work itself
// where CPUs are virtual; together, a change of threads. Anything else (several under way, several
// to serve, much to copy) gets all CPUs the thread may use. Belongs to the thread it places.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>

#include "wire/dat/loop.h"

namespace dafs::dat {

class Placement {
 public:
  // Requests between two decisions, and how many of them may be of another kind.
  static constexpr uint32_t kWindow = 64;
  static constexpr uint32_t kOthers = 8;
  // What a request moves at most so that two CPUs could not share its work to any purpose.
  static constexpr uint32_t kSmallBytes = 64 * 1024;

  // `loop` is the thread's, and learns when its CPUs change. Borrowed.
  explicit Placement(Loop& loop) : loop_(loop) {}
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // A request of `who` (a program, a session) has come; `alone`: nothing else is under way on this
  // thread. True: the last of kWindow that took turns; then call Follow.
  bool Note(uint64_t who, bool alone);
  // The request under way is not one that takes turns after all.
  void NotAlone();
  // Binds the thread to `cpu`, where the other one is. Nullopt (it is elsewhere) and a CPU that the
  // thread may not use (taskset, cpusets) free it. Two system calls where `cpu` is a new one,
  // otherwise none.
  void Follow(std::optional<uint32_t> cpu);
  // Where it is bound. Nullopt: it is free.
  std::optional<uint32_t> bound() const { return bound_; }

 private:
  void Free();

  Loop& loop_;
  uint64_t who_ = 0;
  uint32_t seen_ = 0;
  uint32_t others_ = 0;
  std::optional<uint32_t> bound_;
  cpu_set_t allowed_;  // what the thread had before it was bound
};

}  // namespace dafs::dat
