// Caches the statx results of objects that a request just made, changed or found. A GETATTR that
// follows in the same chain uses them instead of another system call.
//
// The results are as valid as new ones. The GETATTR had arrived before the call of statx, so the
// state was read while the GETATTR was outstanding (4.3: members of a chain are executed in order).
// A session clears the cache before it begins any other request, and at the end of its turn. Used
// by the session's thread only.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/store/objects/object.h"

namespace dafs::server {

class RecentStats {
 public:
  struct Entry {
    ObjectRef object;     // null: unused entry
    uint64_t sample = 0;  // of its ChangeCounter, taken before `stx` was read
    struct statx stx;
    bool is_promised = false;  // the caller was promised the attributes before `stx` was read
  };

  void Keep(Object& object, uint64_t sample, const struct statx& stx, bool is_promised = false) {
    Entry& entry = entries_[next_++ % entries_.size()];
    entry.object = object.shared_from_this();
    entry.sample = sample;
    entry.stx = stx;
    entry.is_promised = is_promised;
  }
  // The later of two entries for the same object; null if there is none.
  const Entry* Find(const wire::FileHandle& filehandle) const {
    for (size_t i = 1; i <= entries_.size() && i <= next_; ++i) {
      const Entry& entry = entries_[(next_ - i) % entries_.size()];
      if (entry.object != nullptr && SameHandle(entry.object->handle(), filehandle)) return &entry;
    }
    return nullptr;
  }
  void Clear() {
    if (next_ == 0) return;
    for (Entry& entry : entries_) entry.object.reset();
    next_ = 0;
  }

 private:
  std::array<Entry, 2> entries_;  // two directories of a RENAME, or a file and its directory
  size_t next_ = 0;
};

}  // namespace dafs::server
