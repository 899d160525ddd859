// Opens that a killed mount.dafs made for requests the kernel may not have an answer to
// (docs/restart.md). The kernel sends such a request again, or drops it if its program was killed
// as well. This table finds the opens that no request uses afterwards, so that they are closed.
// Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "client/state/records/identity.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class LeftOpens {
 public:
  // The opens that are left of one request. `open` is an open of the client that no file uses.
  struct Left {
    uint64_t file = 0;       // its handle; 0: none
    uint64_t directory = 0;  // its handle; 0: none
    wire::StateId open;
    client::Identity user;  // of `open`
  };

  // Before the first request. `request`: the number of the kernel, without kUniqueResent.
  void AddFile(uint64_t request, uint64_t fh) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddDirectory(uint64_t request, uint64_t fh) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddOpen(uint64_t request, const wire::StateId& open, const client::Identity& user)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether something is recorded for the request.
  bool Has(uint64_t request) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The request was read again; Take will return its opens.
  void WasSentAgain(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns and forgets what is left of the request.
  Left Take(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call when all requests that the kernel sends again were read. Returns the opens of the others,
  // which nothing will use, and forgets these requests. Their files and directories stay: the
  // kernel has their handles, except if it dropped a request while it was being answered. So does
  // the open of a request that has a file, too: two programs were killed, and the open may be that
  // of the file at the server.
  std::vector<wire::StateId> TakeDropped() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Left left;
    bool was_sent_again = false;
  };
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by request
};

}  // namespace dafs::fuse
