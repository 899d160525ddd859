// The ranges of one file whose data is kept until a COMMIT has made it safe. They do not overlap.
// Not thread-safe: Uncommitted calls it under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>

#include "client/state/data/kept_blocks.h"
#include "client/state/records/state_recorder.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct KeptRange {
  uint64_t offset = 0;
  KeptPart part;
  wire::Verifier verifier;  // under which the server has the data
  uint64_t number = 0;      // the COMMIT that covers it
  StateRecorder::Slot slot = 0;

  uint64_t end() const { return offset + part.size; }
  // Removes the part before byte `to` of the file.
  void RemoveFront(uint64_t to);
};

class KeptRanges {
 public:
  // `memory` serves the ranges of all files, and outlives this.
  explicit KeptRanges(std::pmr::memory_resource* memory) : ranges_(memory) {}

  // Records each range in `recorder`, which outlives this, as data of the file of this number.
  // Call while no range is kept.
  void RecordIn(StateRecorder* recorder, uint64_t file) {
    recorder_ = recorder;
    file_ = file;
  }

  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }
  size_t bytes() const { return bytes_; }
  // Whether any data in [offset, end) is kept.
  bool HasAnyOf(uint64_t offset, uint64_t end) const;
  // The first range with another verifier than `verifier`; null: there is none.
  const KeptRange* FirstStale(const wire::Verifier& verifier) const;

  // Adds `range`. It replaces what was kept there.
  void Put(KeptRange range);
  // Removes [offset, end).
  void Cut(uint64_t offset, uint64_t end);
  // Removes what the COMMIT `covered` or an earlier one covers, if it has `verifier`. False: some
  // of it has another verifier, and stays.
  bool RemoveSafe(uint64_t covered, const wire::Verifier& verifier);
  // Gives `bytes` bytes of the range that begins at `offset` a new verifier and number. False:
  // there is no such range.
  bool Rewrite(uint64_t offset, uint64_t bytes, const wire::Verifier& verifier, uint64_t number);
  void Clear();

 private:
  // Each records the current state of the range. A range is dropped from the record before its
  // memory can be used again.
  void Record(KeptRange& range) const;
  void RecordSize(const KeptRange& range) const;
  void Drop(const KeptRange& range) const;

  std::pmr::map<uint64_t, KeptRange> ranges_;  // by offset
  size_t bytes_ = 0;
  StateRecorder* recorder_ = nullptr;
  uint64_t file_ = 0;  // StateRecorder::Kept
};

}  // namespace dafs::client
