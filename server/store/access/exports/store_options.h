// How a store is configured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/objects/export.h"

namespace dafs::server {

// Which failure the following survive: the server's record of its clients and their requests, and
// an append with at most DATA_SYNC. COMMIT, FILE_SYNC and a WRITE's DATA_SYNC always reach the
// disk.
enum class Stable : uint8_t {
  kProcess,  // the end of the process, even by a crash
  kPower,    // also a crash of the machine; every modification waits for the disk
};

struct StoreOptions {
  std::vector<Export> exports;
  // Exists; used by this server alone. Holds the handle key and the instance number.
  std::string state_dir;
  // The audit log, which must be out of reach of clients; empty: there is none.
  std::string audit_file;
  bool counts_use = false;        // of opens, for the audit log (OpenUse)
  size_t max_descriptors = 0;     // 0: three quarters of RLIMIT_NOFILE
  size_t max_opens = 1 << 20;     // per client
  uint32_t max_read = 1 << 20;    // bytes; FSATTR MAX_READ
  uint32_t max_write = 1 << 20;   // bytes; a larger WRITE fails with WRITE_TOOBIG
  uint32_t max_append = 1 << 20;  // bytes, at least 65536 (6.1.6)
  uint32_t pref_io_size = 1 << 20;
  Stable stable = Stable::kProcess;
  absl::Duration lease_time = absl::Seconds(60);
  // Keeps files that lost their last name while open until the grace period ends. Otherwise they
  // are removed at once.
  bool keep_orphans = false;
  // Limit of the old bytes kept for changes under AUTORECOVERY locks. 0: there are no such locks.
  uint64_t undo_space_bytes = uint64_t{1} << 30;
  // Of each export: memory for blocks that clients read by reference (ExportedCache). 0: none.
  uint64_t export_cache_bytes = 0;
  Promises::Limits promises;  // of_client 0: the server makes no promises
  Delegations::Options delegations;
  // Grants read delegations also where local programs change files (KernelLeases). A recall must be
  // over before KernelLeases::BreakTime().
  bool use_leases = true;
};

}  // namespace dafs::server
