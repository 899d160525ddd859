// Whether a program goes through the files of a directory in the order of their listing, as ls -l
// does, so that it is worth asking about the next ones ahead of it.
// Belongs to one worker's thread.
#pragma once

#include <cstdint>

namespace dafs::fuse {

class ListingWalk {
 public:
  // Files that are asked about ahead at once: two messages each, so that all of them and the one
  // that is waited for are half of the slots of a session.
  static constexpr int kMostAhead = 15;

  // A program asks about `node`. `expected`: what was listed behind last().
  void At(uint64_t node, uint64_t expected) {
    if (node == last_) return;
    in_order_ = last_ != 0 && expected == node;
    last_ = node;
    if (covered_ > 0) --covered_;
  }
  uint64_t last() const { return last_; }
  // Never more files are asked about ahead than programs asked about.
  bool WantsMore() const { return in_order_ && covered_ == 0; }
  // So many were asked about ahead.
  void Asked(int files) { covered_ = files; }
  // A file has what few files have: where there is one there are others, and asking ahead about
  // them saves nothing.
  void Vain() { covered_ = kMostAhead; }

 private:
  uint64_t last_ = 0;
  bool in_order_ = false;
  int covered_ = 0;
};

}  // namespace dafs::fuse
