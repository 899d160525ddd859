// The journal of modifying requests: one slot for each stream of a session, in mapped memory. A
// slot says first what is about to be done (the intent), then that it has been done, then what was
// answered. The last of these is the session's Response Cache; the first two let a restarted server
// find out, by comparing the intent with the file system, what belongs there.
// Spec: 5.2.1 (an entry per stream), 5.2.4 (stable storage); ARCHITECTURE "Hard points".
//
// A slot is written by one thread at a time, the one that executes its request. Each step is
// published by its state, stored last, so that a process killed at any instruction leaves the slot
// in the step before or after. A machine that loses its power may leave a slot torn between two
// steps, sector by sector: its sums tell.
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

class Store;

enum class SlotState : uint32_t {
  kEmpty,     // nothing: the request was not executed
  kIntent,    // under way: whether it was executed is for the file system to tell
  kExecuted,  // executed with `status`; the response has to be made again
  kAnswered,  // the response is here
};

// What a modifying procedure is about to do, and what it found before. Which fields mean something
// depends on the procedure; see the functions that write them.
struct Intent {
  static constexpr size_t kNameMax = 255;  // a longer name is nothing Linux could create or remove

  // Of `flags`.
  static constexpr uint32_t kTruncates = 1;   // OPEN of an existing file: its size becomes 0
  static constexpr uint32_t kUnfinished = 2;  // CREATE, OPEN: not complete without its attributes
  static constexpr uint32_t kServerAccessTime = 4;  // SETATTR: to the server's time
  static constexpr uint32_t kServerModifyTime = 8;
  static constexpr uint32_t kOfAttribute = 16;  // REMOVE, CLOSE: of a named attribute of `object`
  static constexpr uint32_t kMoves = 32;        // ALLOCATE: bytes get other places

  uint32_t flags = 0;
  uint32_t component_count = 0;    // OPEN
  wire::FileHandle directory;      // where `name` is
  wire::FileHandle new_directory;  // RENAME: where `new_name` is
  wire::FileHandle object;         // what the name stands for, or the file
  uint64_t before = 0;             // CHANGE of directory
  uint64_t new_before = 0;         // of new_directory
  uint64_t size = 0;               // APPEND, ALLOCATE: of the file before
  uint64_t length = 0;             // WRITE, APPEND, COPY_RANGE: of the data
  wire::Verifier verifier;         // WRITE, APPEND, COPY_RANGE
  // CLOSE of a named attribute: identifies what it is to be. OPEN, another CLOSE: Grace::SumOf the
  // owner.
  uint64_t value = 0;
  // SETATTR: what is to be set; the size also by ALLOCATE and OPEN.
  uint64_t attributes = 0;
  uint64_t object_size = 0;
  uint32_t mode = 0, uid = 0, gid = 0, stable_how = 0;
  wire::Time access_time, modify_time;
  char name[kNameMax + 1] = {};
  char new_name[kNameMax + 1] = {};

  // What was read from a file: the names end somewhere.
  void Bound() { name[kNameMax] = new_name[kNameMax] = 0; }
  // `text` is at most kNameMax bytes and has no NUL.
  static void SetName(char (&field)[kNameMax + 1], const std::string& text) {
    std::memcpy(field, text.c_str(), text.size() + 1);
  }
};

// What the answer to a modifying request tells of it, where that is not what was intended. Kept
// apart from the intent, which stays as it was when it became stable: a step that is torn leaves
// the one before whole.
struct Result {
  wire::FileHandle object;  // what was made, or the object of the intent
  uint64_t before = 0;      // CHANGE of directory
  uint64_t after = 0;       // the same, once executed
  uint64_t new_after = 0;   // of new_directory
  uint64_t size = 0;        // APPEND: where the data landed
  uint64_t length = 0;      // WRITE, COPY_RANGE: of the data
  uint64_t attributes = 0;  // SETATTR: what was set

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
  uint16_t is_recovered;  // 1: the answer was made after a restart
  wire::Proc procedure;
  wire::DafsStatus status;
  uint32_t response_bytes;  // of the response from message offset 40 on
  uint32_t intent_sum;      // all three with --stable=power; 0: not made
  uint32_t result_sum;
  uint32_t response_sum;
  std::byte response[kResponseMax];
  Intent intent;
  Result result;

  // The answer, in one step: a request that announced no intent, or has been executed. `summed`: a
  // loss of power must not tear it unseen.
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
    // What follows must not be taken for part of the step before.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  // What the loss of power has torn goes back to the last step that is whole.
  void Mend();

  // The sums of what is here now; never 0.
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

// One modifying request as it is executed: what the store tells the journal about it.
//
//   Intent& intent = operation.Prepare();
//   ... fill it in ...
//   operation.Begin();   // from here on a restarted server looks whether it was done
//   ... the system call ...
//   operation.Done(status, {directory});
//
// Whatever the intent compares with (names, sizes) must be kept from others from before Prepare
// until after Done. One thread at a time.
class Operation {
 public:
  // With `file` each step is on stable storage before the next begins (--stable=power); `store`,
  // whose files they change, is told what that may have lost.
  Operation(JournalSlot& slot, const MappedFile* file, Store* store, uint16_t seq_number,
            wire::Proc procedure)
      : slot_(&slot), file_(file), store_(store), seq_number_(seq_number), procedure_(procedure) {}

  Intent& Prepare();
  void Begin();
  // Both, for what is to become of `name` in `directory`, whose CHANGE is `before`.
  void Begin(const wire::FileHandle& directory, const std::string& name, uint64_t before,
             const wire::FileHandle& object = {}, uint32_t flags = 0);
  // Between Begin and Done: what the answer tells. It begins with what was intended.
  Result& result() { return slot_->result; }
  // Begin was called and nothing was done: there is to be another try, or another intent.
  void Cancel();
  // It was done, or failed without a trace. `changed`: descriptors, O_PATH will do, of what it has
  // changed on its file system.
  void Done(wire::DafsStatus status, std::span<const int> changed);
  void Done(wire::DafsStatus status, int changed) { Done(status, {&changed, 1}); }

 private:
  void Sync() const;

  JournalSlot* slot_;
  const MappedFile* file_;
  Store* store_;
  uint16_t seq_number_;
  wire::Proc procedure_;
};

}  // namespace dafs::server
