// The directories of this machine that all mounts share.
#pragma once

namespace dafs::fuse {

// Locks of client ids and the sockets of dafsctl.
inline constexpr char kRuntimeDirectory[] = "/run/dafs";
// The secret of client ids.
inline constexpr char kStateDirectory[] = "/var/lib/dafs";

}  // namespace dafs::fuse
