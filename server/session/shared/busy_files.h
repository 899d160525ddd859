// The files that the requests of one worker concern most, over the last seconds. Bounded: it counts
// kMost files at a time (space-saving: a new file takes the place of the least busy one and
// inherits its rank, so a busy file is not missed; its counts begin at zero, so they are never too
// high).
// Belongs to the worker's thread. Nothing allocates after the first kMost files of a window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

struct FileUse {
  ObjectKey file;
  uint64_t requests = 0;
  uint64_t bytes = 0;  // of messages and data
};

// The weight of a request or a file: many small requests cost as much as few large ones.
inline uint64_t WeightOf(uint64_t requests, uint64_t bytes) { return requests + (bytes >> 14); }

class BusyFiles {
 public:
  static constexpr size_t kMost = 256;

  void Count(const ObjectKey& file, uint64_t bytes) { current_->Count(file, bytes); }
  // Begins a new window. The last one is kept, the one before is dropped.
  void Turn();
  // The files of this window and the last one, in no order.
  std::vector<FileUse> Get() const;
  bool empty() const { return current_->size == 0 && last_->size == 0; }

 private:
  struct Window {
    void Count(const ObjectKey& file, uint64_t bytes);
    void Clear();

    size_t size = 0;
    uint32_t chance = 1;  // a linear congruential generator
    std::array<uint64_t, kMost> rank;
    std::array<FileUse, kMost> uses;
    absl::flat_hash_map<ObjectKey, uint32_t> places;

   private:
    void Replace(const ObjectKey& file, uint64_t bytes);
  };

  Window a_, b_;
  Window* current_ = &a_;
  Window* last_ = &b_;
};

}  // namespace dafs::server
