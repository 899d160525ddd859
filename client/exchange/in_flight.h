// The changes under way: for each operation whose program has no answer yet, the modifying requests
// that were sent. The table is in memory that outlives this process. After a kill the kernel sends
// the operation again. The next process finds here which requests were sent, with their keys in the
// Response Cache or their responses, so each is executed once (docs/restart.md).
//
// A record is written before its request is posted, and its checksum last. So it is whole or absent
// whenever the process is killed. Nothing here makes a system call.
//
// WRITE, COMMIT, CLOSE, DELEGRETURN and changes of locks are not recorded, unless their chain has
// another change: executed twice, they do what they did once.
// Spec: 5.2 (Response Cache).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "runtime/loop/task.h"
#include "wire/protocol/header.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class CallBase;

// The table of a mount. Thread-safe; its workers share it.
class InFlightTable {
 public:
  // At most this many operations are recorded at a time; the requests of further ones are not.
  static constexpr uint32_t kEntries = 512;
  // Requests of one operation.
  static constexpr size_t kRecords = 24;
  static constexpr size_t kEntryBytes = 4096;
  static constexpr size_t kBytes = (kEntries + 1) * kEntryBytes;  // a header comes first

  struct Record {
    uint64_t state = 0;   // 0: none. Otherwise kUsed and a CRC32C of `session_id` and what follows
    uint64_t answer = 0;  // 0: none. See in_flight.cc
    wire::SessionId session_id;
    wire::ClientId client_id;
    uint32_t procedure = 0;
    uint32_t handles = 0;  // CRC32C of the filehandles in the arguments
    uint32_t owner = 0;    // CRC32C of the owner in the arguments
    uint16_t stream_id = 0;
    uint16_t seq_number = 0;
    uint8_t auth = 0;
    uint8_t cached = 0;
    std::array<uint8_t, 6> unused = {};
  };
  static constexpr size_t kResponseBytes = kEntryBytes - 16 - kRecords * sizeof(Record);
  struct Entry {
    uint64_t operation = 0;      // 0: free
    uint64_t is_incomplete = 0;  // 1: it has more requests than records
    std::array<Record, kRecords> records;
    std::array<std::byte, kResponseBytes> responses;
  };
  static_assert(sizeof(Entry) == kEntryBytes);

  // `memory` has kBytes and is zero; it outlives this.
  explicit InFlightTable(std::span<std::byte> memory);
  InFlightTable(const InFlightTable&) = delete;
  InFlightTable& operator=(const InFlightTable&) = delete;

  // Takes over the table of a killed process, so that its operations can go on. `left` is checked
  // as hostile input. Call before the first operation.
  void TakeLeft(std::span<const std::byte> left);
  // Whether it is known which requests of `operation` the killed process has sent.
  bool KnowsLeft(uint64_t operation) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The operations of the killed process that have not begun again.
  std::vector<uint64_t> Left() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class InFlightEntries;
  friend class InFlightOperation;

  Entry* EntryAt(uint32_t index) { return entries_ + index; }
  Entry* TakeUnused();
  Entry* Adopt(uint64_t operation) ABSL_LOCKS_EXCLUDED(mutex_);
  std::atomic_ref<uint64_t> unrecorded() { return std::atomic_ref<uint64_t>(*unrecorded_); }

  uint64_t* const unrecorded_;  // operations without an entry; outlives this process, too
  Entry* const entries_;
  std::vector<bool> is_left_;      // by entry; constant after TakeLeft
  bool left_unrecorded_ = false;   // by the killed process; constant after TakeLeft
  std::atomic<uint32_t> next_{0};  // the first entry that was never used. Publishes nothing
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry*> left_ ABSL_GUARDED_BY(mutex_);  // by operation
};

// The entries that one worker uses. Belongs to its thread. It outlives its operations.
class InFlightEntries {
 public:
  // `table` outlives this.
  explicit InFlightEntries(InFlightTable& table) : table_(table) {}
  InFlightEntries(const InFlightEntries&) = delete;
  InFlightEntries& operator=(const InFlightEntries&) = delete;
  // Operations that have one now.
  size_t used() const { return taken_ - free_.size(); }

 private:
  friend class InFlightOperation;
  InFlightTable& table_;
  std::vector<InFlightTable::Entry*> free_;
  size_t taken_ = 0;  // so far, from the table
};

// One operation of a program, until the program has its answer. It is set as the OperationState of
// the operation's tasks. Belongs to the worker's thread.
class InFlightOperation : public OperationState {
 public:
  // `entries` null: nothing is recorded. `number` is not 0 and never used again. `again`: a process
  // that was killed may have begun it.
  InFlightOperation(InFlightEntries* entries, uint64_t number, bool again);
  ~InFlightOperation() { End(); }
  InFlightOperation(const InFlightOperation&) = delete;
  InFlightOperation& operator=(const InFlightOperation&) = delete;

  // `chain` is about to be sent for the first time. Returns true if the killed process has sent
  // requests of it: those calls look as if the session had ended after they were sent.
  bool Begin(std::span<CallBase* const> chain);
  // The record of the killed process is damaged, or differs from what `chain` would send.
  bool contradicts() const { return contradicts_; }
  // Nothing will carry the operation out. Finds a request with the procedure and owner of `call`
  // that the killed process sent, and makes `call` look like it, as Begin does. Each is found once.
  // Returns false if there is none.
  bool TakeSent(CallBase& call);
  // For the session. The request is about to be posted; its response has arrived.
  void Sent(const CallBase& call);
  void Answered(const CallBase& call, std::span<const std::byte> message, wire::ByteOrder order,
                wire::DafsStatus status);
  // The program has its answer.
  void End();

 private:
  static constexpr uint8_t kNoRecord = 0xff;

  bool TakeEntry();
  void ReadLeft();
  std::optional<uint8_t> FindLeft(const CallBase& call, uint32_t handles) const;
  void Restore(CallBase& call, const InFlightTable::Record& record) const;

  InFlightEntries* const entries_;
  const uint64_t number_;
  InFlightTable::Entry* entry_ = nullptr;
  uint32_t left_ = 0;     // bit i: record i is of the killed process and not yet matched
  uint32_t changes_ = 0;  // bit i: that request may have changed something
  size_t response_bytes_ = 0;
  uint8_t next_ = 0;  // record
  bool unrecorded_ = false;
  bool ended_ = false;
  bool contradicts_ = false;
};

}  // namespace dafs::client
