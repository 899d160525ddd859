// The effect of chain flags on arguments and results. Spec: WIRE 8.3, 9.1; draft 4.3.2.
// Functions on values; nothing blocks.
#pragma once

#include <type_traits>

#include "wire/messages/messages.h"

namespace dafs::wire {

// Returns the argument that DAFS_CHF_FH replaces by the current filehandle; null if the procedure
// does not allow the flag. It is the field `filehandle`, unless the message names another one by a
// function of this name.
template <class Args>
FileHandle* ChainFileHandle(Args& args) {
  if constexpr (!InfoOf(Args::kProc).chf_fh) {
    return nullptr;
  } else if constexpr (requires { Args::ChainFileHandle(args); }) {
    return &Args::ChainFileHandle(args);
  } else {
    return &args.filehandle;
  }
}

// Returns the argument that DAFS_CHF_STATEID replaces by the current state id; null if the
// procedure does not allow the flag (OPEN: with this claim). It is the field `state_id`, or that of
// the message's function of this name.
template <class Args>
StateId* ChainStateId(Args& args) {
  if constexpr (!InfoOf(Args::kProc).chf_state_id) {
    return nullptr;
  } else if constexpr (requires { Args::ChainStateId(args); }) {
    return Args::ChainStateId(args);
  } else {
    return &args.state_id;
  }
}

// Returns the filehandle that a result makes current: the field `filehandle`, or that of the
// message's ChainFileHandle(). Only for procedures with Current::kFromResult.
template <class Res>
const FileHandle& ResultFileHandle(const Res& res) {
  static_assert(InfoOf(Res::kProc).filehandle_after == Current::kFromResult);
  if constexpr (requires { Res::ChainFileHandle(res); }) {
    return Res::ChainFileHandle(res);
  } else {
    return res.filehandle;
  }
}

// Returns the state id that a result makes current: the field `state_id`, or that of a delegation
// that has taken the place of an open (WIRE 9.7). Only for procedures with Current::kFromResult.
template <class Res>
const StateId& ResultStateId(const Res& res) {
  static_assert(InfoOf(Res::kProc).state_id_after == Current::kFromResult);
  if constexpr (std::is_base_of_v<OpenDelegation, Res>) {
    if (res.state_id.is_zero()) return res.delegation_state_id;
  }
  return res.state_id;
}

// Returns the object that `args` name besides the one that the request leaves current: the
// directory of a new or opened name, the object that gets another name, the directory that a name
// leaves. Null if there is none.
template <class Args>
const FileHandle* OtherFileHandle(const Args& args) {
  if constexpr (Args::kProc == Proc::kOpen) {
    const bool in_directory = args.claim_type == OpenClaimType::kNull && args.pathname.size() == 1;
    return in_directory ? &args.dir_handle : nullptr;
  } else if constexpr (Args::kProc == Proc::kCreate || Args::kProc == Proc::kMakeNode) {
    return &args.filehandle;
  } else if constexpr (Args::kProc == Proc::kLink) {
    return &args.source_object;
  } else if constexpr (Args::kProc == Proc::kRename || Args::kProc == Proc::kRename2) {
    return &args.sourcedir;
  } else {
    return nullptr;
  }
}

// Whether the response to a request of this procedure may carry attributes (kChfAttributes).
constexpr bool MayCarryAttributes(const ProcInfo& proc) {
  return proc.filehandle_after != Current::kUnchanged && proc.category != Category::kBulkFetch;
}

}  // namespace dafs::wire
