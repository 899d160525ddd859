// How many entries of a queue are held, and whether the queue starves (ring.h): all its entries are
// held, and none was answered since the last check. Decides how many entries the queue gets, and
// how many requests the kernel is to send so that it looks at those that it keeps.
// A value; belongs to the worker's thread.
#pragma once

#include <cstddef>

namespace dafs::fuse {

class RingLoad {
 public:
  // The limit for one queue: no more calls than this are expected to wait at once. Each entry costs
  // two pages, and the memory of its largest request.
  static constexpr size_t kMostEntries = 4096;

  // The kernel may use `count` more entries, or has released one.
  void Add(size_t count) { usable_ += count; }
  void Release() { --usable_; }
  // The kernel has put a request into an entry. Returns true if all entries are now held: the queue
  // must then be checked after a while.
  bool Take() { return ++held_ == usable_; }
  // A request was answered. The kernel reuses its entry, and looks at the requests that it keeps.
  void Answer() {
    --held_;
    answered_ = true;
  }

  // Begins to watch: Check counts answers from here.
  void Watch() { answered_ = false; }
  // Returns how many entries to add because the queue starves; 0: it does not.
  size_t Check() {
    if (held_ == 0) unkicked_ = 0;  // the last answer fetched no request
    if (!full() || answered_ || usable_ >= kMostEntries) return 0;
    return usable_;  // double them: a caller that waits for a lock is seldom the only one
  }
  // `count` entries were added because the queue starved. The kernel uses new entries only for new
  // requests, so it must send as many.
  void Grew(size_t count) { unkicked_ += count; }
  // How many requests the kernel is to send still.
  size_t unkicked() const { return unkicked_; }
  void Kicked() { unkicked_ = 0; }
  // Whether all entries are held.
  bool full() const { return held_ >= usable_ && usable_ > 0; }

 private:
  size_t usable_ = 0;  // entries that the kernel has not released
  size_t held_ = 0;    // those with a request that is not answered
  size_t unkicked_ = 0;
  bool answered_ = false;  // since Watch
};

}  // namespace dafs::fuse
