// The opens of named attributes. Each holds the value as its holder sees it: what is written stays
// there until CLOSE makes it the attribute's, all at once, so that nobody ever sees half of it.
// Spec: 4.1.5, 6.5.24, 6.5.7; ARCHITECTURE "named attributes".
//
// Bounded in number, and so in memory: each holds at most kXattrMost bytes.
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
  bool known = true;     // `value` is the attribute's; else only a new one can be set
  bool changed = false;  // CLOSE has something to set
  bool spoilt = false;   // a change was refused: CLOSE sets nothing, half of them would be worse
};

class AttributeOpens {
 public:
  explicit AttributeOpens(uint32_t instance) : instance_(instance & kInstanceMask) {}

  // A second open of one owner and attribute takes the place of the first: it is the repetition of
  // a request whose answer was lost. RESOURCE: too many.
  wire::DafsStatus Add(AttributeOpen open, wire::StateId* state_id);

  // Looks at, or changes, an open under the lock. BAD_STATEID, STALE_STATEID.
  wire::DafsStatus With(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key,
                        absl::FunctionRef<wire::DafsStatus(AttributeOpen&)> use);

  // The size of an attribute as an open of the client has it; nullopt: the client has none.
  std::optional<size_t> SizeOf(const wire::ClientId& client_id, const ObjectKey& key);

  // Ends an open and hands it over.
  wire::DafsStatus Take(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key, AttributeOpen* open);

  // Ends the opens of a client that is gone. What it had not closed is not set.
  void ReleaseClient(const wire::ClientId& client_id);

 private:
  static constexpr uint32_t kInstanceMask = 0xffffff;
  static constexpr int kSerialBits = 40;
  // Keeps these state ids apart from those of files (server/store/holdings/open_state.h).
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

// Which name a hash in a handle stands for: the names seen lately. Thread-safe.
class AttributeNames {
 public:
  // Empty: not known.
  std::string Find(const NameHash& hash);
  void Insert(const NameHash& hash, const std::string& name);

 private:
  static constexpr size_t kMost = 4096;

  absl::Mutex mutex_;
  absl::flat_hash_map<NameHash, std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
