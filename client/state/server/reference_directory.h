// References to blocks of the server's exported cache, by file and block: the directory of
// Optimistic DAFS. A reference may be stale, since the server sends no notice when a block becomes
// invalid: the reader verifies what it has read.
// Spec: FAST03 companion (Optimistic DAFS); wire/messages/references.h.
//
// A table of fixed size, made once. A new reference replaces the least recently used one of its
// set. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dafs::client {

class ReferenceDirectory {
 public:
  struct Reference {
    uint64_t position = 0;  // as in wire::BlockReference
    uint64_t version = 0;
  };

  // Allocates at most `bytes`, at least one set.
  explicit ReferenceDirectory(size_t bytes);

  // A name for a file that is new in this directory; 0: there are no more. References are those of
  // one open of a file, and end with it: the next open has another name.
  uint32_t NewFile() { return last_file_ == kMostFiles ? 0 : ++last_file_; }

  void Add(uint32_t file, uint64_t block, const Reference& reference);
  std::optional<Reference> Find(uint32_t file, uint64_t block);
  void Remove(uint32_t file, uint64_t block);
  void Clear();

 private:
  static constexpr size_t kWays = 4;
  static constexpr int kBlockBits = 40;  // files of 4 PiB
  static constexpr uint32_t kMostFiles = (1u << (64 - kBlockBits)) - 1;

  struct Entry {
    uint64_t key = 0;  // file and block; 0: empty
    Reference reference;
  };
  // The most recently used entry comes first.
  struct alignas(32) Set {
    Entry ways[kWays];
  };

  // 0: a block beyond those that a key can name.
  static uint64_t KeyOf(uint32_t file, uint64_t block) {
    return block >> kBlockBits != 0 ? 0 : uint64_t{file} << kBlockBits | block;
  }
  Set& SetOf(uint64_t key);

  std::vector<Set> sets_;
  uint32_t last_file_ = 0;
};

}  // namespace dafs::client
