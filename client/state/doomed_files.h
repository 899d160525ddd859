// Files whose delegations may not be used, because they end or their file changes. A response that
// has not arrived yet may grant such a delegation. Spec: WIRE 9.7.
// Not thread-safe: DelegationTable guards it. Nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/hash/hash.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DoomedFiles {
 public:
  // No delegation of `file` that was requested before `sequence` may be used. Rarely that concerns
  // another file too. `sequence` never decreases.
  void Doom(const wire::FileHandle& file, uint64_t sequence) {
    not_before_[IndexOf(file)] = sequence;
  }
  // Whether a delegation of `file` may be used. `asked`: Promises::sequence() before its request.
  bool MayUse(const wire::FileHandle& file, uint64_t asked) const {
    return asked >= not_before_[IndexOf(file)];
  }

 private:
  static constexpr size_t kEntries = 1024;
  static size_t IndexOf(const wire::FileHandle& file) { return absl::HashOf(file) % kEntries; }

  // By hash of the file: the least `asked` of a delegation that may be used.
  std::array<uint64_t, kEntries> not_before_ = {};
};

}  // namespace dafs::client
