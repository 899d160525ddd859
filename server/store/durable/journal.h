// The journal of modifying requests: one slot for each stream of a session, in mapped memory. A
// slot records first the planned operation (the intent), then that it was executed, then the
// response. The recorded responses are the session's Response Cache. From the first two steps a
// restarted server finds the missing response: it compares the intent with the file system.
// Spec: 5.2.1 (an entry per stream), 5.2.4 (stable storage); docs/decisions.md, Server.
//
// One thread at a time writes a slot: the thread that executes its request. Each step stores
// `state` last, so a process killed at any instruction leaves the slot in the step before or after.
// A power loss may leave a slot torn between two steps, sector by sector. The checksums detect
// this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "server/store/system/kill_switch.h"
#include "server/store/system/mapped_file.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class WriteVerifier;

enum class SlotState : uint32_t {
  kEmpty,     // the request was not executed
  kIntent,    // started; only the file system shows whether it was executed
  kExecuted,  // executed with `status`; the response has to be built again
  kAnswered,  // the slot has the response
};

// The planned operation of a modifying procedure, and the state that it found before. The procedure
// decides which fields are used; see the functions that write them.
struct Intent {
  static constexpr size_t kNameMax = 255;  // NAME_MAX of Linux: longer names do not exist

  // Bits of `flags`.
  static constexpr uint32_t kTruncates = 1;   // OPEN of an existing file: its size becomes 0
  static constexpr uint32_t kUnfinished = 2;  // CREATE, OPEN: not complete without its attributes
  static constexpr uint32_t kServerAccessTime = 4;  // SETATTR: set to the server's time
  static constexpr uint32_t kServerModifyTime = 8;
  static constexpr uint32_t kOfAttribute = 16;  // REMOVE, CLOSE: of a named attribute of `object`
  static constexpr uint32_t kMoves = 32;        // ALLOCATE: bytes move to other offsets

  uint32_t flags = 0;
  uint32_t component_count = 0;    // OPEN
  wire::FileHandle directory;      // where `name` is
  wire::FileHandle new_directory;  // RENAME: where `new_name` is
  wire::FileHandle object;         // the object with that name, or the file
  uint64_t before = 0;             // CHANGE of `directory`
  uint64_t new_before = 0;         // CHANGE of `new_directory`
  uint64_t size = 0;               // APPEND, ALLOCATE: size of the file before
  uint64_t length = 0;             // WRITE, APPEND, COPY_RANGE: length of the data
  wire::Verifier verifier;         // WRITE, APPEND, COPY_RANGE
  // CLOSE of a named attribute: identifies the new value. OPEN, any other CLOSE: Grace::SumOf of
  // the owner.
  uint64_t value = 0;
  // SETATTR: the attributes to set. ALLOCATE and OPEN use it for the size.
  uint64_t attributes = 0;
  uint64_t object_size = 0;
  uint32_t mode = 0, uid = 0, gid = 0, stable_how = 0;
  wire::Time access_time, modify_time;
  char name[kNameMax + 1] = {};
  char new_name[kNameMax + 1] = {};

  // Terminates the names, after the intent was read from a file.
  void Bound() { name[kNameMax] = new_name[kNameMax] = 0; }
  // `text` is at most kNameMax bytes and has no NUL.
  static void SetName(char (&field)[kNameMax + 1], const std::string& text) {
    std::memcpy(field, text.c_str(), text.size() + 1);
  }
};

// The values for the response to a modifying request, where they may differ from the intent. They
// are stored separately, because the intent must not change after it became stable: a torn step
// then leaves the step before intact.
struct Result {
  wire::FileHandle object;  // the created object, or the object of the intent
  uint64_t before = 0;      // CHANGE of `directory`
  uint64_t after = 0;       // the same after execution
  uint64_t new_after = 0;   // CHANGE of `new_directory` after execution
  uint64_t size = 0;        // APPEND: offset of the data
  uint64_t length = 0;      // WRITE, COPY_RANGE: length of the data
  uint64_t attributes = 0;  // SETATTR: the attributes that were set

  Result() = default;
  explicit Result(const Intent& intent)
      : object(intent.object),
        before(intent.before),
        size(intent.size),
        length(intent.length),
        attributes(intent.attributes) {}
};

struct JournalSlot {
  static constexpr size_t kBytes = 2048;
  static constexpr size_t kResponseMax = 1024;

