// The procedures on fencing lists, and what a change of a list ends.
// Spec: 4.4.4, 6.4.1, 6.4.2; WIRE R73 to R76, R83.
// Thread-safe; blocks on the disk. Leaves the thread with the identity of the caller
// (server/store/store.h).
#pragma once

#include <cstdint>

#include "server/store/holdings/caller.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

// Whether the client of a session is trusted (3.1.1.1.2).
enum class Trust : uint8_t { kNone, kTrusted };

class FencingProcedures {
 public:
  // Borrowed.
  explicit FencingProcedures(StoreParts& store) : store_(store) {}

  // NOT_AUTHORIZED: the caller is neither trusted nor the owner of the file, or not trusted and the
  // object is a file system. INVAL: a directory above the exports, or a change that
  // server/store/fencing/fence_list.h refuses. After SetFencingList no access that begins violates
  // the list; Fencing::sessions() awaits those that have begun.
  wire::DafsStatus GetFencingList(const Caller& caller, Trust trust,
                                  const wire::GetFencingListArgs& args,
                                  wire::GetFencingListRes* res);
  wire::DafsStatus SetFencingList(const Caller& caller, Trust trust,
                                  const wire::SetFencingListArgs& args);
  // After a change: revokes the delegations, and ends the promises, of clients that the lists of
  // the object shut out. Does not wait for these clients. Needs a thread that may wait for the
  // disk; leaves it with the server's own identity.
  void EndFenced(const wire::FileHandle& filehandle, wire::FenceObject kind);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
