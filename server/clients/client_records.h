// The clients that hold something at this server, recorded so that the next instance knows who may
// reclaim: a mapped file `clients` in the state directory with a slot for each.
// Spec: 3.1.1.3 (what identifies a client), 4.4.1.2 (reclaim), 4.4.1.6.
//
// A slot is written when a client takes its name and when it gives it up; between the two its
// Holdings change with every open and close, which costs a store into memory. It survives the end
// of the process. With --stable=power it is on the device before a client's first answer, but its
// counts are not: after the loss of the machine every recorded client counts as holding opens and
// locks. Thread-safe; nothing blocks but that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/clients/principal.h"
#include "server/store/holdings/holdings.h"
#include "server/store/system/mapped_file.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class ClientRecords {
 public:
  static constexpr size_t kSlots = 2048;

  struct Record {
    std::string client_id_string;
    wire::Verifier verifier;
    Principal principal;
    Holdings* holdings = nullptr;  // lives as long as this
  };

  // Takes up what an earlier instance has recorded: what its clients held is theirs to reclaim.
  // Where the server `has_served` and the file or a slot of it is missing or damaged, clients that
  // hold something are not recorded: that is logged, and Unknown() says so.
  // kFailedPrecondition, kResourceExhausted: the file cannot be opened or made now.
  static absl::StatusOr<std::unique_ptr<ClientRecords>> Open(const std::string& state_dir,
                                                             bool stable, bool has_served);

  // What clients without a record may hold: every client may be one of them. Null if there is none.
  // It is part of the file: a server that ends before these are forgotten (Holdings::ForgetLost)
  // leaves them to its next instance.
  Holdings* Unknown() const;

  // The clients of earlier instances that have something to reclaim.
  std::vector<Record> Owed() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether somebody else than `client` may still reclaim under its name: who is known neither by
  // the verifier nor by the principal.
  bool BelongsToAnother(const Record& client) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The record of a client that has taken its name. If an earlier instance of the server knew the
  // same instance of it, what it had is its to reclaim. Null when all are taken: the next instance
  // knows that there was such a client, and not which.
  Holdings* Take(const Record& client) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client is forgotten, and holds nothing.
  void Drop(const Holdings* holdings) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot;

  struct Header;

  ClientRecords(MappedFile file, bool stable);
  static absl::StatusOr<MappedFile> OpenFile(const std::string& path, bool has_served);
  static absl::StatusOr<MappedFile> CreateFile(const std::string& path, bool has_served);
  Header& header() const;
  Slot& slot(size_t index) const;
  void TakeUp(bool rebooted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MappedFile file_;
  const bool stable_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, size_t> by_name_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> live_ ABSL_GUARDED_BY(mutex_);  // of clients of this instance
  std::vector<size_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
