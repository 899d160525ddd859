// Records the requests of one session that modify something, and their responses, in the session's
// part of the Response Cache. Without a cache it does nothing.
// Spec: 5.2 (exactly-once semantics); R49.
// Belongs to the session's thread. Blocks only with --stable=power, on a write to the device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "server/clients/options.h"
#include "server/clients/response_cache.h"
#include "server/session/request.h"
#include "server/store/store.h"

namespace dafs::server {

class ResponseRecorder {
 public:
  // Both are borrowed and outlive this.
  ResponseRecorder(ResponseCache& responses, Store& store, Stable stable)
      : responses_(responses), store_(store), stable_(stable) {}
  ResponseRecorder(const ResponseRecorder&) = delete;
  ResponseRecorder& operator=(const ResponseRecorder&) = delete;

  // Creates the cache of a session with `streams` streams. Returns false if there is no room.
  bool Open(const wire::SessionId& session_id, wire::ByteOrder order, const CacheOwner& owner,
            uint32_t streams);
  // The client has authenticated as `principal`.
  void SetPrincipal(const Principal& principal);

  // Before the request is executed: prepares the journal entry that a modification needs.
  void Begin(Request& request);
  // Records the response, even if it can no longer be sent: of modifying requests, and of simple
  // ones with CHF_SAVE (5.2.1).
  void Record(const Request& request, wire::DafsStatus status, std::span<const std::byte> response);

  // Nothing changes the cache any more (5.2.5): clients may query it now if it is kept.
  void End(bool keep);

 private:
  ResponseCache& responses_;
  Store& store_;
  const Stable stable_;
  std::shared_ptr<SessionCache> cache_;  // null: none; shared with the table and with queries
};

}  // namespace dafs::server
