// A fencing list: the fence ids that may access a file or a file system, and the rules by which
// SET_FENCING_LIST changes it.
// Spec: 4.4.4.3, 6.4.2; WIRE 9.4 SET_FENCING_LIST, R75.
// Values and pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/store/objects/handle.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// Sorted, each id once, at most wire::kFenceIdsMax. Empty: there is no list, and every session has
// access.
using FenceList = std::vector<std::string>;

// Whether a session with this fence id (empty: it has none) may access what has `list`.
bool Admits(const FenceList& list, std::string_view id);

// The object of a list: a file, or the whole file system of a filehandle.
struct FencedObject {
  wire::FenceObject kind = wire::FenceObject::kFile;
  // The file's key. For a file system: its FSHandle, followed by zeros, which no file has.
  ObjectKey key;

  static FencedObject File(const ObjectKey& file) { return {wire::FenceObject::kFile, file}; }
  static FencedObject FileSystem(const wire::FsHandle& fshandle);
  // Whether an object with this key is the file, or is in the file system.
  bool Contains(const ObjectKey& object) const;
};

// One SET_FENCING_LIST.
struct FenceChange {
  wire::FenceAccess access = wire::FenceAccess::kAllow;
  wire::FenceUpdate update = wire::FenceUpdate::kOverwrite;
  std::vector<std::string> ids;
};

// Changes *list. INVAL, with *list unchanged: access DENY with update OVERWRITE; an empty id; a
// removal that would leave no id, because that admits every session; more than wire::kFenceIdsMax.
wire::DafsStatus Apply(const FenceChange& change, FenceList* list);

}  // namespace dafs::server
