#include "client/c/handles.h"

namespace dafs::c {

HandleTable& HandleTable::Get() {
  static HandleTable* const table = new HandleTable();  // lives until the process ends
  return *table;
}

uintptr_t HandleTable::Add(Kind kind, void* object) {
  absl::MutexLock lock(&mutex_);
  if (free_.empty()) {
    if (slots_.size() >= kMask) return 0;
    free_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const size_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.kind = kind;
  slot.object = object;
  return slot.generation << kBits | (index + 1);
}

void* HandleTable::Find(Kind kind, uintptr_t handle) const {
  absl::ReaderMutexLock lock(&mutex_);
  const size_t index = (handle & kMask) - 1;  // of a null handle: no index
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.kind == kind && slot.generation == handle >> kBits ? slot.object : nullptr;
}

void HandleTable::Remove(uintptr_t handle) {
  absl::MutexLock lock(&mutex_);
  const size_t index = (handle & kMask) - 1;
  Slot& slot = slots_[index];
  slot.kind = Kind::kNone;
  slot.object = nullptr;
  // A slot whose generations are used up is not used again.
  if (slot.generation < kMask) {
    ++slot.generation;
    free_.push_back(index);
  }
}

}  // namespace dafs::c
