// Helpers for the operations of Files. Used inside client/ only.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/exchange/call.h"
#include "client/state/node.h"
#include "client/state/promises.h"
#include "wire/messages/messages.h"
#include "wire/protocol/header.h"

namespace dafs::client {

// The error of operation `what` for a response that is not OK. NOTSUPP gives kUnimplemented.
absl::Status StatusOf(const CallBase& call, std::string_view what);

// The promise that came with the response to `call`: `kind` is wire::kSpcondNames or
// wire::kSpcondAttributes.
inline Promise PromiseOf(const CallBase& call, uint16_t kind) {
  return Promises::Given(call.asked, call.spec_cond, kind);
}

// Arguments of a LOCKU of the bytes `first` to `last`, both included.
wire::LockuArgs UnlockArgs(const wire::FileHandle& file, const wire::StateId& state_id,
                           uint64_t first, uint64_t last);

// GETATTR of the current filehandle that the members before it leave.
class StatCall : public Call<wire::GetattrInlineArgs> {
 public:
  explicit StatCall(bool of_current = true) {
    args.attr_request_bitmap = kStatAttributes;
    chf_fh = of_current;
  }
  Attributes Take() {
    return {std::move(res.obj_attributes), PromiseOf(*this, wire::kSpcondAttributes)};
  }
};

// GETATTR of the file or directory that the chain has changed, as the last member; stores the
// attributes in `after`. If it fails, the chain has not failed. If `after` is null, the member is
// left out.
class AfterCall : public StatCall {
 public:
  AfterCall(const wire::FileHandle& changed, Attributes* after) : StatCall(false), after_(after) {
    args.filehandle = changed;
  }
  // The number of members that this adds to the chain: 0 or 1.
  size_t count() const { return after_ != nullptr ? 1 : 0; }
  // The members of `chain` to run. This call is its last member.
  std::span<CallBase* const> In(std::span<CallBase* const> chain) const {
    return chain.first(chain.size() - 1 + count());
  }
  void Put() {
    if (after_ != nullptr && ok()) *after_ = Take();
  }

 private:
  Attributes* const after_;
};

}  // namespace dafs::client
