#include "client/preload/descriptor_table.h"

namespace dafs::preload {
namespace {

constexpr bool IsInTable(int fd) { return fd >= 0 && fd < DescriptorTable::kMostDescriptors; }

}  // namespace

DescriptorTable::Entry DescriptorTable::Get(int fd) const {
  if (!IsInTable(fd)) return Entry::kNone;
  const uint32_t entry = entries_[static_cast<size_t>(fd)].load();
  if (IsSlot(entry)) return Entry::kOpened;
  if (entry == kIsCandidate) return Entry::kCandidate;
  return entry == kIsAdopting ? Entry::kAdopting : Entry::kNone;
}

void DescriptorTable::Offer(int fd) {
  if (!IsInTable(fd)) return;
  const uint32_t before = entries_[static_cast<size_t>(fd)].exchange(kIsCandidate);
  if (IsSlot(before)) End(before);
}

bool DescriptorTable::Forget(int fd) {
  if (!IsInTable(fd)) return false;
  std::atomic<uint32_t>& entry = entries_[static_cast<size_t>(fd)];
  if (entry.load(std::memory_order_relaxed) == kIsNone) return false;
  const uint32_t before = entry.exchange(kIsNone);
  if (!IsSlot(before)) return false;
  End(before);
  return true;
}

bool DescriptorTable::ForgetFrom(int first, int last) {
  bool ended = false;
  for (int fd = first < 0 ? 0 : first; IsInTable(fd) && fd <= last; ++fd) ended |= Forget(fd);
  return ended;
}

bool DescriptorTable::BeginAdopting(int fd) {
  uint32_t expected = kIsCandidate;
  return IsInTable(fd) &&
         entries_[static_cast<size_t>(fd)].compare_exchange_strong(expected, kIsAdopting);
}

bool DescriptorTable::Adopt(int fd, const OpenedFile& opened) {
  for (uint32_t i = 0; i < kMostFiles; ++i) {
    Slot& slot = slots_[i];
    uint32_t free = 0;
    if (slot.entry.load(std::memory_order_relaxed) != 0 ||
        !slot.entry.compare_exchange_strong(free, kIsAdopting)) {
      continue;
    }
    for (uint32_t used = used_slots_.load();
         used <= i && !used_slots_.compare_exchange_weak(used, i + 1);) {
    }
    // 1 to 65535, so that an entry of an earlier use is not taken for this one.
    const uint32_t use = slot.uses.fetch_add(1) % (kUse - 1) + 1;
    slot.opened = opened;
    slot.has_ended = false;
    slot.entry = use * kUse + i;
    uint32_t expected = kIsAdopting;
    if (entries_[static_cast<size_t>(fd)].compare_exchange_strong(expected, use * kUse + i)) {
      return true;
    }
    slot.entry = 0;
    return false;
  }
  Refuse(fd);
  return false;
}

void DescriptorTable::Postpone(int fd) {
  uint32_t expected = kIsAdopting;
  entries_[static_cast<size_t>(fd)].compare_exchange_strong(expected, kIsCandidate);
}

void DescriptorTable::Refuse(int fd) {
  uint32_t expected = kIsAdopting;
  entries_[static_cast<size_t>(fd)].compare_exchange_strong(expected, kIsNone);
}

const OpenedFile* DescriptorTable::Hold(int fd) {
  if (!IsInTable(fd)) return nullptr;
  const uint32_t entry = entries_[static_cast<size_t>(fd)].load();
  if (!IsSlot(entry)) return nullptr;
  Slot& slot = SlotOf(entry);
  slot.holders.fetch_add(1);
  // Was it closed before it was held? Then the slot may be in other use.
  if (entries_[static_cast<size_t>(fd)].load() == entry) return &slot.opened;
  slot.holders.fetch_sub(1);
  return nullptr;
}

void DescriptorTable::Release(const OpenedFile* held) {
  // `opened` is the first member of its slot.
  auto* slot = reinterpret_cast<Slot*>(const_cast<OpenedFile*>(held));
  slot->holders.fetch_sub(1);
}

void DescriptorTable::Reoffer(int fd, const OpenedFile* held) {
  uint32_t entry = reinterpret_cast<const Slot*>(held)->entry.load();
  if (IsSlot(entry) &&
      entries_[static_cast<size_t>(fd)].compare_exchange_strong(entry, kIsCandidate)) {
    End(entry);
  }
}

void DescriptorTable::End(uint32_t entry) { SlotOf(entry).has_ended = true; }

void* DescriptorTable::TakeEnded() {
  const uint32_t used = used_slots_.load();
  for (uint32_t i = 0; i < used; ++i) {
    Slot& slot = slots_[i];
    if (!slot.has_ended.load() || slot.holders.load() != 0) continue;
    bool ended = true;
    if (!slot.has_ended.compare_exchange_strong(ended, false)) continue;
    void* const file = slot.opened.file;
    slot.entry = 0;
    return file;
  }
  return nullptr;
}

bool OwnDescriptors::HasAny(int first, int last) const {
  for (int fd = first < 0 ? 0 : first; IsKnown(fd) && fd <= last; ++fd) {
    if (Has(fd)) return true;
  }
  return false;
}

void OwnDescriptors::Set(int fd, bool own) {
  if (!IsKnown(fd)) return;
  if (own) {
    words_[Index(fd)].fetch_or(Bit(fd));
  } else {
    words_[Index(fd)].fetch_and(~Bit(fd));
  }
}

}  // namespace dafs::preload
