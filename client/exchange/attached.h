// GETATTRs that need no request: the response to the member before them carries their results.
// Spec: WIRE 9.8. Belongs to the thread of the session's loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client/exchange/call.h"
#include "wire/codec/attributes_after.h"

namespace dafs::client {

class AttachedChain {
 public:
  // Attaches the GETATTRs that follow the last other member of `chain` to that member, as far as
  // its response can carry what they ask for. The calls outlive this.
  explicit AttachedChain(std::span<CallBase* const> chain);

  // The members to send, in their order.
  std::span<CallBase* const> sent() const { return {sent_.data(), count_}; }
  // The members that were sent have their responses. If one has failed, those attached have failed
  // as members of a broken chain. Otherwise those without a result have no response.
  void Finish();

 private:
  std::array<CallBase*, kMaxChain> sent_;
  size_t count_;
  size_t carrier_;  // the last that is no GETATTR
};

// The flags for what is attached to `call`.
uint16_t AttributeFlags(const CallBase& call);

// Gives what the response to `call` carries to the GETATTRs that are attached to it.
void TakeAttributes(CallBase& call, wire::AttributesAfter carried);

}  // namespace dafs::client
