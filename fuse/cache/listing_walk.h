// Whether a program goes through the files of a directory in the order of their listing, as ls -l
// does, so that it is worth asking about the next ones ahead of it; and how far that has come.
// Belongs to one worker's thread.
#pragma once

#include <cstdint>

namespace dafs::fuse {

class ListingWalk {
 public:
  // Files that are asked about ahead of the program: two messages each, so that all of them and the
  // one that is waited for are half of the slots of a session.
  static constexpr int kMostAhead = 15;
  // With so many left the next ones are asked about, so that their answers are there in time.
  static constexpr int kFewLeft = 7;

  // A program asks about `node`. `expected`: what was listed behind last().
  void At(uint64_t node, uint64_t expected) {
    if (node == last_) return;
    in_order_ = last_ != 0 && expected == node;
    last_ = node;
    if (left_ > 0) --left_;
    if (!in_order_ || left_ == 0) ahead_ = 0;
  }
  uint64_t last() const { return last_; }
  bool in_order() const { return in_order_; }

  // How many files to ask about behind from(): what a walk that ends is asked for in vain is never
  // more than kMostAhead.
  int Wanted() const {
    return in_order_ && left_ <= (ahead_ != 0 ? kFewLeft : 0) ? kMostAhead - left_ : 0;
  }
  uint64_t from() const { return ahead_ != 0 ? ahead_ : last_; }
  // `files` more were asked about ahead, `node` the last of them.
  void Asked(int files, uint64_t node) {
    left_ += files;
    if (files > 0) ahead_ = node;
  }
  // A file has what few files have: where there is one there are others, and asking ahead about
  // them saves nothing.
  void Vain() {
    left_ = kMostAhead;
    ahead_ = 0;
  }

 private:
  uint64_t last_ = 0;
  bool in_order_ = false;
  // Of those asked about, or not worth asking about, how many come yet.
  int left_ = 0;
  // The last one that was asked about; 0: none that the program is yet to reach.
  uint64_t ahead_ = 0;
};

}  // namespace dafs::fuse
