// A name about to lose its file: REMOVE, and RENAME to a name that there is.
//
// A file that is open keeps living when its last name goes: before the kernel removes that name as
// the caller, the file is given one in the orphan directory (server/store/objects/orphans.h) by the
// server's own right; if the removal is refused, that name is taken away again. The file's lock is
// held meanwhile, so that of two names going at once one is seen to be the last, and no OPEN comes
// in between check and removal.
#pragma once

#include <string>

#include "server/store/store_impl.h"

namespace dafs::server {

// What has to happen before and after the kernel removes the name. The file's lock
// (StoreImpl::FileLock) is held by the caller as long as this lives.
class Removal {
 public:
  Removal(StoreImpl& store, const Caller& caller, const ObjectKey& key)
      : store_(store), caller_(caller), key_(key) {}

  // DENYDISP_CONFLICT if an open forbids it.
  wire::DafsStatus Prepare(bool check_open);
  void Done(bool removed);

 private:
  void LinkForReclaim();

  StoreImpl& store_;
  const Caller& caller_;
  const ObjectKey key_;
  ObjectRef object_;  // of an open file
  bool linked_ = false;
};

// Before a removal of a file that an open stands in the way of: what clients have of it whose lease
// has run out is taken from them. No lock of a file is held.
void RevokeForRemoval(StoreImpl& store, const ObjectKey& key, bool check_open);

// The handle of what has `key`. A new MAC costs as much as a system call.
wire::FileHandle HandleOf(StoreImpl& store, const ObjectKey& key);

// The key of `name` in `directory`, as the identity entered.
wire::DafsStatus KeyOfName(StoreImpl& store, Object& directory, const std::string& name,
                           ObjectKey* key);

}  // namespace dafs::server
