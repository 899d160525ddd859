// Reads by reference: small reads that the client makes itself, by RDMA from the server's exported
// cache, without a request. Optimistic: a reference may be stale, and then the caller reads by a
// request. Only for servers that offer it (kExtensionReferences).
// Spec: FAST03 companion (Optimistic DAFS); wire/messages/references.h; docs/optimistic.md.
//
// A reference is requested after the first ordinary read of a block, and after a stale one; if
// there was none, again after a second. The reads go over a channel of their own; without one, all
// reads are ordinary, and a new one is made after a second. Belongs to the thread of the session's
// loop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/files/files.h"
#include "client/files/shared/session_observer.h"
#include "client/session/reference_channel.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "client/state/server/reference_directory.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"
#include "wire/messages/references.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class ReferenceReads final : public SessionObserver {
 public:
  struct Counts {
    uint64_t by_reference = 0;  // reads without a request
    uint64_t stale = 0;         // reads that found another version
    uint64_t lost = 0;          // reads that the end of the channel cut off
    uint64_t requests = 0;      // GET_REFS
    uint64_t references = 0;    // that these returned
    uint64_t channels = 0;      // reference channels that were made
  };
  // An open file. `name` is that of ReferenceDirectory::NewFile.
  struct File {
    uint32_t name = 0;
    wire::FileHandle handle;
    wire::StateId state_id;
  };

  // For files of `root`'s export, on behalf of `user`. All are borrowed and outlive this.
  ReferenceReads(Files& files, const Identity& user, const Node& root);
  ~ReferenceReads() override;
  ReferenceReads(const ReferenceReads&) = delete;
  ReferenceReads& operator=(const ReferenceReads&) = delete;

  // Whether there is a channel.
  bool ready() const;
  uint32_t NewFile() { return directory_.NewFile(); }

  // Reads `size` bytes at `offset` and calls `take` with them. False: they are not in one block to
  // which there is a valid reference, and the caller reads by a request. If there is none to their
  // block, requests one in the background. Blocks for one RDMA read at most. `take` is called
  // before the task ends.
  Task<bool> Read(File file, uint64_t offset, uint32_t size,
                  absl::FunctionRef<void(std::span<const std::byte>)> take);

  // Requests references to `count` blocks from `offset` on, and returns how many there are now. The
  // server copies into its cache what its kernel has in memory.
  Task<absl::StatusOr<uint32_t>> Fetch(File file, uint64_t offset, uint32_t count);

  const Counts& counts() const { return counts_; }

  void SessionReady(Session& session) override;
  void SessionLost() override;
  void Shutdown() override;

 private:
  // Requests in the background, at most.
  static constexpr uint32_t kMostRequests = 8;

  ReferenceChannel* channel() const;
  Task<void> Join();
  void JoinLater();
  Task<void> FetchOne(File file, uint64_t block);
  void Watch();

  Files& files_;
  const Identity& user_;
  const Node& root_;
  ReferenceDirectory directory_;
  Session* session_ = nullptr;
  wire::ExportCacheRes cache_;  // valid while is_ready_
  bool is_ready_ = false;
  bool is_joining_ = false;
  bool is_shut_down_ = false;
  uint32_t requesting_ = 0;
  uint32_t reading_ = 0;
  uint64_t came_ = 0;             // reads that were answered
  Loop::TimerId join_timer_ = 0;  // 0: none
  Loop::TimerId watch_timer_ = 0;
  Counts counts_;
};

}  // namespace dafs::client
