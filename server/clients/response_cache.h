// The Response Caches of all sessions, live and lost: a client whose session has ended may query
// the outcome of its unanswered requests.
// Spec: 5.2 (Server Response Cache), 6.3; WIRE 9.4 (CHECK_RESPONSE .. DISCARD_RESPONSES), R49, R50.
//
// A cache is a mapped file `responses/SESSIONID` in the state directory. It has a header that names
// its owner, and a journal slot (server/store/durable/journal.h) for every stream that the session
// may ever have. So a stream that expires when Nreq shrinks costs nothing. Its entry stays until
// the stream is used again for a modifying request or the cache is removed: no entry is removed
// before its response has arrived (5.2.2).
//
// Limits are space (max_bytes for all caches; a session beyond it gets no cache, 5.2.1) and time
// (keep_time after the end of the session). Entries larger than a slot (BATCH_SUBMIT, 5.2.3) are
// kept in memory and do not survive a restart.
#pragma once

#include <atomic>
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

// The client that may query a cache: the session's client, in this instance or another (5.2.5).
struct CacheOwner {
  std::string client_id_string;
  wire::Verifier verifier;
  Principal principal;
};

// The cache of one session. The session's thread writes it until the session ends; afterwards it
// does not change. Owned by the table, the session, and requests that query it.
class SessionCache {
 public:
  SessionCache(MappedFile file, const wire::SessionId& session_id, wire::ByteOrder order,
               const CacheOwner& owner, uint32_t streams, bool stable = false);
  // Returns true if `file` was written before the machine restarted, by a server that does not
  // write each slot to the device. Its entries may be older than the file system.
  static bool IsOutdated(const MappedFile& file);
  // Returns true if a session may have used the cache in `file`. The header gets its magic number
  // last and before the client learns of the cache, so a server that was killed before that has
  // left no slot in it.
  static bool IsBegun(const MappedFile& file);
  // Loads a cache of an earlier instance of the server. Null if the file is invalid.
  static std::shared_ptr<SessionCache> Load(MappedFile file);

  const wire::SessionId& session_id() const { return session_id_; }
  wire::ByteOrder order() const { return order_; }
  const CacheOwner& owner() const { return owner_; }
  // The client has authenticated as `principal`.
  void SetPrincipal(const Principal& principal);

  uint32_t streams() const { return streams_; }
  JournalSlot& slot(uint16_t stream_id) const;

  // A request that modifies nothing arrived on the stream. Removes the entry if it is so old that
  // its number might be used again.
  void Passed(uint16_t stream_id, uint16_t seq_number);
  // Records the response to the request: `body` is the response from message offset 40 on.
  void Answer(const wire::RequestHeader& request, wire::DafsStatus status,
              std::span<const std::byte> body);

  // Finds the entry of a request. NO_XID_MATCH: there is none. DELAY: that is not known yet.
  struct Entry {
    wire::DafsStatus status = wire::DafsStatus::kOk;
    std::span<const std::byte> body;
  };
  wire::DafsStatus Find(uint16_t stream_id, uint16_t seq_number, uint32_t procedure,
                        Entry* entry) const;

  // JournalRecovery does not know yet whether the request of this slot was executed. Call before
  // the cache can be queried.
  void NoteUnsettled(uint16_t stream_id);
  // Now it does. Publishes the slot.
  void NoteSettled(uint16_t stream_id);
  bool has_unsettled() const { return unsettled_.load(std::memory_order_acquire) > 0; }

  static size_t FileBytes(uint32_t streams);
  size_t file_bytes() const { return file_.bytes().size(); }
  const MappedFile& file() const { return file_; }
  void Remove() { file_.Unlink(); }

 private:
  struct Header;
  SessionCache(MappedFile file, const Header& header);
  bool SyncHeader() const;

  const bool stable_ = false;  // the header is on the device before the client knows the session
  MappedFile file_;
  wire::SessionId session_id_;
  wire::ByteOrder order_;
  CacheOwner owner_;
  uint32_t streams_;
  std::atomic<uint32_t> unsettled_{0};  // the number of slots; publishes them
  // By stream; empty if no slot ever was. They publish the slots.
  std::vector<std::atomic<bool>> is_unsettled_;
  // Responses too large for their slots, by stream.
  struct Large {
    uint16_t seq_number = 0;
    wire::Proc procedure{};
    wire::DafsStatus status{};
    std::vector<std::byte> body;
  };
  absl::flat_hash_map<uint16_t, Large> large_;
};

// All caches. Thread-safe; creates and removes files, otherwise nothing blocks.
class ResponseCache {
 public:
  struct Options {
    std::string state_dir;
    size_t max_bytes = size_t{256} << 20;
    absl::Duration keep_time = absl::Hours(1);
    bool stable = false;      // with --stable=power
    bool has_served = false;  // an earlier instance had caches
  };
  // Loads the caches of an earlier instance. Logs missing, damaged or outdated (IsOutdated) files;
  // their clients get UNKNOWN_SESSION. kFailedPrecondition, kResourceExhausted: a file cannot be
  // opened now.
  static absl::StatusOr<std::unique_ptr<ResponseCache>> Open(const Options& options,
                                                             absl::Time now);

  // Creates the cache of a new session. Returns null, and logs it, if there is no room. Lost caches
  // of the same client are removed first, the oldest first. Other clients' lost caches are removed
  // only if their host keeps more bytes than the client's host would then keep. So no host can fill
  // all the space by losing sessions.
  std::shared_ptr<SessionCache> Create(const wire::SessionId& session_id, wire::ByteOrder order,
                                       const CacheOwner& owner, uint32_t streams)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing of the session is executed any more. Without `keep` (an orderly end) removes its cache.
  void Ended(const SessionCache& cache, bool keep, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Finds the cache of a lost session for `asker`. UNKNOWN_SESSION: there is none. NOT_AUTHORIZED:
  // the session belongs to another client. BAD_SESSION: it is connected, or has the other byte
  // order. Spec gap: a session that has ended while some of its requests are executing counts as
  // connected, so that no client assumes that they were not executed. A later query succeeds.
  wire::DafsStatus Find(const wire::SessionId& session_id, const CacheOwner& asker,
                        wire::ByteOrder order, std::shared_ptr<SessionCache>* cache) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Discard(const SessionCache& cache) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes the caches that have been kept for keep_time, and are settled.
  void Expire(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // The lost sessions' caches, for the recovery of the store at start.
  std::vector<std::shared_ptr<SessionCache>> Lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    std::shared_ptr<SessionCache> cache;
    PeerAddress host;  // the host of its client
    bool lost = false;
    absl::Time since;  // time of the loss
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
