// All messages, and which arguments and results belong to which procedure, by the table of
// wire/protocol/procedure_table.h.
#pragma once

#include "wire/messages/attributes.h"
#include "wire/messages/back_control.h"
#include "wire/messages/batch.h"
#include "wire/messages/fencing.h"
#include "wire/messages/locks.h"
#include "wire/messages/namespace.h"
#include "wire/messages/open_close.h"
#include "wire/messages/posix.h"
#include "wire/messages/promises.h"
#include "wire/messages/ranges.h"
#include "wire/messages/read_write.h"
#include "wire/messages/readdir.h"
#include "wire/messages/references.h"
#include "wire/messages/response_cache.h"
#include "wire/messages/server_identity.h"
#include "wire/messages/session.h"
#include "wire/protocol/procedures.h"

namespace dafs::wire {

// ProcTraits<Proc::kLookup>::Args is LookupArgs, ::Res is LookupRes.
template <Proc>
struct ProcTraits;
#define DAFS_WIRE_TRAITS(name, ...)  \
  template <>                        \
  struct ProcTraits<Proc::k##name> { \
    using Args = name##Args;         \
    using Res = name##Res;           \
  };
DAFS_WIRE_PROCEDURES(DAFS_WIRE_TRAITS)
#undef DAFS_WIRE_TRAITS

// The result type of an argument type.
template <class Args>
using ResOf = typename ProcTraits<Args::kProc>::Res;

// Calls `f.template operator()<Proc::kX>()` for the X that equals `proc`. Returns false if there is
// none.
template <class F>
bool VisitProc(Proc proc, F&& f) {
  switch (proc) {
#define DAFS_WIRE_CASE(name, ...)           \
  case Proc::k##name:                       \
    f.template operator()<Proc::k##name>(); \
    return true;
    DAFS_WIRE_PROCEDURES(DAFS_WIRE_CASE)
#undef DAFS_WIRE_CASE
  }
  return false;
}

}  // namespace dafs::wire
