// The state of one open(2) and of one opendir(2) of the kernel. Any thread; nothing blocks.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/data/write_tracker.h"
#include "client/state/promises.h"
#include "client/state/records/identity.h"
#include "fuse/files/handle_table.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

// The access that the flags of open(2) request: wire::kShare... bits.
inline uint32_t ShareOf(uint32_t flags) {
  switch (flags & O_ACCMODE) {
    case O_RDONLY:
      return wire::kShareRead;
    case O_WRONLY:
      return wire::kShareWrite;
    default:
      return wire::kShareBoth;
  }
}

// One OPEN at the server for each open of the kernel. Data moves under the opener's identity, not
// the caller's. Constant once it is in the table, except `errors`; any thread.
struct OpenState {
  uint64_t nodeid = 0;
  wire::FileHandle handle;
  wire::StateId state_id;          // of the open among client::Opens; zero: the server has none
  uint32_t flags = 0;              // of open(2)
  std::optional<uint64_t> change;  // of the file when it was opened, as far as known
  // See KernelPages: the delegation under which it is open, and what BeginOpen returned.
  uint64_t delegation = 0;
  uint16_t bypasses_before = 0;
  std::shared_ptr<const client::Identity> opener;
  // As of the open: whether the opener could write even without this open, as root or as the file's
  // owner (WIRE R64), and the value of WriteTracker::owner_changes.
  bool by_own_right = false;
  uint64_t owner_changes = 0;
  std::shared_ptr<client::WriteTracker> writes;            // shared with the inode table
  client::WriteTracker::ErrorCursor errors;                // `writes` guards it
  std::optional<client::WriteTracker::DirectOpen> direct;  // of `writes`, with O_DIRECT
  uint64_t opened_by = 0;                                  // the number of the kernel's request
  uint32_t live_slot = 0;                                  // LiveFiles
};

// Part of a directory as the server listed it, starting at one cookie.
struct DirectoryChunk {
  struct Entry {
    uint64_t cookie = 0;  // of this entry: a listing continues after it
    std::string name;
    wire::FileAttributes attributes;
    bool acl_in_mode = false;  // the ACL was requested, and it equals the mode
  };
  uint64_t from_cookie = 0;            // the first entry follows this cookie
  bool attributes = false;             // entries have all of stat(2) and a filehandle
  bool eof = false;                    // no entry after the last one here
  bool known_here = false;             // not from the server, which does not know the cookies
  absl::Time asked_at;                 // before the request was sent
  client::Promise names;               // of the directory
  client::Promise attributes_promise;  // of each entry
  std::vector<Entry> entries;
};

class DirectoryState {
 public:
  DirectoryState(uint64_t nodeid, const wire::FileHandle& handle,
                 std::shared_ptr<const client::Identity> opener)
      : nodeid(nodeid), handle(handle), opener(std::move(opener)) {}

  const uint64_t nodeid;
  const wire::FileHandle handle;
  const std::shared_ptr<const client::Identity> opener;
  uint64_t opened_by = 0;  // as OpenState::opened_by; set before it is in the table
  uint32_t live_slot = 0;  // LiveFiles; the caller that reads the listing changes it

  // The chunk that was read last, and the verifier to continue with. A chunk is shared by this
  // state and the call that is answering from it.
  std::shared_ptr<const DirectoryChunk> chunk() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return chunk_;
  }
  wire::Verifier cookieverf() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return cookieverf_;
  }
  void SetChunk(std::shared_ptr<const DirectoryChunk> chunk, const wire::Verifier& cookieverf)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    chunk_ = std::move(chunk);
    cookieverf_ = cookieverf;
  }
  // A listing begins. Returns true for the first one, which may use what OPENDIR has read.
  bool BeginListing() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return !std::exchange(listed_, true);
  }
  // The kernel gets entries that were read under `names`. Returns the oldest promise of this
  // listing's entries; none, if some came without one.
  client::Promise NoteNames(const client::Promise& names, bool from_start)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (from_start || names.asked < names_.asked) names_ = names;
    return names_;
  }
  bool listed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return listed_;
  }
  // All names of a directory, for WholeDirectories.
  struct Whole {
    uint64_t listing = 0;     // its number there; 0: these are not all names from the start
    client::Promise promise;  // the oldest one of the chunks; none: one came without
    std::vector<std::string> names;
  };
  // The server has listed `chunk`. `listing`: the number of the listing that begins with it, if it
  // is the first one. Returns all names with the last chunk of a listing that was read in order;
  // otherwise `listing` is 0 in the result. Gives up beyond `most` names.
  Whole Collect(const DirectoryChunk& chunk, uint64_t listing, size_t most)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (chunk.from_cookie == 0) {
      collected_ = {.listing = listing, .promise = chunk.names, .names = {}};
      next_cookie_ = 0;
    }
    const bool follows = collected_.listing != 0 && chunk.from_cookie == next_cookie_;
    if (!follows || collected_.names.size() + chunk.entries.size() > most) {
      collected_ = {};
      return {};
    }
    if (chunk.names.asked < collected_.promise.asked) collected_.promise = chunk.names;
    for (const DirectoryChunk::Entry& entry : chunk.entries) collected_.names.push_back(entry.name);
    if (!chunk.entries.empty()) next_cookie_ = chunk.entries.back().cookie;
    return chunk.eof ? std::exchange(collected_, {}) : Whole();
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const DirectoryChunk> chunk_ ABSL_GUARDED_BY(mutex_);
  wire::Verifier cookieverf_ ABSL_GUARDED_BY(mutex_);
  bool listed_ ABSL_GUARDED_BY(mutex_) = false;
  client::Promise names_ ABSL_GUARDED_BY(mutex_);
  Whole collected_ ABSL_GUARDED_BY(mutex_);  // of the chunks so far
  uint64_t next_cookie_ ABSL_GUARDED_BY(mutex_) = 0;
};

using OpenFiles = HandleTable<OpenState>;
using OpenDirectories = HandleTable<DirectoryState>;

}  // namespace dafs::fuse
