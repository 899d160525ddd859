// A pause between attempts that doubles up to a limit. A value.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace dafs {

class DoublingPause {
 public:
  DoublingPause(absl::Duration first, absl::Duration most)
      : first_(first), most_(most), next_(first) {}

  absl::Duration next() const { return next_; }
  // The next pause is twice as long, at most the limit.
  void Grow() { next_ = std::min(next_ * 2, most_); }
  // The next pause is the first again.
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration most_;
  absl::Duration next_;
};

}  // namespace dafs
