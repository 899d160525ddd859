// Detects that a program visits the files of a directory in the order of their listing, as ls -l
// does. Prefetching for the next files is then worthwhile. Tracks how far the prefetch has come.
// Belongs to one worker's thread.
#pragma once

#include <cstdint>

namespace dafs::fuse {

class ListingWalk {
 public:
  // The number of files to prefetch. Each takes two messages, so that these files and the one that
  // the program waits for use half of the slots of a session.
  static constexpr int kMostAhead = 15;
  // When this many are left, the next are prefetched, so that their replies arrive in time.
  static constexpr int kFewLeft = 7;

  // A program requests an attribute of `node`. `expected`: the node listed after last().
  void At(uint64_t node, uint64_t expected) {
    if (node == last_) return;
    in_order_ = last_ != 0 && expected == node;
    last_ = node;
    if (left_ > 0) --left_;
    if (!in_order_ || left_ == 0) ahead_ = 0;
  }
  uint64_t last() const { return last_; }
  bool in_order() const { return in_order_; }

  // How many files to prefetch after from(). A walk that ends has prefetched at most kMostAhead
  // files needlessly.
  int Wanted() const {
    return in_order_ && left_ <= (ahead_ != 0 ? kFewLeft : 0) ? kMostAhead - left_ : 0;
  }
  uint64_t from() const { return ahead_ != 0 ? ahead_ : last_; }
  // `files` more were prefetched, and `node` is the last of them.
  void Asked(int files, uint64_t node) {
    left_ += files;
    if (files > 0) ahead_ = node;
  }
  // A file has an attribute that few files have. Others nearby probably have it too. Prefetching
  // saves nothing for them, so it pauses.
  void Vain() {
    left_ = kMostAhead;
    ahead_ = 0;
  }

 private:
  uint64_t last_ = 0;
  bool in_order_ = false;
  // The number of files still to come that were prefetched, or need no prefetch.
  int left_ = 0;
  // The last prefetched file. 0: the program has none of them still to reach.
  uint64_t ahead_ = 0;
};

}  // namespace dafs::fuse
