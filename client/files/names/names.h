// Operations on the names in directories: look up, create, link, rename, remove, read a link.
// Spec: 6.5.9, 6.5.17, 6.5.21, 6.5.22, 6.5.31 to 6.5.34; the private procedures 1001 and 1003.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/delegations.h"
#include "client/state/node.h"
#include "client/state/promises.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationOperations;
class OpenOperations;

class NameOperations : public OperationGroup {
 public:
  // `opens` creates regular files for MakeNode where the server lacks MAKE_NODE. `delegating`
  // returns delegations of files that lose a name. Both outlive this.
  NameOperations(const OperationContext& context, OpenOperations& opens,
                 DelegationOperations& delegating)
      : OperationGroup(context), opens_(opens), delegating_(delegating) {}

  // Operations that change a directory fill in `after`: the attributes of that directory after the
  // change, fetched in the same chain. No attribute in it is valid if the server did not return
  // them. Null: not requested. `names` (may be null) receives, after success, the promise of the
  // names in each changed directory; where a node is returned, the node has it.

  // NOENT: `absent` (may be null) receives the promise of the directory's names.
  Task<absl::StatusOr<Node>> Lookup(const Identity& user, const wire::FileHandle& directory,
                                    std::string_view name, Promise* absent = nullptr);
  // Sets `attributes` (mode, owner and the like) as it creates the directory. Returns its node.
  Task<absl::StatusOr<Node>> MakeDirectory(const Identity& user, const wire::FileHandle& directory,
                                           std::string_view name,
                                           const wire::FileAttributes& attributes,
                                           Attributes* after = nullptr);
  // NAMETOOLONG also if the target does not fit into a message.
  Task<absl::StatusOr<Node>> MakeSymlink(const Identity& user, const wire::FileHandle& directory,
                                         std::string_view name, std::string_view target,
                                         Attributes* after = nullptr);
  // BLK, CHR, SOCK, FIFO or REG. Private procedure 1003 MAKE_NODE. If the server lacks it: CREATE,
  // then SETATTR of the mode (REG: OPEN GUARDED, CLOSE).
  Task<absl::StatusOr<Node>> MakeNode(const Identity& user, const wire::FileHandle& directory,
                                      std::string_view name, wire::ObjectType type,
                                      const wire::SpecData& device, uint32_t mode,
                                      Attributes* after = nullptr);
  // Returns the attributes of `file` with its new link count.
  Task<absl::StatusOr<Node>> Link(const Identity& user, const wire::FileHandle& file,
                                  const wire::FileHandle& directory, std::string_view name,
                                  Attributes* after = nullptr);
  // Both unlink and rmdir. NOTEMPTY, NOENT. `target`: the file of that name as far as it is known;
  // may be null. If this client has a delegation of it, that delegation is returned in the same
  // chain: otherwise the server keeps the removed file.
  Task<absl::Status> Remove(const Identity& user, const wire::FileHandle& directory,
                            std::string_view name, Attributes* after = nullptr,
                            Promise* names = nullptr, const wire::FileHandle* target = nullptr);
  // `target`: the file of the new name, as in Remove. `from_after`, `to_after`: the attributes of
  // each directory. If both are one directory, only `from_after` is filled in.
  Task<absl::Status> Rename(const Identity& user, const wire::FileHandle& from_directory,
                            std::string_view from_name, const wire::FileHandle& to_directory,
                            std::string_view to_name, Attributes* from_after = nullptr,
                            Attributes* to_after = nullptr, Promise* names = nullptr,
                            const wire::FileHandle* target = nullptr);
  // Private procedure 1001 RENAME2. `flags`: wire::kRenameNoReplace or kRenameExchange.
  // kUnimplemented: the server lacks the procedure.
  Task<absl::Status> Rename2(const Identity& user, const wire::FileHandle& from_directory,
                             std::string_view from_name, const wire::FileHandle& to_directory,
                             std::string_view to_name, uint32_t flags, Promise* names = nullptr);
  Task<absl::StatusOr<std::string>> ReadLink(const Identity& user, const wire::FileHandle& link);

 private:
  Task<absl::StatusOr<Node>> MakeEmptyFile(const Identity& user, const wire::FileHandle& directory,
                                           std::string_view name,
                                           const wire::FileAttributes& attributes,
                                           Attributes* after);
  Task<absl::StatusOr<Node>> CreateNode(const Identity& user, const wire::FileHandle& directory,
                                        std::string_view name, wire::ObjectType type,
                                        const wire::SpecData& device,
                                        const wire::FileAttributes& attributes, Attributes* after);
  Task<absl::StatusOr<std::string>> ReadLinkDirect(const Identity& user,
                                                   const wire::FileHandle& link);
  // The delegation to return before the file loses a name; null: none.
  DelegationPtr DelegationOf(const wire::FileHandle* target);

  OpenOperations& opens_;
  DelegationOperations& delegating_;
};

}  // namespace dafs::client
