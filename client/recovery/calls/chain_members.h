// Questions about the members of a chain between two attempts to carry it out, and what is put into
// their arguments before the next one.
// Spec: 4.3.1, 4.3.4; WIRE 8.3.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>

#include "client/exchange/call.h"
#include "client/state/opens.h"
#include "client/state/server/root_handle.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// How many members from the first on succeeded.
size_t AnsweredWell(std::span<CallBase* const> chain);

// The first member that is not idempotent and may have been executed; null if all members can be
// issued again.
const CallBase* FateUnknown(std::span<CallBase* const> chain);

// Whether a response to a member arrived damaged.
bool AnyDamaged(std::span<CallBase* const> chain);

// Puts the filehandle and state id that the first `done` members leave into the next member, which
// becomes the first of the rest. Returns the rest.
std::span<CallBase* const> Rest(std::span<CallBase* const> chain, size_t done);

// Whether `chain` may run while lost data is restored. COMMIT and writes restore it. Requests that
// write or truncate may run too: a file is not written again while one of them runs. Only the first
// member decides. A copy waits, since its source may be lost data.
bool IsOfData(std::span<CallBase* const> chain);

// Puts the server's present state ids into the arguments. Returns the first open of `chain` that
// the server does not know under `client_id`; nullopt if it knows all.
std::optional<wire::StateId> NameOpens(std::span<CallBase* const> chain, const Opens& opens,
                                       const wire::ClientId& client_id);

// The same for the root's filehandle.
void NameRoot(std::span<CallBase* const> chain, const RootHandle& root);

// The chain flags as the caller set them, to issue the whole chain again.
class OriginalFlags {
 public:
  explicit OriginalFlags(std::span<CallBase* const> chain);
  void Restore(std::span<CallBase* const> chain) const;

 private:
  std::bitset<kMaxChain> fh_, state_id_;
};

}  // namespace dafs::client
