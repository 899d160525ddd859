// Messages about the Response Cache of a lost session.
// Spec: WIRE 9.4; draft 6.3.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_CHECK_RESPONSE, spec 6.3.1.
struct CheckResponseArgs {
  static constexpr Proc kProc = Proc::kCheckResponse;

  SessionId session_id;  // the old, disconnected session
  uint16_t xid_stream = 0;
  uint16_t xid_seq = 0;
  uint32_t procedure = 0;  // the number of the old request

  static void Fields(auto& m, auto& c) {
    c.Field("session_id", m.session_id);
    c.Field("xid_stream", m.xid_stream);
    c.Field("xid_seq", m.xid_seq);
    c.Field("procedure", m.procedure);
  }
  friend bool operator==(const CheckResponseArgs&, const CheckResponseArgs&) = default;
};

struct CheckResponseRes {
  static constexpr Proc kProc = Proc::kCheckResponse;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const CheckResponseRes&, const CheckResponseRes&) = default;
};

// DAFS_PROC_FETCH_RESPONSE, spec 6.3.2. The result is that of the stored response: decode it as the
// result of the old procedure.
struct FetchResponseArgs {
  static constexpr Proc kProc = Proc::kFetchResponse;

  SessionId session_id;  // the old, disconnected session
  uint16_t xid_stream = 0;
  uint16_t xid_seq = 0;
  uint32_t procedure = 0;  // the number of the old request

  static void Fields(auto& m, auto& c) {
    c.Field("session_id", m.session_id);
    c.Field("xid_stream", m.xid_stream);
    c.Field("xid_seq", m.xid_seq);
    c.Field("procedure", m.procedure);
  }
  friend bool operator==(const FetchResponseArgs&, const FetchResponseArgs&) = default;
};

struct FetchResponseRes {
  static constexpr Proc kProc = Proc::kFetchResponse;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const FetchResponseRes&, const FetchResponseRes&) = default;
};

// DAFS_PROC_DISCARD_RESPONSES, spec 6.3.3.
struct DiscardResponsesArgs {
  static constexpr Proc kProc = Proc::kDiscardResponses;

  SessionId session_id;

  static void Fields(auto& m, auto& c) { c.Field("session_id", m.session_id); }
  friend bool operator==(const DiscardResponsesArgs&, const DiscardResponsesArgs&) = default;
};

struct DiscardResponsesRes {
  static constexpr Proc kProc = Proc::kDiscardResponses;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DiscardResponsesRes&, const DiscardResponsesRes&) = default;
};

}  // namespace dafs::wire
