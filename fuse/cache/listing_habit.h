// Whether programs list the directories that they open, as ls does and whoever only syncs one does
// not: then the first entries are read with OPENDIR, which asks the server something anyway.
// Belongs to one worker's thread.
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