  std::atomic<SlotState> state;
  uint16_t seq_number;
  uint16_t is_recovered;  // 1: the response was built after a restart
  wire::Proc procedure;
  wire::DafsStatus status;
  uint32_t response_bytes;  // of the response from message offset 40 on
  uint32_t intent_sum;      // all three sums: set with --stable=power; 0: not computed
  uint32_t result_sum;
  uint32_t response_sum;
  std::byte response[kResponseMax];
  Intent intent;
  Result result;

  // Records the response, in one step. The request has no intent, or has been executed. `summed`:
  // adds a checksum, so that a slot torn by a power loss is detected.
  void Answer(uint16_t seq, wire::Proc proc, wire::DafsStatus answer,
              std::span<const std::byte> body, bool summed) {
    if (state.load(std::memory_order_relaxed) != SlotState::kExecuted) Clear();
    seq_number = seq;
    procedure = proc;
    status = answer;
    response_bytes = static_cast<uint32_t>(body.size());
    if (!body.empty()) std::memcpy(response, body.data(), body.size());
    response_sum = summed ? ResponseSum() : 0;
    state.store(SlotState::kAnswered, std::memory_order_release);
  }
  void Clear() {
    state.store(SlotState::kEmpty, std::memory_order_relaxed);
    // Keeps the compiler from moving later stores before this one.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  // After a power loss: returns a torn slot to the last step that is intact.
  void Mend();

  // The checksums of the present content; never 0.
  uint32_t IntentSum() const {
    return Sum(Sum(seq_number, &procedure, sizeof procedure), &intent, sizeof intent);
  }
  uint32_t ResultSum() const {
    return Sum(Sum(seq_number, &status, sizeof status), &result, sizeof result);
  }
  uint32_t ResponseSum() const {
    return Sum(Sum(seq_number, &response_bytes, sizeof response_bytes), response,
               response_bytes <= kResponseMax ? response_bytes : 0);
  }
  bool IntentIsWhole() const { return intent_sum == 0 || intent_sum == IntentSum(); }
  bool ResultIsWhole() const { return result_sum == 0 || result_sum == ResultSum(); }
  bool ResponseIsWhole() const { return response_sum == 0 || response_sum == ResponseSum(); }

 private:
  static uint32_t Sum(uint32_t sum, const void* data, size_t size);  // FNV-1a
};
static_assert(sizeof(JournalSlot) <= JournalSlot::kBytes);
static_assert(std::atomic<SlotState>::is_always_lock_free);

// Records the execution of one modifying request in the journal.
//
//   Intent& intent = operation.Prepare();
//   ... fill it in ...
//   operation.Begin();   // from here on a restarted server checks whether it was executed
//   ... the system call ...
//   operation.Done(status, {directory});
//
// The caller prevents other changes to the names and sizes in the intent from before Prepare until
// after Done. One thread at a time.
class Operation {
 public:
  // With `file` each step is on stable storage before the next begins (--stable=power). If a sync
  // fails, data may be lost, and the operation changes `write_verifier` so that clients write it
  // again. Both are borrowed; `write_verifier` is not used without `file`.
  Operation(JournalSlot& slot, const MappedFile* file, WriteVerifier* write_verifier,
            uint16_t seq_number, wire::Proc procedure)
      : slot_(&slot),
        file_(file),
        write_verifier_(write_verifier),
        seq_number_(seq_number),
        procedure_(procedure) {}

  Intent& Prepare();
  void Begin();
  // Prepare and Begin, for an operation on `name` in `directory`, whose CHANGE is `before`.
  void Begin(const wire::FileHandle& directory, const std::string& name, uint64_t before,
             const wire::FileHandle& object = {}, uint32_t flags = 0);
  // The values for the response, between Begin and Done. Begin copies them from the intent.
  Result& result() { return slot_->result; }
  // Clears the slot: Begin was called, but nothing was executed. Another attempt or another intent
  // follows.
  void Cancel();
  // Records that the operation was executed, or failed without any change. `changed`: descriptors
  // of the objects that it changed; O_PATH is sufficient.
  void Done(wire::DafsStatus status, std::span<const int> changed);
  void Done(wire::DafsStatus status, int changed) { Done(status, {&changed, 1}); }

 private:
  void Sync() const;

  JournalSlot* slot_;
  const MappedFile* file_;
  WriteVerifier* write_verifier_;
  uint16_t seq_number_;
  wire::Proc procedure_;
};

}  // namespace dafs::server
