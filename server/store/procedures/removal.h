// Removal of a name from a file: by REMOVE, or by a RENAME to an existing name.
//
// An open file continues to exist after its last name is removed. Before the kernel removes the
// name as the caller, the server links the file into the orphan directory
// (server/store/objects/orphans.h) with its own privilege. If the removal fails, the server removes
// that link. The file's lock is held meanwhile. So of two names that are removed at once, one is
// seen to be the last, and no OPEN comes between the check and the removal.
#pragma once

#include <string>

#include "server/store/parts/store_parts.h"

namespace dafs::server {

// The steps before and after the kernel removes the name. The caller holds the file's lock
// (ObjectLocks::FileLock) as long as this object exists.
class Removal {
 public:
  Removal(StoreParts& store, const Caller& caller, const ObjectKey& key)
      : store_(store), caller_(caller), key_(key) {}

  // Fails with DENYDISP_CONFLICT if an open forbids the removal.
  wire::DafsStatus Prepare(bool check_open);
  void Done(bool removed);

 private:
  void LinkForReclaim();

  StoreParts& store_;
  const Caller& caller_;
  const ObjectKey key_;
  ObjectRef object_;  // set if the file is open
  bool linked_ = false;
};

// Call before a removal. If an open of the file forbids the removal, releases all opens and locks
// of the clients that have the file open and whose lease has expired, also those of other files.
// The caller holds no lock of a file.
void RevokeForRemoval(StoreParts& store, const ObjectKey& key, bool check_open);

// The handle for `key`. Computing a new MAC costs as much as a system call.
wire::FileHandle HandleOf(StoreParts& store, const ObjectKey& key);

// Whether `name` in `directory` is itself a directory that contains something. False if that cannot
// be found out.
bool IsFilledDirectory(const Object& directory, const std::string& name);

// Looks up the key of `name` in `directory`, as the identity entered.
wire::DafsStatus KeyOfName(StoreParts& store, Object& directory, const std::string& name,
                           ObjectKey* key);

}  // namespace dafs::server
