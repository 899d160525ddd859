// The opens of named attributes. Each open has its own copy of the value. WRITE changes this copy,
// and CLOSE sets the attribute to it in one step, so that other clients never see a partial value.
// Spec: 4.1.5, 6.5.24, 6.5.7; docs/decisions.md, Server.
//
// The number of opens is bounded, and so is the memory: each has at most kXattrMost bytes.
// Thread-safe. Nothing here blocks or calls the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct AttributeOpen {
  wire::ClientId client_id;
  std::string owner;
  ObjectKey key;  // of the named attribute
  std::string name;
  uint32_t access = 0;  // wire::kShare...
  XattrMode mode = XattrMode::kAny;
  std::string value;
  bool known = true;     // `value` was read; if false, the open can only set a new value
  bool changed = false;  // CLOSE has a value to set
  bool spoilt = false;   // a change was refused: CLOSE sets nothing, to avoid a partial change
};

class AttributeOpens {
 public:
  explicit AttributeOpens(uint32_t instance) : instance_(instance & kInstanceMask) {}

  // Adds an open. A second open of the same owner and attribute replaces the first: the client
  // repeats a request after it lost the response. RESOURCE: too many opens.
  wire::DafsStatus Add(AttributeOpen open, wire::StateId* state_id);

  // Calls `use` with an open, under the lock. BAD_STATEID, STALE_STATEID.
  wire::DafsStatus With(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key,
                        absl::FunctionRef<wire::DafsStatus(AttributeOpen&)> use);

  // Returns the size of the value in an open of the client; nullopt: it has no open of `key`.
  std::optional<size_t> SizeOf(const wire::ClientId& client_id, const ObjectKey& key);

  // Removes an open and moves it to *open.
  wire::DafsStatus Take(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key, AttributeOpen* open);

  // Removes the opens of a client that is gone. Their values are not set.
  void ReleaseClient(const wire::ClientId& client_id);

 private:
  static constexpr uint32_t kInstanceMask = 0xffffff;
  static constexpr int kSerialBits = 40;
  // Distinguishes these state ids from those of files (server/store/holdings/open_table.h).
  static constexpr uint64_t kOfAttributes = uint64_t{1} << (kSerialBits - 1);
  static constexpr size_t kMost = 1024;
  static constexpr size_t kMostOfClient = 128;  // more than a session has requests in flight

  using Table = absl::flat_hash_map<uint64_t, AttributeOpen>;
  wire::DafsStatus Find(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key, Table::iterator* found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t instance_;
  absl::Mutex mutex_;
  uint64_t last_serial_ ABSL_GUARDED_BY(mutex_) = kOfAttributes;
  Table opens_ ABSL_GUARDED_BY(mutex_);
};

// Maps the hash in a handle to its name, for recently seen names. Thread-safe.
class AttributeNames {
 public:
  // Returns an empty string if the name is not known.
  std::string Find(const NameHash& hash);
  void Insert(const NameHash& hash, const std::string& name);

 private:
  static constexpr size_t kMost = 4096;

  absl::Mutex mutex_;
  absl::flat_hash_map<NameHash, std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
