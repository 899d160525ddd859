// How a session executes procedures. server/procedures fills the table, the server hands it to its
// sessions. Constants; any thread.
// Spec: WIRE 9.1, 9.2 step 6.
#pragma once

#include <array>

#include "runtime/loop/task.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

class Call;

// A procedure is executed at once (`run`), or as a coroutine that may wait (`start`). Both finish
// their call. Exactly one is set; none: the server answers NOTSUPP.
struct Procedure {
  void (*run)(Call& call) = nullptr;
  Task<void> (*start)(Call& call) = nullptr;

  constexpr bool exists() const { return run != nullptr || start != nullptr; }
};

// One entry for each row of wire::kProcedures.
using ProcedureTable = std::array<const Procedure*, wire::kProcedures.size()>;

// Returns null for a procedure that step 6 of 9.2 answers with NOTSUPP: a number that no client may
// send, or a procedure of the draft that this server does not implement.
inline const Procedure* FindProcedure(const ProcedureTable& table, wire::Proc proc) {
  const wire::ProcInfo* info = wire::FindProc(proc);
  if (info == nullptr) return nullptr;
  const Procedure* procedure = table[wire::RowOf(*info)];
  return procedure->exists() ? procedure : nullptr;
}

}  // namespace dafs::server
