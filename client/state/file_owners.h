// The owners in file attributes: names of the server's ID-mapping domain on the wire, numbers of
// this machine for the callers of operations. Spec: 6.1.5, WIRE R90.
//
// A server with an ID-mapping domain sends "name@domain" in OWNER and OWNER_GROUP, and accepts it.
// Numbers in decimal do not change, nor does any other text, for example "OWNER@".
//
// Thread-safe. Nothing blocks: the functions use kept answers, and return the missing ones as
// questions. client/recovery/owner_lookups.h asks these and waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/id_names.h"
#include "runtime/log/log_budget.h"
#include "wire/protocol/attributes.h"

namespace dafs::client {

// The id of a name, or the name of a number in decimal.
struct OwnerQuestion {
  auth::IdKind kind{};
  std::string owner;

  friend auto operator<=>(const OwnerQuestion&, const OwnerQuestion&) = default;
};

class FileOwners {
 public:
  static constexpr uint32_t kNobody = 65534;  // for a name without a number

  // `names` null: no owner changes. `server`: for messages.
  FileOwners(std::shared_ptr<IdNames> names, std::string server)
      : names_(std::move(names)), server_(std::move(server)) {}
  FileOwners(const FileOwners&) = delete;
  FileOwners& operator=(const FileOwners&) = delete;

  bool maps() const { return names_ != nullptr; }

  static bool IsName(std::string_view owner) {
    const size_t at = owner.find('@');
    return at != owner.npos && at != 0 && at + 1 != owner.size();
  }
  static bool HasNames(const wire::FileAttributes& attributes) {
    return IsName(attributes.owner) || IsName(attributes.owner_group);
  }

  // Replaces names by numbers, if maps(). Returns false if an owner has no number, or the lookup
  // has failed: it becomes kNobody. Names without a kept answer stay, and are added to `ask`. Null
  // `ask`: the lookups have ended, so these names become kNobody too, and the log says why.
  bool ToNumbers(wire::FileAttributes& attributes, std::vector<OwnerQuestion>* ask);
  // Replaces numbers by names, if maps(). A number that has no name stays. Those without a kept
  // answer stay, and are added to `ask`. Null `ask`: the lookups have ended, so that is an error
  // too. kInternal: a lookup has failed. The number must not be sent then: it may be that of
  // another user at the server.
  absl::Status ToNames(wire::FileAttributes& attributes, std::vector<OwnerQuestion>* ask) const;

  // Calls `done` after the answer is kept, as IdNames does. Only if maps().
  void Ask(const OwnerQuestion& question, std::function<void()> done);

 private:
  // A name is logged once in this time.
  static constexpr absl::Duration kLoggedFor = absl::Hours(1);
  static constexpr size_t kMostLogged = 1000;  // of them

  bool ToNumber(auth::IdKind kind, std::string& owner, std::vector<OwnerQuestion>* ask);
  absl::Status ToName(auth::IdKind kind, std::string& owner, std::vector<OwnerQuestion>* ask) const;
  void LogNobody(auth::IdKind kind, const std::string& name, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<IdNames> names_;  // shared by the clients of a mount
  const std::string server_;
  absl::Mutex mutex_;
  LogBudget budget_ ABSL_GUARDED_BY(mutex_);
  absl::Time logged_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::flat_hash_set<std::string> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
