// SERVER_IDENTITY, private (R15): which server answers at an address. Two addresses whose servers
// have one server_id are paths to one server.
// Spec: WIRE 9.5; draft A.5 (several locations of one server).
// Values. Each struct lists its fields once, in wire order.
#pragma once

#include <cstdint>
#include <string>

#include "wire/protocol/limits.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_SERVER_IDENTITY (1031). No arguments. The category is Simple.
//
//   res  0 server_id 16, 16 u32 instance, 20 u32 flags, 24 off -> cluster_id; 32 bytes
struct ServerIdentityArgs {
  static constexpr Proc kProc = Proc::kServerIdentity;

  static void Fields(auto&, auto&) {}
  friend bool operator==(const ServerIdentityArgs&, const ServerIdentityArgs&) = default;
};

struct ServerIdentityRes {
  static constexpr Proc kProc = Proc::kServerIdentity;

  ServerId server_id;      // of the state directory; never zero
  uint32_t instance = 0;   // grows with each start of the server
  uint32_t flags = 0;      // none is defined: zero, and ignored
  std::string cluster_id;  // equal for servers of the same files; 1..255 bytes

  static void Fields(auto& m, auto& c) {
    c.Field("server_id", m.server_id);
    c.Field("instance", m.instance);
    c.Field("flags", m.flags);
    c.String("cluster_id", m.cluster_id, kClusterIdBound, kRequired);
  }
  friend bool operator==(const ServerIdentityRes&, const ServerIdentityRes&) = default;
};

}  // namespace dafs::wire
