// One delegation of a client. The table owns it, and the calls that return or change it.
// Spec: 6.5.10, 6.6.4; WIRE 9.7.
// Any thread reads the public part. The classes over DelegationTable use the rest under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "wire/messages/open_close.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Delegation {
 public:
  Delegation(uint64_t number_in, const wire::FileHandle& file_in, const wire::StateId& state_id_in,
             const wire::ClientId& client_id_in, Identity who_in, uint64_t asked_in)
      : number(number_in),
        file(file_in),
        state_id(state_id_in),
        client_id(client_id_in),
        user(std::move(who_in)),
        asked(asked_in) {}

  const uint64_t number;  // unique in this client
  const wire::FileHandle file;
  const wire::StateId state_id;    // the server's
  const wire::ClientId client_id;  // under which it is valid
  const Identity user;             // who opened the file
  const uint64_t asked;            // Promises::sequence() before its request was sent

 private:
  friend class DelegationLocks;
  friend class DelegationReturns;
  friend class DelegationTable;
  friend class Delegations;

  // The mutex of the table guards the rest.
  wire::OpenDelegationType type = wire::OpenDelegationType::kNone;
  uint32_t access = 0;       // of local opens: wire::kShare... bits
  bool was_write = false;    // at some time
  bool was_locked = false;   // locks were held under it
  bool settled = false;      // Settle was called
  bool stopped = false;      // makes no local opens, and ends when it has none
  bool upgrading = false;    // an OPEN is to make it a write delegation
  bool downgrading = false;  // an OPEN_DOWNGRADE is under way
  bool ended = false;        // makes no local opens, and is returned
  StateRecorder::Slot slot = 0;
  absl::Time recalled_at = absl::InfiniteFuture();
  // Of Settle.
  bool only_clients = false;
  std::string owner;
  // The local opens by their names, and how many of them write.
  absl::flat_hash_set<wire::StateId> locals;
  size_t writers = 0;
  std::optional<std::list<std::shared_ptr<Delegation>>::iterator> idle;  // its place in the table
};
using DelegationPtr = std::shared_ptr<Delegation>;

}  // namespace dafs::client
