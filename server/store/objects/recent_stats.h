// What statx said of the objects that a request has just made, changed or found, for a GETATTR that
// follows it in the same chain: the kernel need not be asked again.
//
// The answer is as true as a new one: the GETATTR had arrived before statx was called, so what was
// seen then was seen while it was being executed (4.3: members of a chain are executed in order). A
// session forgets all of it before it begins any other request, and at the end of its turn.
// Belongs to the session's thread.
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
    ObjectRef object;     // null: free
    uint64_t sample = 0;  // of its ChangeCounter, taken before `stx`
    struct statx stx;
  };

  void Keep(Object& object, uint64_t sample, const struct statx& stx) {
    Entry& entry = entries_[next_++ % entries_.size()];
    entry.object = object.shared_from_this();
    entry.sample = sample;
    entry.stx = stx;
  }
  // The later one of two; null: not known.
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
