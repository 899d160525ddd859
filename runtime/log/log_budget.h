// Bounds how many lines of one kind a thread logs, so that a flood of events does not flood the
// log. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace dafs {

class LogBudget {
 public:
  static constexpr absl::Duration kEvery = absl::Seconds(10);
  static constexpr uint32_t kMost = 10;  // lines in each period

  // Whether an event at `now` may be logged.
  bool Admits(absl::Time now) {
    if (now - since_ >= kEvery) {
      since_ = now;
      used_ = 0;
    }
    if (used_ < kMost) {
      ++used_;
      return true;
    }
    ++left_out_;
    return false;
  }
  // The end of a line that is logged: how many events were not, since the last call. Empty: none.
  std::string TakeLeftOut() {
    const uint64_t count = std::exchange(left_out_, 0);
    return count > 0 ? absl::StrCat("; ", count, " more were not logged") : std::string();
  }

 private:
  absl::Time since_ = absl::InfinitePast();
  uint32_t used_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace dafs
