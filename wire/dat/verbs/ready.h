// Completions that Endpoint::Poll has not returned yet. Internal to the verbs provider.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "wire/dat/dat.h"

namespace dafs::dat::verbs {

// First in, first out. Keeps its memory, so that the data path does not allocate. One thread.
class ReadyList {
 public:
  void Reserve(size_t count) { items_.reserve(count); }
  bool empty() const { return next_ == items_.size(); }
  void Push(Completion completion) { items_.push_back(std::move(completion)); }

  // Moves up to out.size() completions to `out` and returns their number.
  size_t Take(std::span<Completion> out) {
    const size_t count = std::min(out.size(), items_.size() - next_);
    for (size_t i = 0; i < count; ++i) out[i] = std::move(items_[next_++]);
    if (empty()) {
      items_.clear();
      next_ = 0;
    }
    return count;
  }

 private:
  std::vector<Completion> items_;
  size_t next_ = 0;
};

}  // namespace dafs::dat::verbs
