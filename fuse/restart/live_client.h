// The sessions, opens, locks, credentials, delegations and uncommitted data of a mount's client in
// its live record (fuse/cache/record/live_record.h), for the program that continues it after a
// crash (docs/restart.md). Thread-safe. Nothing blocks.
#pragma once

#include <span>

#include "client/state/records/state_recorder.h"
#include "fuse/cache/record/live_record.h"
#include "fuse/restart/handover_record.h"

namespace dafs::fuse {

class LiveClient : public client::StateRecorder {
 public:
  // `record` must outlive this.
  explicit LiveClient(LiveRecord& record) : record_(record) {}

  Slot PutSession(const LiveSession& session) override;
  Slot PutOpen(const Open& open, Slot before) override;
  Slot PutLocks(const HeldLocks& locks, Slot before) override;
  Slot PutCredential(const wire::ClientId& client_id, const client::Identity& user,
                     const wire::CredHandle& handle) override;
  Slot PutDelegation(const HeldDelegation& delegation, Slot before) override;
  Slot PutKeptFile(const KeptFile& kept, Slot before) override;
  Slot PutKept(const Kept& kept, Slot before) override;
  void ResizeKept(Slot slot, size_t bytes) override { record_.SetCount(slot, bytes); }
  std::span<std::byte> TakeMemory(size_t bytes) override { return record_.TakeMemory(bytes); }
  void Drop(Slot slot) override { record_.Drop(slot); }

  // Adds to `record` what a killed process has left. Items that do not decode are left out.
  static void Read(std::span<const LiveRecord::Item> items, HandoverRecord& record);

 private:
  LiveRecord& record_;
};

}  // namespace dafs::fuse
