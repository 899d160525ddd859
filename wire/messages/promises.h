// Private procedures for promises: the server announces each change of what a client may have
// cached, and waits for the client before it applies the change. BC_LOCK_FREE announces that a lock
// may be granted now. Spec: WIRE 9.6.
// Values. The offsets below count from the end of the header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/limits.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_PROMISES (1020): from now on responses to this client, on any of its sessions, may
// carry promises (kSpcondNames, kSpcondAttributes), and the Back-control Channel of this session
// announces the end of each. Ends all earlier promises to the client. INVAL: the session has no
// Back-control Channel.
//
//   req  0 u32 most, 4 u32 pad; 8 bytes
//   res  0 u32 granted, 4 u32 recall_ms; 8 bytes
struct PromisesArgs {
  static constexpr Proc kProc = Proc::kPromises;

  uint32_t most = 0;  // promises that the client wants to hold at once

  static void Fields(auto& m, auto& c) {
    c.Field("most", m.most);
    c.Pad32("pad");
  }
  friend bool operator==(const PromisesArgs&, const PromisesArgs&) = default;
};

struct PromisesRes {
  static constexpr Proc kProc = Proc::kPromises;

  uint32_t granted = 0;    // 0: the server makes no promises
  uint32_t recall_ms = 0;  // how long the server waits for the answer to BC_CHANGED

  static void Fields(auto& m, auto& c) {
    c.Field("granted", m.granted);
    c.Field("recall_ms", m.recall_ms);
  }
  friend bool operator==(const PromisesRes&, const PromisesRes&) = default;
};

// Bits of Changed::what, which names the changes to come.
inline constexpr uint32_t kChangedNames = 1;       // of a directory: which names it has
inline constexpr uint32_t kChangedAttributes = 2;  // with ACL and names of extended attributes
inline constexpr uint32_t kChangedAll = 4;         // everything promised; the filehandle is zero

// An element of BC_CHANGED: 72 bytes, aligned to 8.
//   0 filehandle 64, 64 u32 what, 68 off -> opaque<> name
struct Changed {
  static constexpr size_t kWireSize = 72;
  static constexpr size_t kWireAlign = 8;

  FileHandle filehandle;
  uint32_t what = 0;
  std::string name;  // with kChangedNames: only this one changes; empty: any may

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("what", m.what);
    c.OpaqueBytes("name", m.name, kNameBound);
  }
  friend bool operator==(const Changed&, const Changed&) = default;
};

inline constexpr uint32_t kChangedMax = 64;

// DAFS_PROC_BC_CHANGED (1100): the promises about these objects end with the client's response. The
// client sends it once no program of its machine can see the old value.
//
//   req  0 off -> array of Changed, 4 u32 pad; 8 bytes
struct BcChangedArgs {
  static constexpr Proc kProc = Proc::kBcChanged;

  std::vector<Changed> changed;

  static void Fields(auto& m, auto& c) {
    c.Array("changed", m.changed, kChangedMax, kRequired);
    c.Pad32("pad");
  }
  friend bool operator==(const BcChangedArgs&, const BcChangedArgs&) = default;
};

struct BcChangedRes {
  static constexpr Proc kProc = Proc::kBcChanged;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcChangedRes&, const BcChangedRes&) = default;
};

// DAFS_PROC_BC_LOCK_FREE (1101): a lock that a LOCK of this client was denied may be granted now.
// The server keeps the range for the waiter, who repeats its LOCK.
//
//   req  0 filehandle 64, 64 u64 offset, 72 u64 length; 80 bytes
struct BcLockFreeArgs {
  static constexpr Proc kProc = Proc::kBcLockFree;

  FileHandle filehandle;
  uint64_t offset = 0;  // as in the LOCK
  uint64_t length = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("offset", m.offset);
    c.Field("length", m.length);
  }
  friend bool operator==(const BcLockFreeArgs&, const BcLockFreeArgs&) = default;
};

struct BcLockFreeRes {
  static constexpr Proc kProc = Proc::kBcLockFree;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const BcLockFreeRes&, const BcLockFreeRes&) = default;
};

}  // namespace dafs::wire
