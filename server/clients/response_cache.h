// The Response Caches of all sessions, live and lost: what a client whose session has ended may ask
// about its unanswered requests.
// Spec: 5.2 (Server Response Cache), 6.3; WIRE 9.4 (CHECK_RESPONSE .. DISCARD_RESPONSES), R49, R50.
//
// A cache is a mapped file `responses/SESSIONID` in the state directory: a header that says whose
// it is, and a journal slot (store/journal.h) for every stream the session may ever have. So a
// stream that expires when Nreq shrinks costs nothing and its entry stays until the stream is used
// again for a modifying request or the cache goes: no entry goes before its response has arrived
// (5.2.2).
//
// The bounds are of space (max_bytes for all caches: a session beyond gets none, 5.2.1) and of time
// (keep_time after the end of its session). Entries larger than a slot holds (BATCH_SUBMIT, 5.2.3)
// are kept in memory, and not over a restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clients/client_table.h"
#include "server/store/durable/journal.h"
#include "server/store/system/mapped_file.h"
#include "wire/protocol/header.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Who may ask for a cache: the client whose session it was, in this instance or another (5.2.5).
struct CacheOwner {
  std::string client_id_string;
  wire::Verifier verifier;
  Principal principal;
};

// The cache of one session. The session's thread writes it until it is retired; afterwards it does
// not change. Owned by the table and, meanwhile, the session and those who ask.
class SessionCache {
 public:
  SessionCache(MappedFile file, const wire::SessionId& session_id, wire::ByteOrder order,
               const CacheOwner& owner, uint32_t streams, bool stable = false);
  // Whether `file` was written before the machine restarted, by a server that does not write each
  // slot to the device: what it says of a request may be older than the file system.
  static bool IsOutdated(const MappedFile& file);
  // One of an earlier instance of the server. Null if the file is not what it should be.
  static std::shared_ptr<SessionCache> Load(MappedFile file);

  const wire::SessionId& session_id() const { return session_id_; }
  wire::ByteOrder order() const { return order_; }
  const CacheOwner& owner() const { return owner_; }
  // The client has authenticated.
  void SetPrincipal(const Principal& principal);

  uint32_t streams() const { return streams_; }
  JournalSlot& slot(uint16_t stream_id) const;

  // A request that modifies nothing has come on the stream: an entry so old that its number might
  // come again goes.
  void Passed(uint16_t stream_id, uint16_t seq_number);
  // What the request was answered: `body` is the response from message offset 40 on.
  void Answer(const wire::RequestHeader& request, wire::DafsStatus status,
              std::span<const std::byte> body);

  // The entry of a request; false if there is none.
  struct Entry {
    wire::DafsStatus status = wire::DafsStatus::kOk;
    std::span<const std::byte> body;
  };
  bool Find(uint16_t stream_id, uint16_t seq_number, uint32_t procedure, Entry* entry) const;

  static size_t FileBytes(uint32_t streams);
  size_t file_bytes() const { return file_.bytes().size(); }
  const MappedFile& file() const { return file_; }
  void Remove() { file_.Unlink(); }

 private:
  struct Header;
  SessionCache(MappedFile file, const Header& header);
  bool SyncHeader() const;

  const bool stable_ = false;  // the header is on the device before the client hears of the session
  MappedFile file_;
  wire::SessionId session_id_;
  wire::ByteOrder order_;
  CacheOwner owner_;
  uint32_t streams_;
  // Responses too large for their slots, by stream: of the request with that number.
  struct Large {
    uint16_t seq_number = 0;
    wire::Proc procedure{};
    wire::DafsStatus status{};
    std::vector<std::byte> body;
  };
  absl::flat_hash_map<uint16_t, Large> large_;
};

// All of them. Thread-safe; makes and removes files, else nothing blocks.
class ResponseCache {
 public:
  struct Options {
    std::string state_dir;
    size_t max_bytes = size_t{256} << 20;
    absl::Duration keep_time = absl::Hours(1);
    bool stable = false;      // with --stable=power
    bool has_served = false;  // there were caches before
  };
  // Takes up what an earlier instance has left. What is missing or damaged is logged: to its
  // clients it is an unknown session. Errors: kFailedPrecondition, kResourceExhausted: some of it
  // cannot be opened now.
  static absl::StatusOr<std::unique_ptr<ResponseCache>> Open(const Options& options,
                                                             absl::Time now);

  // The cache of a new session; null if there is no room for one, which is logged. A client's own
  // lost caches make room for its new one, oldest first; those of others only where their host
  // keeps more of them than the client's host would have then, so that no host takes up all there
  // is by losing sessions.
  std::shared_ptr<SessionCache> Create(const wire::SessionId& session_id, wire::ByteOrder order,
                                       const CacheOwner& owner, uint32_t streams)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing of the session is executed any more. Without `keep` (it ended in order) its cache goes.
  void Ended(const SessionCache& cache, bool keep, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // The cache of a lost session for `asker`. UNKNOWN_SESSION; BAD_SESSION: it is connected, another
  // client's, or of the other byte order.
  // Spec gap: a session that has ended while some of its requests are executed counts as connected,
  // so that nobody takes them for not executed; who asks again is told.
  wire::DafsStatus Find(const wire::SessionId& session_id, const CacheOwner& asker,
                        wire::ByteOrder order, std::shared_ptr<SessionCache>* cache) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Discard(const SessionCache& cache) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what has been kept long enough.
  void Expire(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // The lost sessions' caches, for the recovery of the store at start.
  std::vector<std::shared_ptr<SessionCache>> Lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    std::shared_ptr<SessionCache> cache;
    PeerAddress host;  // its client's
    bool lost = false;
    absl::Time since;  // when it was lost
  };

  explicit ResponseCache(const Options& options) : options_(options) {}
  std::string PathOf(const wire::SessionId& session_id) const;
  absl::Status Load(const std::string& path, absl::Time now);
  bool MakeRoom(const CacheOwner& owner, size_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const wire::SessionId& session_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<wire::SessionId, Kept> caches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
