// What the operations of Files share. Inside client/ only.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/session/call.h"
#include "client/state/node.h"
#include "wire/messages/messages.h"

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

// GETATTR of the file or directory that the members before have changed, for `after`; the last of
// their chain. It is an addition: its failure is not theirs, and where `after` is null it is left
// out.
class AfterCall : public StatCall {
 public:
  AfterCall(const wire::FileHandle& changed, wire::FileAttributes* after)
      : StatCall(false), after_(after) {
    args.filehandle = changed;
  }
  // How many members of the chain it is.
  size_t count() const { return after_ != nullptr ? 1 : 0; }
  // What is to be run of `chain`, whose last member it is.
  std::span<CallBase* const> In(std::span<CallBase* const> chain) const {
    return chain.first(chain.size() - 1 + count());
  }
  void Put() {
    if (after_ != nullptr && ok()) *after_ = Take();
  }

 private:
  wire::FileAttributes* const after_;
};

}  // namespace dafs::client
