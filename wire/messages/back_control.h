// Messages from the server to the client, on the Back-control Channel.
// Spec: WIRE 9.4; draft 6.6.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/attributes.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_BC_GETATTR, spec 6.6.3.
struct BcGetattrArgs {
  static constexpr Proc kProc = Proc::kBcGetattr;

  FileHandle filehandle;
  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
  }
  friend bool operator==(const BcGetattrArgs&, const BcGetattrArgs&) = default;
};

struct BcGetattrRes {
  static constexpr Proc kProc = Proc::kBcGetattr;

  FileAttributes obj_attributes;

  static void Fields(auto& m, auto& c) { c.Attributes("obj_attributes", m.obj_attributes); }
  friend bool operator==(const BcGetattrRes&, const BcGetattrRes&) = default;
};

// DAFS_PROC_BC_NULL, spec 6.6.1.
struct BcNullArgs {
  static constexpr Proc kProc = Proc::kBcNull;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcNullArgs&, const BcNullArgs&) = default;
};

struct BcNullRes {
  static constexpr Proc kProc = Proc::kBcNull;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcNullRes&, const BcNullRes&) = default;
};

// DAFS_PROC_BC_RECALL, spec 6.6.4.
struct BcRecallArgs {
  static constexpr Proc kProc = Proc::kBcRecall;

  FileHandle filehandle;
  StateId state_id;
  bool truncate = false;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Bool32("truncate", m.truncate);
  }
  friend bool operator==(const BcRecallArgs&, const BcRecallArgs&) = default;
};

struct BcRecallRes {
  static constexpr Proc kProc = Proc::kBcRecall;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcRecallRes&, const BcRecallRes&) = default;
};

// DAFS_PROC_BC_BATCH_COMPLETION, spec 6.6.2.
struct BcBatchCompletionArgs {
  static constexpr Proc kProc = Proc::kBcBatchCompletion;

  std::vector<CompletionNotification> completions;

  static void Fields(auto& m, auto& c) {
    c.Array("completions", m.completions, kBatchMax, kRequired);
  }
  friend bool operator==(const BcBatchCompletionArgs&, const BcBatchCompletionArgs&) = default;
};

struct BcBatchCompletionRes {
  static constexpr Proc kProc = Proc::kBcBatchCompletion;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcBatchCompletionRes&, const BcBatchCompletionRes&) = default;
};

}  // namespace dafs::wire
