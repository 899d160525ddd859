// Opens that a client may not know.
//
// A process of a client may be killed before it stores what the last responses granted or claimed,
// and another process continues the client. Such an open, or delegation, is never closed, so a file
// that loses its last name would be kept for it. Therefore the server sends the client a query for
// those of a file without a name that are older than the loss of a session of the client.
// Thread-safe. Nothing here blocks or calls the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/store/holdings/open_records.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class OpenDoubts {
 public:
  struct Doubt {
    wire::ClientId client_id;
    wire::StateId state_id;
    ObjectKey key;
    bool is_delegation = false;
  };

  // `records` outlives this.
  explicit OpenDoubts(OpenRecords& records) : records_(records) {}
  OpenDoubts(const OpenDoubts&) = delete;
  OpenDoubts& operator=(const OpenDoubts&) = delete;

  // Called for each, on the thread of a request, perhaps with a lock of the store held. It must not
  // block. Set it before the first request.
  void SetAsker(std::function<void(const Doubt&)> ask) { ask_ = std::move(ask); }
  // The file has no name any more, and is kept while it is open.
  void Unnamed(const ObjectKey& key) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // A session of the client has ended without DISCONNECT, and grants nothing more.
  void SessionLost(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // All of the client, for a new Back-control Channel.
  std::vector<Doubt> DoubtsOf(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Whether it is still open.
  bool Holds(const Doubt& doubt) const ABSL_LOCKS_EXCLUDED(records_.mutex());

 private:
  bool IsDoubtful(uint64_t serial) const ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());
  Doubt DoubtOf(uint64_t serial) const ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());
  std::vector<Doubt> DoubtsOfLocked(const wire::ClientId& client_id) const
      ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());

  OpenRecords& records_;
  std::function<void(const Doubt&)> ask_ = [](const Doubt&) {};
};

}  // namespace dafs::server
