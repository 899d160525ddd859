// Predicts whether programs list the directories that they open. ls does; a program that only syncs
// a directory does not. If so, OPENDIR reads the first entries, since it sends a request to the
// server anyway. Belongs to one worker's thread.
#pragma once

namespace dafs::fuse {

class ListingHabit {
 public:
  bool Expected() const { return expected_; }
  void Closed(bool was_listed) { expected_ = was_listed; }

 private:
  bool expected_ = true;
};

}  // namespace dafs::fuse
