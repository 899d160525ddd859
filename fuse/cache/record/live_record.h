// The record of a mount that is kept up to date while the mount is served, for the program that
// continues it after a crash (docs/restart.md). It is shared memory, which the guardian holds, too:
// what a process has written there is not lost when the process is killed.
//
// An item has a kind, a key that is unique in its kind, a body, and a count that changes often. It
// is stored in one slot or, if its body is longer, in a chain of slots, of which the first is
// written last, and in each the checksum. So a process that is killed at any point leaves the item
// as it was before or after the change, never a part of it: a changed item gets other slots before
// its old ones are freed, and the later one counts if both exist.
//
// Thread-safe, but one caller at a time may change an item. Nothing blocks: memory is allocated by
// the kernel when a slot is first used, and a mutex is held for a few instructions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

class LiveRecord {
 public:
  static constexpr uint32_t kSlotBytes = 128;
  static constexpr uint32_t kHeaderBytes = 40;
  static constexpr uint32_t kSlotBody = kSlotBytes - kHeaderBytes;
  static constexpr uint32_t kMostBody = kSlotBody * 65535;

  // The first slot of an item; zero: it is not stored.
  using Slot = uint32_t;

  // An empty record, with `data_bytes` of memory for TakeMemory. kResourceExhausted and others: of
  // memfd_create(2) and mmap(2).
  static absl::StatusOr<std::unique_ptr<LiveRecord>> Create(size_t data_bytes = 0);
  ~LiveRecord();
  LiveRecord(const LiveRecord&) = delete;
  LiveRecord& operator=(const LiveRecord&) = delete;

  // For the guardian.
  int memfd() const { return memfd_.get(); }

  // Stores an item in place of `old`, its present slot, or zero. Returns its slot. Zero: the body
  // is too large or the record is full; then there is no such item any more.
  Slot Put(uint8_t kind, uint64_t key, std::span<const std::byte> body, uint64_t count, Slot old);
  // Zero: nothing.
  void SetCount(Slot slot, uint64_t count);
  // The same while several callers change the count. `by` may wrap around.
  void AddToCount(Slot slot, uint64_t by);
  // Removes an item. Zero: nothing.
  void Drop(Slot slot);

  // The key of the item.
  uint64_t KeyOf(Slot slot) const;
  // A key that no other call has returned.
  uint64_t NewKey() { return last_key_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Memory for written data, to which items refer by its place: from a page on, zero at first, for
  // as long as this exists. It uses no memory until it is touched. Empty: there is no more.
  std::span<std::byte> TakeMemory(size_t bytes);
  // The place of `data`. nullopt: it is not in such memory.
  std::optional<uint64_t> PlaceOf(std::span<const std::byte> data) const;
  // Copies what another process has there. False: there is no such place.
  static bool ReadData(int memfd, uint64_t place, std::span<std::byte> into);

  // Memory for client::InFlightTable, which follows the slots. Zero at first.
  std::span<std::byte> in_flight() const;
  // A copy of that of another process; empty if it cannot be read.
  static std::vector<std::byte> ReadInFlight(int memfd);

  // Frees the pages in which no slot is used.
  void ReleaseUnused();

  // The items of a record that another process has left, in any order. Its slots are checked as
  // hostile input. kDataLoss: it is no such record.
  struct Item {
    uint8_t kind = 0;
    uint64_t key = 0;
    std::vector<std::byte> body;
    uint64_t count = 0;
  };
  static absl::StatusOr<std::vector<Item>> Read(int memfd);

 private:
  LiveRecord(UniqueFd memfd, std::byte* memory, size_t bytes);
  bool Take(std::span<Slot> slots) ABSL_LOCKS_EXCLUDED(mutex_);

  const UniqueFd memfd_;
  std::byte* const memory_;
  const size_t bytes_;
  std::atomic<size_t> taken_;  // by TakeMemory, with what comes before. Publishes nothing
  // Orders two slots of one item. Publishes nothing.
  std::atomic<uint64_t> version_{0};
  std::atomic<uint64_t> last_key_{0};  // publishes nothing
  absl::Mutex mutex_;
  std::vector<Slot> free_ ABSL_GUARDED_BY(mutex_);
  Slot next_ ABSL_GUARDED_BY(mutex_) = 1;  // the first that was never used
};

}  // namespace dafs::fuse
