// Predicts whether programs will use something that costs little to prefetch now and a round trip
// later. A saturating counter: each use adds points, and each prefetch takes one. Below, what the
// mount predicts.
//
// Thread-safe; nothing blocks. Two calls at once may count as one: a prediction may be wrong.
#pragma once

#include <algorithm>
#include <atomic>

namespace dafs::fuse {

class Habit {
 public:
  struct Terms {
    int at_first = 0;  // points until the first use or prefetch
    int of_use = 1;    // what one use adds
    int most = 1;      // prefetches without a use until the prediction ends
  };
  explicit Habit(const Terms& terms) : terms_(terms), points_(terms.at_first) {}
  Habit(const Habit&) = delete;
  Habit& operator=(const Habit&) = delete;

  // Whether to prefetch.
  bool Expected() const { return points_.load(std::memory_order_relaxed) > 0; }
  // It was prefetched.
  void Paid() { Add(-1); }
  // A program used it, or would have if it had been prefetched.
  void Used() { Add(terms_.of_use); }

 private:
  void Add(int points) {
    const int before = points_.load(std::memory_order_relaxed);
    const int after = std::clamp(before + points, 0, terms_.most);
    if (after != before) points_.store(after, std::memory_order_relaxed);
  }

  const Terms terms_;
  std::atomic<int> points_;  // publishes nothing
};

// Whether programs request a file's attributes after they have written to it, as git does and tar
// does not. Only then should the write request them too. Likewise for a directory in which a name
// was changed. A hit saves a round trip, and a prefetch costs one message.
inline constexpr Habit::Terms kStatAfterChange = {.at_first = 0, .of_use = 2, .most = 16};

// Whether programs request the ACLs of the files that they list, as ls -l does and find(1) does
// not. If so, the server is sent one request for the ACLs and the entries. A program requests the
// ACLs of files one after another, in the order of their listing. `most` parts of a listing are
// more than one, because ls(1) reads some before its first request.
inline constexpr Habit::Terms kAclsOfListing = {.at_first = 3, .of_use = 6, .most = 6};

// Whether programs list the directories that they open. ls does; a program that only syncs a
// directory does not. If so, OPENDIR reads the first entries, since it sends a request to the
// server anyway. The last directory decides.
inline constexpr Habit::Terms kListingOfOpened = {.at_first = 1, .of_use = 1, .most = 1};

}  // namespace dafs::fuse
