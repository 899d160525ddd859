// The descriptors of a process that may be read by libdafs, and their files at the server.
//
// All bytes zero is the empty table: it lies in memory that the kernel clears in a child of fork(2)
// (client/preload/state.h). It calls no library and takes no lock, because a signal handler or
// another thread may close a descriptor during a read. Thread-safe; nothing blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace dafs::preload {

// Identifies the file of a descriptor. statx(2) and fcntl(2) return this without a request to the
// mount.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int access = 0;  // O_ACCMODE of its flags

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A file that libdafs reads.
struct OpenedFile {
  FileIdentity identity;
  void* file = nullptr;  // from DirectCalls::open
  uint32_t epoch = 0;    // State::epoch when it was opened
};

class DescriptorTable {
 public:
  static constexpr int kMostDescriptors = 65536;  // larger numbers are never in the table
  static constexpr uint32_t kMostFiles = 1024;

  enum class Entry : uint8_t {
    kNone,       // the kernel reads it
    kCandidate,  // opened with O_DIRECT and not read yet
    kAdopting,   // a thread is opening the file
    kOpened,
  };
  Entry Get(int fd) const;

  void Offer(int fd);  // was just opened: becomes a candidate
  // The descriptor is about to be closed, or to refer to another file. Returns whether TakeEnded
  // has a file for the caller.
  bool Forget(int fd);
  bool ForgetFrom(int first, int last);  // the descriptors first to last

  // Returns true to one thread for each candidate. That thread then calls exactly one of the next
  // three functions.
  bool BeginAdopting(int fd);
  bool Adopt(int fd, const OpenedFile& opened);  // false: no room, or the descriptor was closed
  void Postpone(int fd);                         // a candidate again
  void Refuse(int fd);                           // the kernel reads it until it is closed

  // The file of a descriptor, which stays open until Release. Null: it has none.
  const OpenedFile* Hold(int fd);
  void Release(const OpenedFile* held);
  // The descriptor becomes a candidate again, if it still has this file.
  void Reoffer(int fd, const OpenedFile* held);

  // A file that no descriptor has and no thread holds, for the caller to close. Null: none.
  void* TakeEnded();

 private:
  // Each file is in a slot. An entry is a small number below, or names a slot and its use.
  static constexpr uint32_t kIsNone = 0, kIsCandidate = 1, kIsAdopting = 2;
  static constexpr uint32_t kUse = 1u << 16;  // entries count the uses of a slot from here on

  struct Slot {
    OpenedFile opened;
    std::atomic<uint32_t> entry;  // that leads here; 0: the slot is free
    std::atomic<uint32_t> uses;
    std::atomic<uint32_t> holders;
    std::atomic<bool> has_ended;
  };
  static bool IsSlot(uint32_t entry) { return entry >= kUse; }
  Slot& SlotOf(uint32_t entry) { return slots_[entry % kUse]; }
  void End(uint32_t entry);

  std::array<std::atomic<uint32_t>, kMostDescriptors> entries_;
  std::array<Slot, kMostFiles> slots_;
  std::atomic<uint32_t> used_slots_;  // slots from here on were never used
};

// The descriptors that libdafs has opened for itself. The program does not know of them.
class OwnDescriptors {
 public:
  void Add(int fd) { Set(fd, true); }
  void Remove(int fd) { Set(fd, false); }
  bool Has(int fd) const {
    return IsKnown(fd) && (words_[Index(fd)].load(std::memory_order_relaxed) & Bit(fd)) != 0;
  }
  bool HasAny(int first, int last) const;

 private:
  static bool IsKnown(int fd) { return fd >= 0 && fd < DescriptorTable::kMostDescriptors; }
  static size_t Index(int fd) { return static_cast<size_t>(fd) / 64; }
  static uint64_t Bit(int fd) { return uint64_t{1} << (fd % 64); }
  void Set(int fd, bool own);

  std::array<std::atomic<uint64_t>, DescriptorTable::kMostDescriptors / 64> words_;
};

}  // namespace dafs::preload
