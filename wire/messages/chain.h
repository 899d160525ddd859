// The effect of chain flags on arguments and results. Spec: WIRE 8.3, 9.1; draft 4.3.2.
// Functions on values; nothing blocks.
#pragma once

#include "wire/messages/messages.h"

namespace dafs::wire {

// Returns the argument that DAFS_CHF_FH replaces by the current filehandle; null if the procedure
// does not allow the flag.
template <class Args>
FileHandle* ChainFileHandle(Args& args) {
  if constexpr (!InfoOf(Args::kProc).chf_fh) {
    return nullptr;
  } else if constexpr (Args::kProc == Proc::kOpen) {
    return &args.claim_handle();
  } else if constexpr (Args::kProc == Proc::kLookup) {
    return &args.directory;
  } else if constexpr (Args::kProc == Proc::kLink) {
    return &args.destination_object;
  } else if constexpr (Args::kProc == Proc::kRename || Args::kProc == Proc::kRename2) {
    return &args.targetdir;
  } else {
    return &args.filehandle;
  }
}

// Returns the argument that DAFS_CHF_STATEID replaces by the current state id; null if the
// procedure does not allow the flag (OPEN: with this claim).
template <class Args>
StateId* ChainStateId(Args& args) {
  if constexpr (!InfoOf(Args::kProc).chf_state_id) {
    return nullptr;
  } else if constexpr (Args::kProc == Proc::kOpen) {
    return args.claim_type == OpenClaimType::kDelegateCur ? &args.claimdelcur_stateid : nullptr;
  } else {
    return &args.state_id;
  }
}

// Returns the filehandle that a result makes current. Only for procedures with
// Current::kFromResult.
template <class Res>
const FileHandle& ResultFileHandle(const Res& res) {
  static_assert(InfoOf(Res::kProc).filehandle_after == Current::kFromResult);
  if constexpr (Res::kProc == Proc::kGetRootHandle) {
    return res.root_handle;
  } else {
    return res.filehandle;
  }
}

}  // namespace dafs::wire
