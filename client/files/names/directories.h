// Lists directories. Spec: 6.5.29, 6.5.30; WIRE 10.2.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/memory/buffer_pool.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/codec/direct.h"
#include "wire/messages/messages.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

template <class ArgsType>
class Call;
struct LeasePart;

class DirectoryOperations : public OperationGroup {
 public:
  explicit DirectoryOperations(const OperationContext& context) : OperationGroup(context) {}

  // Reads the entries after `cookie` (0: from the start, with a zero `cookieverf`) into `into`, at
  // most `max_bytes`. `attributes`: requested for each entry, e.g. kStatAttributes |
  // wire::kFattrFilehandle; 0: names only. `after` (may be null): the directory's attributes after
  // the read; unchanged if there are none. BAD_COOKIE; TOOSMALL and READDIR_NOSPC: one entry needs
  // more than `max_bytes`.
  Task<absl::StatusOr<DirectoryPage>> ReadDirectory(const Identity& user,
                                                    const wire::FileHandle& directory,
                                                    uint64_t cookie,
                                                    const wire::Verifier& cookieverf,
                                                    uint32_t max_bytes, uint64_t attributes,
                                                    BufferLease& into, Attributes* after = nullptr);

  // Replaces the owners of entries by numbers of this machine (client/state/file_owners.h), in
  // `attributes` that the caller has copied out of a page. May wait for name services. Returns
  // false if an owner has no number: then the page's promise about attributes must not be used.
  Task<absl::StatusOr<bool>> NumberOwners(std::span<wire::FileAttributes* const> attributes);

 private:
  absl::Status OpenEntries(const Call<wire::ReaddirDirectArgs>& call, const LeasePart& part,
                           wire::DirentReader& entries) const;
};

}  // namespace dafs::client
