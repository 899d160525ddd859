// The CHANGE attribute of an object, and of a directory around a modification.
// One thread. Blocks on the file system.
#pragma once

#include <cstdint>

#include "server/store/objects/object.h"
#include "server/store/objects/recent_stats.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The CHANGE attribute of an object now; 0 if it cannot be read.
uint64_t ChangeOf(Object& object);

// The CHANGE attribute of a directory before and after a modification.
class ChangeProbe {
 public:
  // `recent`, if not null, receives the directory's attributes in Modified.
  explicit ChangeProbe(Object& directory, RecentStats* recent = nullptr);
  // Call after a modification that succeeded.
  wire::ChangeInfo Modified();
  uint64_t before() const { return info_.before; }
  // For a request that modified nothing: before and after are the same.
  wire::ChangeInfo Unmodified() const { return {info_.before, info_.before, true}; }

 private:
  Object& directory_;
  RecentStats* const recent_;
  wire::ChangeInfo info_;
};

}  // namespace dafs::server
