// Whether programs ask for a file's attributes once they have written to it, as git does and tar
// does not: only then is it worth asking the server for them along with the write. Likewise for a
// directory in which a name was changed.
// Belongs to one worker's thread.
#pragma once

#include <algorithm>

namespace dafs::fuse {

class StatHabit {
 public:
  // Whether to ask for attributes with the next change.
  bool Expected() const { return points_ > 0; }
  // It was done for a change.
  void Paid() { points_ = std::max(points_ - 1, 0); }
  // Something was changed, and asked for next.
  void Asked() { points_ = std::min(points_ + kOfQuestion, kMost); }

 private:
  static constexpr int kOfQuestion = 2;  // it saves a round trip, and costs a message of a chain
  static constexpr int kMost = 16;       // so many changes in vain, and it ends

  int points_ = 0;
};

}  // namespace dafs::fuse
