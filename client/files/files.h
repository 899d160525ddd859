// The files of an export, as one worker sees them. Owns the worker's session and what keeps it
// alive, and hands out the operations in groups: every operation is a coroutine over the session.
// Requests that the protocol can chain take one round trip.
// Spec: chapter 4, 6.5; 4.3 (chains); WIRE 8, 9, 10.
//
// Belongs to the thread of its loop. Only connection set-up blocks that thread, for as long as the
// transport needs to find its route. Arguments taken by reference outlive the returned task. An
// operation must not be destroyed before it has ended; Shutdown ends all of them.
//
// When the session is lost, operations wait while a new one is built in the background. The
// server's Response Cache then shows which requests the server executed, and the client fetches
// their replies. The client sends the others again, a chain from its first unanswered member on
// (4.3.4, 5.2.5). After a restart of the server, the client reclaims opens before any
// request of a program. The caller only notices the delay. A state id that an operation returns
// names the open permanently (client/state/opens.h); it is not a state id of the server.
//
// Errors of all operations, in addition to those listed at each:
//   kUnimplemented     the server has no such procedure
//   kDeadlineExceeded  soft mount: the server did not answer in time
//   kCancelled         Shutdown
//   kUnknown           unknown outcome: the session was lost while a request that must not be
//                      executed twice was outstanding, and the server kept no Response Cache of it.
//                      Logged with the name of the operation. Also: a lock or share reservation was
//                      lost with the server's state. (EIO for the application.)
//   any code of StatusFromDafs, with the DAFS code as payload (wire::DafsFromStatus): the server's
//   error. Files passes STALE up, and FHEXPIRED of anything but the root. It waits and retries
//   after DELAY and GRACE.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/files/data/commits.h"
#include "client/files/data/data.h"
#include "client/files/data/ranges.h"
#include "client/files/names/acls.h"
#include "client/files/names/directories.h"
#include "client/files/names/fencing.h"
#include "client/files/names/names.h"
#include "client/files/names/xattrs.h"
#include "client/files/opens/delegating.h"
#include "client/files/opens/locking.h"
#include "client/files/opens/opening.h"
#include "client/files/shared/attributes.h"
#include "client/files/shared/operations.h"
#include "client/files/shared/transfer_policy.h"
#include "client/memory/buffer_pool.h"
#include "client/state/client.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class OperationClock;
class RequestExecutor;
class SessionObserver;
struct WorkerParts;
struct WorkerReport;

class Files {
 public:
  // Sends nothing yet: the first operation connects. Allocates the worker's buffer pool.
  static absl::StatusOr<std::unique_ptr<Files>> Create(Client& client, Loop& loop);
  // After Shutdown, outside of the loop's callbacks.
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // Tries once to build the session now. Reports why that fails (address refused, authentication,
  // ...) instead of waiting. kUnavailable: no connection; kPermissionDenied: not authenticated;
  // other codes come from the server. For the start of a mount; otherwise operations connect by
  // themselves.
  Task<absl::Status> Connect();
  // GET_ROOT_HANDLE, LOOKUP of the export path, GETATTR and GET_FSATTR in one chain. Returns the
  // root of the mount. Also stores the server's limits, for all workers of the client. NOENT: no
  // such export; ACCES: not for this caller or this client.
  Task<absl::StatusOr<Node>> Mount(const Identity& user);
  Task<absl::Status> Null();
  // DISCONNECT and close. Outstanding operations end with kCancelled.
  Task<void> Disconnect();
  // Ends everything now: all operations, waiting or outstanding, end with kCancelled before this
  // returns.
  void Shutdown();

  // Coalesces requests. While it lives, and if `wanted`, requests of operations that begin are sent
  // together at the loop's next turn, not one by one. For callers that start several operations.
  // Sending is a third of the cost of a small request.
  class RequestCoalescing {
   public:
    RequestCoalescing(Files& files, bool wanted);
    ~RequestCoalescing();
    RequestCoalescing(const RequestCoalescing&) = delete;
    RequestCoalescing& operator=(const RequestCoalescing&) = delete;

   private:
    RequestExecutor& executor_;
    const bool before_;  // another RequestCoalescing may be active already
  };

  // ---- The operations ----------------------------------------------------------------------

  NameOperations& names() { return names_; }
  DirectoryOperations& directories() { return directories_; }
  AttributeOperations& attributes() { return attributes_; }
  OpenOperations& opens() { return opens_; }
  LockOperations& locks() { return locks_; }
  DataOperations& data() { return data_; }
  CommitOperations& commits() { return commits_; }
  RangeOperations& ranges() { return ranges_; }
  XattrOperations& xattrs() { return xattrs_; }
  AclOperations& acls() { return acls_; }
  FenceOperations& fencing() { return fencing_; }
  DelegationOperations& delegating() { return delegating_; }

  // For groups of operations in other folders (client/batch): what they run on, and when the
  // session begins and ends. An observer is called until it is removed. If a session exists,
  // Observe calls SessionReady before it returns.
  const OperationContext& context() const { return context_; }
  void Observe(SessionObserver& observer);
  void StopObserving(SessionObserver& observer);

  // ---- The worker --------------------------------------------------------------------------

  // Buffers for Read, Write and ReadDirectory. `TryAcquire` first, `co_await Acquire` when empty.
  BufferPool& buffers() { return context_.buffers; }
  // The size limits of one read, write and append.
  const TransferPolicy& transfers() const { return context_.transfers; }
  // For the statistics of dafsctl. `add` (may be null) adds to each report what the caller of the
  // operations knows.
  WorkerReport Report() const;
  void OnReport(std::function<void(WorkerReport&)> add) { add_to_report_ = std::move(add); }
  // Where the time of the caller's operations goes.
  OperationClock& operation_clock();
  // How long there has been no session; zero while there is one.
  absl::Duration DisconnectedFor() const;
  Loop& loop() { return loop_; }
  Client& client() { return client_; }
  // Which names the server accepts.
  wire::NameRule name_rule() const {
    const uint64_t extensions = client_.limits().extensions.load(std::memory_order_relaxed);
    return (extensions & wire::kExtensionByteNames) != 0 ? wire::NameRule::kBytes
                                                         : wire::NameRule::kUtf8;
  }

 private:
  Files(Client& client, Loop& loop, std::unique_ptr<BufferPool> buffers);
  Task<void> AskWhetherSquashed(const Identity& user, const wire::FileHandle& root);

  Client& client_;
  Loop& loop_;
  const std::unique_ptr<WorkerParts> parts_;
  const OperationContext& context_;  // of parts_
  DelegationOperations delegating_;
  AttributeOperations attributes_;
  LockOperations locks_;
  OpenOperations opens_;
  NameOperations names_;
  DirectoryOperations directories_;
  DataOperations data_;
  CommitOperations commits_;
  RangeOperations ranges_;
  XattrOperations xattrs_;
  AclOperations acls_;
  FenceOperations fencing_;
  std::vector<SessionObserver*> observers_;
  std::function<void(WorkerReport&)> add_to_report_;
};

}  // namespace dafs::client
