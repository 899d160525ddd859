// The handles of the C interface (client/c/dafs.h): numbers in the guise of pointers. A number is
// never used again for another object, so that a closed handle is recognised, whatever the program
// does with it. Thread-safe; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dafs::c {

enum class Kind : uint8_t { kNone, kSession, kFile, kGroup, kList };

class HandleTable {
 public:
  // The one table of this process. A C program has no object of its own that could own it.
  static HandleTable& Get();

  // Returns the handle of `object`; 0: there are too many.
  uintptr_t Add(Kind kind, void* object) ABSL_LOCKS_EXCLUDED(mutex_);
  // Null: there is no such object of this kind. Does not keep the object, which ends when its
  // handle is closed. Only the thread of its session may use and close it (dafs.h); a call by
  // another thread that races with the close is an error of the program.
  void* Find(Kind kind, uintptr_t handle) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(uintptr_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The lower half of a handle is an index plus one, the upper half the generation of its slot.
  static constexpr unsigned kBits = sizeof(uintptr_t) * 4;
  static constexpr uintptr_t kMask = (uintptr_t{1} << kBits) - 1;
  struct Slot {
    Kind kind = Kind::kNone;
    void* object = nullptr;
    uintptr_t generation = 1;
  };

  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> free_ ABSL_GUARDED_BY(mutex_);
};

// The handle that the program holds.
template <class Handle>
Handle* HandleOf(uintptr_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing dereferences it
  return reinterpret_cast<Handle*>(number);
}

}  // namespace dafs::c
