// The clients that hold something at this server, recorded so that the next instance knows which
// may reclaim. The record is a mapped file `clients` in the state directory, with a slot for each
// client.
// Spec: 3.1.1.3 (what identifies a client), 4.4.1.2 (reclaim), 4.4.1.6.
//
// A slot is written when a client takes its name and when it gives the name up. In between, every
// open and close changes the Holdings in it, at the cost of a store into memory. The file survives
// the end of the process. With --stable=power a slot is on the device before the first response to
// its client, but its counts are not. So after any restart of the machine every recorded client
// counts as holding opens and locks.
//
// Thread-safe; only these device writes block.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
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
    Holdings* holdings = nullptr;  // lives as long as the ClientRecords
    bool had_promises = false;     // of an earlier instance
  };

  // Loads the records of an earlier instance; their clients may reclaim what they held. Records are
  // lost if a slot is damaged, if there were more clients than slots, or if the file is missing or
  // damaged although the server `has_served`. Open logs that, and Unknown() returns their holdings.
  // kFailedPrecondition, kResourceExhausted: the file cannot be opened or created now.
  static absl::StatusOr<std::unique_ptr<ClientRecords>> Open(const std::string& state_dir,
                                                             bool stable, bool has_served);

  // The holdings of clients whose records are lost; any client may be one of them. Null if there
  // are none. They are part of the file: if the server ends before Holdings::ForgetLost, the next
  // instance has them too.
  Holdings* Unknown() const;

  // The grace period of some exports is over, that of others is not. A client that has not come
  // back by now does not know that. If this instance ends, the next must not let it reclaim what
  // others may have had meanwhile. So it will not let the client reclaim anything.
  void ExpireAbsent() ABSL_LOCKS_EXCLUDED(mutex_);

  // The clients of earlier instances that have something to reclaim.
  std::vector<Record> Owed() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns true if a client other than `client` may still reclaim under its name. Another client
  // has proven something else, or has neither the same verifier nor the same principal.
  bool BelongsToAnother(const Record& client) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Records a client that has taken its name. If an earlier instance of the server recorded the
  // same instance of the client, the record keeps its reclaimable holdings. Returns null if all
  // slots are taken: then the next instance knows that unrecorded clients existed, but not which.
  Holdings* Take(const Record& client) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records whether a client that was taken has promises
  // (server/store/holdings/promises/promises.h).
  void NotePromises(const Holdings* holdings, bool has_promises) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it may have promises, of this instance or an earlier one.
  bool MayHavePromises(const Holdings* holdings) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The names of the clients that may have promises of an earlier instance; kUnknownClient if there
  // may be others. If the machine was started long ago, these have ended.
  std::set<std::string, std::less<>> Returning() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Clients that have not sent PROMISES to this instance have none.
  void EndReturning() ABSL_LOCKS_EXCLUDED(mutex_);
  static constexpr std::string_view kUnknownClient{"\0unknown", 8};

  // Removes the record of a client that is forgotten and holds nothing.
  void Drop(const Holdings* holdings) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot;

  struct Header;

  ClientRecords(MappedFile file, bool stable);
  // Sets *is_new if it made the file.
  static absl::StatusOr<MappedFile> OpenFile(const std::string& path, bool has_served,
                                             bool* is_new);
  static absl::StatusOr<MappedFile> CreateFile(const std::string& path, bool has_served);
  Header& header() const;
  Slot& slot(size_t index) const;
  size_t IndexOf(const Holdings* holdings) const;
  void TakeUp(bool rebooted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MappedFile file_;
  const bool stable_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, size_t> by_name_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> live_ ABSL_GUARDED_BY(mutex_);  // belongs to a client of this instance
  std::vector<size_t> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> had_only_promises_ ABSL_GUARDED_BY(mutex_);
  bool unknown_promises_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::server
