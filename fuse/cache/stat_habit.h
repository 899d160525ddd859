// Predicts whether programs request a file's attributes after they have written to it, as git does
// and tar does not. Only then should the write request them too. Likewise for a directory in which
// a name was changed. Belongs to one worker's thread.
#pragma once

#include <algorithm>

namespace dafs::fuse {

class StatHabit {
 public:
  // Whether to request attributes with the next change.
  bool Expected() const { return points_ > 0; }
  // Attributes were requested with a change.
  void Paid() { points_ = std::max(points_ - 1, 0); }
  // Records that a program requested attributes right after a change.
  void Asked() { points_ = std::min(points_ + kOfQuestion, kMost); }

 private:
  static constexpr int kOfQuestion = 2;  // a hit saves a round trip, a try costs one message
  static constexpr int kMost = 16;       // changes without a hit until the prediction ends

  int points_ = 0;
};

}  // namespace dafs::fuse
