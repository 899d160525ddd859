// Messages about byte-range locks.
// Spec: WIRE 9.4; draft 6.5.18 to 6.5.20.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_LOCK, spec 6.5.18. The result is the conflicting lock, only with DAFSERR_DENIED and
// DAFSERR_LOCK_BROKEN. Otherwise it is all zero or absent.
struct LockArgs {
  static constexpr Proc kProc = Proc::kLock;

  FileHandle filehandle;
  LockType lock_type = LockType::kRead;
  uint32_t options = 0;  // kLock... bits
  StateId state_id;
  uint64_t offset = 0;
  uint64_t length = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("lock_type", m.lock_type);
    c.Field("options", m.options);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("length", m.length);
  }
  friend bool operator==(const LockArgs&, const LockArgs&) = default;
};

struct LockRes {
  static constexpr Proc kProc = Proc::kLock;

  ClientId owner_clientid;
  std::string owner;  // opaque bytes
  uint64_t offset = 0;
  uint64_t length = 0;
  LockType lock_type = LockType::kRead;

  static void Fields(auto& m, auto& c) {
    c.StatusUnion("lock_res", 40, 8, [&] {
      c.Field("owner_clientid", m.owner_clientid);
      c.OpaqueBytes("owner", m.owner, kOwnerBound);
      c.Field("offset", m.offset);
      c.Field("length", m.length);
      c.Field("lock_type", m.lock_type);
    });
  }
  friend bool operator==(const LockRes&, const LockRes&) = default;
};

// DAFS_PROC_LOCKT, spec 6.5.19. The result is as in LOCK.
struct LocktArgs {
  static constexpr Proc kProc = Proc::kLockt;

  FileHandle filehandle;
  LockType lock_type = LockType::kRead;
  std::string owner;
  uint64_t offset = 0;
  uint64_t length = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("lock_type", m.lock_type);
    c.OpaqueBytes("owner", m.owner, kOwnerBound);
    c.Field("offset", m.offset);
    c.Field("length", m.length);
  }
  friend bool operator==(const LocktArgs&, const LocktArgs&) = default;
};

struct LocktRes {
  static constexpr Proc kProc = Proc::kLockt;

  ClientId owner_clientid;
  std::string owner;  // opaque bytes
  uint64_t offset = 0;
  uint64_t length = 0;
  LockType lock_type = LockType::kRead;

  static void Fields(auto& m, auto& c) {
    c.StatusUnion("results", 40, 8, [&] {
      c.Field("owner_clientid", m.owner_clientid);
      c.OpaqueBytes("owner", m.owner, kOwnerBound);
      c.Field("offset", m.offset);
      c.Field("length", m.length);
      c.Field("lock_type", m.lock_type);
    });
  }
  friend bool operator==(const LocktRes&, const LocktRes&) = default;
};

// DAFS_PROC_LOCKU, spec 6.5.20.
struct LockuArgs {
  static constexpr Proc kProc = Proc::kLocku;

  FileHandle filehandle;
  LockType lock_type = LockType::kRead;
  StateId state_id;
  uint64_t offset = 0;
  uint64_t length = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("lock_type", m.lock_type);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("length", m.length);
  }
  friend bool operator==(const LockuArgs&, const LockuArgs&) = default;
};

struct LockuRes {
  static constexpr Proc kProc = Proc::kLocku;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const LockuRes&, const LockuRes&) = default;
};

// DAFS_PROC_OPEN_OWNER (1010), a private procedure (R15): opens a file again for another owner of
// the same client. The new open has the access (not the deny) of the open that `state_id` names.
// The reason: locks belong to the owners of opens. A program that locks through a descriptor needs
// no right except that descriptor, but OPEN would check the file's mode again. CLOSE ends this open
// like any other. Errors as for LOCK; NOTSUPP from a server without it.
//
//   req  0 filehandle 64, 64 opaque64 state_id, 72 off -> opaque<> owner; 80 bytes
//   res  0 opaque64 state_id; 8 bytes
struct OpenOwnerArgs {
  static constexpr Proc kProc = Proc::kOpenOwner;

  FileHandle filehandle;
  StateId state_id;
  std::string owner;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.OpaqueBytes("owner", m.owner, kOwnerBound);
  }
  friend bool operator==(const OpenOwnerArgs&, const OpenOwnerArgs&) = default;
};

struct OpenOwnerRes {
  static constexpr Proc kProc = Proc::kOpenOwner;

  StateId state_id;

  static void Fields(auto& m, auto& c) { c.Field("state_id", m.state_id); }
  friend bool operator==(const OpenOwnerRes&, const OpenOwnerRes&) = default;
};

}  // namespace dafs::wire
