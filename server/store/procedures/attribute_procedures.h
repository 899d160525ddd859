// The procedures on attributes of objects and file systems.
// Spec: 6.5.2, 6.5.13 .. 6.5.15, 6.5.23, 6.5.35 .. 6.5.37.
// Thread-safe; blocks on the file system. Leaves the thread with the identity of the caller
// (server/store/store.h).
#pragma once

#include <cstdint>

#include "server/store/holdings/caller.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class AttributeProcedures {
 public:
  // Borrowed.
  explicit AttributeProcedures(StoreParts& store) : store_(store) {}

  // Which of the requested rights the caller has. 6.5.2.
  wire::DafsStatus Access(const Caller& caller, const wire::AccessArgs& args, wire::AccessRes* res);

  // 6.5.13, 6.5.14. `included` of the result is the defined part of `bitmap`.
  wire::DafsStatus Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                           uint64_t bitmap, wire::FileAttributes* attributes);

  // 6.5.35, 6.5.36. `bitmap` reports what was set, also if the status is an error.
  wire::DafsStatus Setattr(const Caller& caller, const wire::FileHandle& filehandle,
                           const wire::StateId& state_id, const wire::FileAttributes& attributes,
                           uint64_t* bitmap);

  // The attributes of the file system of an object. 6.5.15.
  wire::DafsStatus GetFsattr(const Caller& caller, const wire::FileHandle& filehandle,
                             uint64_t bitmap, wire::FsAttributes* attributes);

  // VERIFY: OK if the attributes equal these, otherwise NOT_SAME. NVERIFY: SAME if they equal them,
  // otherwise OK. 6.5.37, 6.5.23.
  wire::DafsStatus Verify(const Caller& caller, const wire::FileHandle& filehandle,
                          const wire::FileAttributes& attributes);
  wire::DafsStatus Nverify(const Caller& caller, const wire::FileHandle& filehandle,
                           const wire::FileAttributes& attributes);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
