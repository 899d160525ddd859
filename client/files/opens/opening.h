// Opens and closes files at the server.
// Spec: 6.5.7, 6.5.24, 6.5.26; the private procedures 1000, 1002, 1010 and 1011.
// Threads and blocking: client/files/files.h.
//
// The state ids that it returns are permanent names of opens (client/state/opens.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/delegations.h"
#include "client/state/node.h"
#include "client/state/open_file.h"
#include "client/state/opens.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/types.h"

namespace dafs::client {

template <class ArgsType>
class Call;
template <class ArgsType>
class OpenCall;
class AttributeOperations;
class DelegationOperations;
class InFlightOperation;
class LockOperations;
class StatCall;

class OpenOperations : public OperationGroup {
 public:
  // `locks` releases the locks of an open before its CLOSE, and `attributes` truncates. All outlive
  // this.
  OpenOperations(const OperationContext& context, LockOperations& locks,
                 AttributeOperations& attributes, DelegationOperations& delegating)
      : OperationGroup(context), locks_(locks), attributes_(attributes), delegating_(delegating) {}

  // OPEN, SETATTR if truncation or an exclusive create needs it, GETATTR: one chain.
  // EXIST, SYMLINK, ISDIR, DENIED (a share conflict), ...
  Task<absl::StatusOr<OpenFile>> Open(const Identity& user, const OpenRequest& request,
                                      Attributes* after = nullptr);
  // Opens a file under a delegation, without a request, if names and attributes under promises are
  // exact. nullopt: OpenByHandle must ask the server.
  std::optional<OpenFile> OpenLocally(const Identity& user, const wire::FileHandle& file,
                                      uint32_t share_access, std::string_view owner);
  // No more opens of the file under a delegation until it is opened at the server again.
  void StopLocalOpens(const wire::FileHandle& file);
  // Whether a delegation protects the file: no other client, and no program of the server, has
  // changed it since the delegation was granted.
  bool IsProtected(const wire::FileHandle& file) const;
  // The caller does not know the file any more: returns an unused delegation.
  void Unused(const wire::FileHandle& file);
  // Private procedure 1011 OPEN_DELEGATED or 1000 OPEN_HANDLE. If the server lacks it, returns an
  // OpenFile with state id zero: reads and writes with it are allowed but checked each time.
  Task<absl::StatusOr<OpenFile>> OpenByHandle(const Identity& user, const wire::FileHandle& file,
                                              uint32_t share_access, std::string_view owner);
  // Creates a file without a name in the file system of `directory` (OPEN with
  // CLAIM_CREATE_UNLINKED). The last close removes it unless it was linked. Uses the directory,
  // shares, owner and attributes of `request`. kUnimplemented also if the file system does not
  // support it.
  Task<absl::StatusOr<OpenFile>> OpenUnlinked(const Identity& user, const OpenRequest& request);
  // Reduces the shares of an open to a subset of its present ones (INVAL otherwise). 6.5.26.
  Task<absl::Status> Downgrade(const wire::StateId& open, uint32_t share_access,
                               uint32_t share_deny);
  // Private procedure 1002 OPEN_EXECUTE: opens for reading if the user may read or execute the
  // file. If delegations are wanted, tries OpenByHandle first, and OPEN_EXECUTE only after ACCES.
  // If the server lacks OPEN_EXECUTE, does only OpenByHandle.
  Task<absl::StatusOr<OpenFile>> OpenForExecution(const Identity& user,
                                                  const wire::FileHandle& file,
                                                  std::string_view owner);
  // Private procedure 1010 OPEN_OWNER: another open of the file of `open`, by its user, for
  // `owner`, with the access (`share_access`) of `open`, whatever the present mode of the file.
  // `extended`: an open of the same owner, with less access; the result is the same open then.
  // Returns the new state id; the caller closes it like any other. Sends nothing under a delegation
  // that suffices. kUnimplemented: the server lacks the procedure. kAborted: `open` was closed.
  Task<absl::StatusOr<wire::StateId>> OpenForOwner(const wire::StateId& open, uint32_t share_access,
                                                   std::string_view owner,
                                                   wire::StateId extended = {});
  // Whether the open can still be used: it was not lost with the server's state. Sends no request.
  bool IsOpen(const wire::StateId& open) const;
  // The file, owner, access and user of an open; null after its CLOSE. Sends no request.
  std::shared_ptr<const OpenInfo> InfoOf(const wire::StateId& open) const;
  // Releases the locks of the open first. Sends nothing for an open under a delegation, except
  // that the end of the last one for writing changes the delegation at the server. A zero state id:
  // does nothing, OK. `can_wait`: nothing waits for the reply, so the request may be delayed up to
  // 5 ms to share a send.
  Task<absl::Status> Close(const wire::StateId& open, bool can_wait = false);
  // An OPEN of a killed program was executed twice. Closes the first open, `earlier`, unless it is
  // the same open of the server as `again`. Retries until the server answers; errors are not
  // reported.
  Task<void> EndEarlier(wire::StateId earlier, wire::StateId again);
  // Closes what `dropped` has opened for `owner`: an operation of a killed process that nothing
  // carries out again, because its program was killed, too. Waits for a session; errors are not
  // reported.
  Task<void> CloseDropped(InFlightOperation& dropped, std::string owner);

 private:
  template <class Args>
  Task<void> CloseSent(InFlightOperation& dropped, const std::string& owner);
  Task<absl::Status> RunOpen(const Identity& user, const Call<wire::OpenArgs>& open,
                             std::span<CallBase* const> chain, std::string_view what,
                             size_t extra = 0);
  template <class Args>
  Task<absl::StatusOr<OpenFile>> OpenByCall(const Identity& user, Call<Args>& open,
                                            std::atomic<bool>& unknown);

  std::optional<OpenFile> OpenUnder(const Identity& user, const wire::FileHandle& file,
                                    uint32_t share_access, std::string_view owner, bool exact);
  Task<absl::StatusOr<OpenFile>> OpenDelegated(const Identity& user, const wire::FileHandle& file,
                                               uint32_t share_access, std::string_view owner,
                                               Delegations::Plan plan);
  void TakeDelegation(const OpenCall<wire::OpenArgs>& open, const StatCall& stat,
                      const Identity& user, OpenFile& file);
  Task<absl::Status> TruncateAgain(const Identity& user, bool writes, OpenFile& file);
  void Settle(OpenFile& file, bool only_clients);
  Task<void> CloseLocal(Delegations::Closing closing, bool can_wait);

  LockOperations& locks_;
  AttributeOperations& attributes_;
  DelegationOperations& delegating_;
  bool said_delegation_ = false;  // logged already
};

}  // namespace dafs::client
