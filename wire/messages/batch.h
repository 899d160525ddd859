// Messages about batch I/O.
// Spec: WIRE 9.4; draft 6.5.5, 6.5.16.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_BATCH_SUBMIT, spec 6.5.5.
struct BatchSubmitArgs {
  static constexpr Proc kProc = Proc::kBatchSubmit;

  std::vector<RwRequest> requests;
  uint32_t usec_window = 0;
  uint32_t num_completions = 0;
  bool synchronous = false;

  static void Fields(auto& m, auto& c) {
    c.Array("requests", m.requests, kBatchMax);
    c.Field("usec_window", m.usec_window);
    c.Field("num_completions", m.num_completions);
    c.Bool8("synchronous", m.synchronous);
  }
  friend bool operator==(const BatchSubmitArgs&, const BatchSubmitArgs&) = default;
};

struct BatchSubmitRes {
  static constexpr Proc kProc = Proc::kBatchSubmit;

  std::vector<CompletionNotification> completions;

  static void Fields(auto& m, auto& c) { c.Array("completions", m.completions, kBatchMax); }
  friend bool operator==(const BatchSubmitRes&, const BatchSubmitRes&) = default;
};

// DAFS_PROC_HURRY_UP, spec 6.5.16.
struct HurryUpArgs {
  static constexpr Proc kProc = Proc::kHurryUp;

  uint64_t request_id = 0;

  static void Fields(auto& m, auto& c) { c.Field("request_id", m.request_id); }
  friend bool operator==(const HurryUpArgs&, const HurryUpArgs&) = default;
};

struct HurryUpRes {
  static constexpr Proc kProc = Proc::kHurryUp;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const HurryUpRes&, const HurryUpRes&) = default;
};

}  // namespace dafs::wire
