// The attributes of objects and pseudo directories, as GETATTR, READDIR and VERIFY report them.
// Thread-safe. Blocks on the file system.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "server/store/access/exports/kept_orphans.h"
#include "server/store/access/known_objects.h"
#include "server/store/objects/object.h"
#include "server/store/objects/pseudo_fs.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

class ObjectAttributes {
 public:
  // Both are borrowed.
  ObjectAttributes(KnownObjects& objects, KeptOrphans& orphans)
      : objects_(objects), orphans_(orphans) {}

  // The attributes of an object. STALE: see KnownObjects::CheckAlive.
  wire::DafsStatus GetAttributes(Object& object, uint64_t bitmap, wire::FileAttributes* attributes);
  // The same from `stx`, which was read after `sample` was taken (ChangeCounter::Sample).
  wire::DafsStatus GetAttributesFrom(Object& object, uint64_t sample, const struct statx& stx,
                                     uint64_t bitmap, wire::FileAttributes* attributes);
  static void GetPseudoAttributes(const PseudoNode& node, uint64_t bitmap,
                                  wire::FileAttributes* attributes);

 private:
  KnownObjects& objects_;
  KeptOrphans& orphans_;
};

}  // namespace dafs::server
