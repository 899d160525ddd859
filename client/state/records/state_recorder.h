// Where a client keeps a record of its sessions, opens, locks, credentials, delegations and
// uncommitted data while it works, for a program that continues it after this one was killed
// (docs/restart.md). Each table below calls it at every change, under its mutex, with the slot in
// which the item was recorded before.
//
// An implementation must not block, nor call a table. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "client/state/records/identity.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct OpenInfo;

class StateRecorder {
 public:
  // Where an item is recorded; 0: nowhere.
  using Slot = uint32_t;

  virtual ~StateRecorder() = default;

  // A session whose requests the server may execute.
  struct LiveSession {
    const wire::SessionId& session_id;
    wire::AuthType auth;
  };
  virtual Slot PutSession(const LiveSession& session) = 0;

  // An entry of Opens.
  struct Open {
    const wire::StateId& name;
    const OpenInfo& info;
    const wire::StateId& state_id;
    const wire::ClientId& client_id;
    bool is_local = false;
    bool closing = false;  // a killed program has begun to close it
    const absl::Status& lost;
  };
  virtual Slot PutOpen(const Open& open, Slot before) = 0;

  // All locks of an open. `is_local`: the server does not know them.
  struct HeldLocks {
    const wire::FileHandle& file;
    const wire::StateId& open;
    uint64_t process = 0;
    bool is_local = false;
    std::span<const wire::LockRange> ranges;
  };
  virtual Slot PutLocks(const HeldLocks& locks, Slot before) = 0;

  virtual Slot PutCredential(const wire::ClientId& client_id, const Identity& user,
                             const wire::CredHandle& handle) = 0;

  // A delegation that is not returned yet. `was_write`: perhaps at some time only.
  struct HeldDelegation {
    uint64_t number = 0;
    const wire::FileHandle& file;
    const wire::StateId& state_id;
    const wire::ClientId& client_id;
    const Identity& user;
    bool was_write = false;
  };
  virtual Slot PutDelegation(const HeldDelegation& delegation, Slot before) = 0;

  // A file of Uncommitted of which data is kept. `number`: of this entry alone.
  struct KeptFile {
    uint64_t number = 0;
    const wire::FileHandle& file;
    const Identity& user;
    const wire::StateId& open;
  };
  virtual Slot PutKeptFile(const KeptFile& kept, Slot before) = 0;
  // Data that is kept of such a file. The record has only its place: `data` is in memory of
  // TakeMemory, or it is not recorded.
  struct Kept {
    uint64_t file = 0;  // KeptFile::number
    uint64_t offset = 0;
    std::span<const std::byte> data;
    const wire::Verifier& verifier;
  };
  virtual Slot PutKept(const Kept& kept, Slot before) = 0;
  // Only the size of the data has changed.
  virtual void ResizeKept(Slot slot, size_t bytes) = 0;

  // Memory for written data that outlives the process: `bytes` from a page on, for as long as the
  // recorder exists. Empty: there is none. It uses no memory until it is touched.
  virtual std::span<std::byte> TakeMemory(size_t bytes) = 0;

  // The item has ended. 0: nothing.
  virtual void Drop(Slot slot) = 0;
};

}  // namespace dafs::client
