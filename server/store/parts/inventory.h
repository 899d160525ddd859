// State of clients in the store, for the administrator: opens, locks, waiters, and the names of
// their files. Nothing here calls a file system, so nothing waits for one that hangs.
// Thread-safe. Takes a lock of the store only to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class Inventory {
 public:
  explicit Inventory(StoreParts& store) : store_(store) {}

  struct FileName {
    std::optional<size_t> export_index;
    // On this machine. Empty if the server does not know it: it has no descriptor of the file now,
    // or the kernel has not seen a name of the file. " (deleted)" follows the last name of a file
    // that is removed.
    std::string path;
  };
  FileName NameOf(const ObjectKey& file) const;

  struct Open {
    ObjectKey file;
    uint32_t access = 0;  // wire::kShare...
    bool is_delegation = false;
  };
  // The opens of a client in the files that `wants` accepts, at most `most`.
  std::vector<Open> OpensOf(const wire::ClientId& client_id, size_t most,
                            absl::FunctionRef<bool(const ObjectKey& file)> wants) const;
  // How many of the client's opens are delegations. Examines all of them, one at a time.
  size_t DelegationsOf(const wire::ClientId& client_id) const;

  // The files with locks or waiters.
  std::vector<ObjectKey> LockedFiles() const;
  struct Lock {
    wire::ClientId client_id;
    std::string owner;  // as OPEN named it: any bytes
    wire::LockRange range;
    bool waits = false;
    bool by_kernel = false;  // waits for a program of this machine
  };
  // The locks of a file, then its waiters in their order. At most `most`.
  std::vector<Lock> LocksOn(const ObjectKey& file, size_t most) const;
  size_t waiting() const;

  size_t open_count() const;        // opens held by clients
  size_t lock_count() const;        // locks held by clients
  size_t descriptor_count() const;  // descriptors held for objects

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
