// What the operations of Files share. Inside client/ only.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/call.h"
#include "client/node.h"
#include "wire/messages.h"

namespace dafs::client {

// The error of `what` for an answer that is not OK; kUnimplemented for NOTSUPP.
absl::Status StatusOf(const CallBase& call, std::string_view what);

// LOCKU of everything from `first` to `last`, inclusive.
wire::LockuArgs UnlockArgs(const wire::FileHandle& file, const wire::StateId& state_id,
                           uint64_t first, uint64_t last);

// GETATTR of the file that the members before leave current.
class StatCall : public Call<wire::GetattrInlineArgs> {
 public:
  explicit StatCall(bool of_current = true) {
    args.attr_request_bitmap = kStatAttributes;
    chf_fh = of_current;
  }
  wire::FileAttributes&& Take() { return std::move(res.obj_attributes); }
};

// GETATTR of the file or directory that the members before have changed. It is an addition: its
// failure is not theirs.
class AfterCall : public StatCall {
 public:
  explicit AfterCall(const wire::FileHandle& changed) : StatCall(false) {
    args.filehandle = changed;
  }
  void PutInto(wire::FileAttributes* after) {
    if (after != nullptr && ok()) *after = Take();
  }
};

}  // namespace dafs::client
