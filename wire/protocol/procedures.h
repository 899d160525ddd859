// The facts about each procedure, for the client, the server and the trace log: the table of
// procedure_table.h as values. Constants.
// Spec: WIRE 9.1; draft 6.1.10 (numbers), 4.3.1 (categories), 4.3.2 (chaining).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/protocol/procedure_table.h"

namespace dafs::wire {

// The messages (wire/messages).
#define DAFS_WIRE_DECLARE(name, ...) \
  struct name##Args;                 \
  struct name##Res;
DAFS_WIRE_PROCEDURES(DAFS_WIRE_DECLARE)
#undef DAFS_WIRE_DECLARE

// DAFS_PROC_x.
enum class Proc : uint32_t {
#define DAFS_WIRE_NUMBER(name, number, ...) k##name = number,
  DAFS_WIRE_PROCEDURES(DAFS_WIRE_NUMBER)
#undef DAFS_WIRE_NUMBER
};

// The role of a procedure in a chain. Spec: 4.3.1.
enum class Category : uint8_t {
  kSpecial,  // may not be in a chain
  kSimple,
  kFsStateModifying,
  kLockStateModifying,
  kBulkFetch,
  kBackControl,
};

// Whether the Response Cache keeps the response (5.2.1).
constexpr bool ModifiesState(Category category) {
  return category == Category::kFsStateModifying || category == Category::kLockStateModifying;
}

// Client to server, or server to client (on the Back-control Channel).
enum class Direction : uint8_t { kToServer, kToClient };

constexpr Direction DirectionOf(Category category) {
  return category == Category::kBackControl ? Direction::kToClient : Direction::kToServer;
}

// The chain's current filehandle or state id after success. Spec: WIRE 8.3, 9.1.
enum class Current : uint8_t {
  kUnchanged,
  kTheOneUsed,  // the argument, or the current one that CHF_FH or CHF_STATEID selected instead
  kFromResult,
};

// The filehandles in the fixed section of the arguments. A server finds the export of a request by
// them before it decodes the request. DAFS_CHF_FH is allowed with any but kNone. It replaces the
// field `filehandle`, or the one that the message returns by ChainFileHandle() (chain.h).
enum class FileHandles : uint8_t {
  kNone,     // none that matters to an export
  kOne,      // at the start
  kTwo,      // at the start, one after the other
  kInClaim,  // OPEN: after the claim type
};

struct ProcInfo {
  Proc number;
  std::string_view name;     // without the prefix DAFS_PROC_
  std::string_view section;  // of the draft
  Category category;
  Direction direction;
  uint16_t args_size;  // of the fixed section, bytes
  uint16_t res_size;
  FileHandles filehandles;
  bool chf_fh;  // DAFS_CHF_FH is allowed
  Current filehandle_after;
  bool chf_state_id;  // DAFS_CHF_STATEID is allowed (OPEN: only CLAIM_DELEGATE_CUR)
  Current state_id_after;
  // A request may be issued again although it may have been executed: repeating a write, a COMMIT
  // or a LOCK of the same owner changes nothing, a second CLOSE gives BAD_STATEID. False for
  // requests that create, remove or move names, whose second result differs, and for appends.
  bool idempotent;

  // Whether chain flags are allowed. Special and back-control procedures accept none.
  constexpr bool chainable() const {
    return category != Category::kSpecial && category != Category::kBackControl;
  }
};

// The rows, in the order of their numbers.
inline constexpr auto kProcedures = std::to_array<ProcInfo>({
#define DAFS_WIRE_ROW(name, number, text, section, category, args, res, filehandles, fh_after, \
                      state_id, state_id_after, idempotent)                                    \
  {Proc::k##name,                                                                              \
   text,                                                                                       \
   section,                                                                                    \
   Category::k##category,                                                                      \
   DirectionOf(Category::k##category),                                                         \
   args,                                                                                       \
   res,                                                                                        \
   FileHandles::k##filehandles,                                                                \
   FileHandles::k##filehandles != FileHandles::kNone,                                          \
   Current::k##fh_after,                                                                       \
   state_id,                                                                                   \
   Current::k##state_id_after,                                                                 \
   idempotent},
    DAFS_WIRE_PROCEDURES(DAFS_WIRE_ROW)
#undef DAFS_WIRE_ROW
});

namespace internal {

inline constexpr uint32_t kFirstNumber = static_cast<uint32_t>(kProcedures.front().number);
inline constexpr uint32_t kLastNumber = static_cast<uint32_t>(kProcedures.back().number);

// One byte for each number from the first to the last: its row plus one, or 0.
inline constexpr auto kRowOfNumber = [] {
  static_assert(kProcedures.size() < 255);
  std::array<uint8_t, kLastNumber - kFirstNumber + 1> rows{};
  for (size_t i = 0; i < kProcedures.size(); ++i) {
    rows[static_cast<uint32_t>(kProcedures[i].number) - kFirstNumber] = static_cast<uint8_t>(i + 1);
  }
  return rows;
}();

}  // namespace internal

// Returns the row of `proc`, without a search; null for an unassigned number.
constexpr const ProcInfo* FindProc(Proc proc) {
  const uint32_t index = static_cast<uint32_t>(proc) - internal::kFirstNumber;
  if (index >= internal::kRowOfNumber.size() || internal::kRowOfNumber[index] == 0) return nullptr;
  return &kProcedures[internal::kRowOfNumber[index] - 1u];
}

// Returns the row of a procedure that exists: a constant expression for constant arguments.
constexpr const ProcInfo& InfoOf(Proc proc) {
  const ProcInfo* row = FindProc(proc);
  return row != nullptr ? *row : kProcedures[0];
}

// The offset of the first filehandle in the arguments. A second one (kTwo) follows it.
constexpr size_t FileHandleOffset(FileHandles filehandles) {
  return filehandles == FileHandles::kInClaim ? 8 : 0;
}

// The index of a row in kProcedures.
constexpr size_t RowOf(const ProcInfo& info) {
  return static_cast<size_t>(&info - kProcedures.data());
}

// For example "LOOKUP"; "?" for an unassigned number.
constexpr std::string_view Name(Proc proc) {
  const ProcInfo* row = FindProc(proc);
  return row != nullptr ? row->name : std::string_view("?");
}

}  // namespace dafs::wire
