// Counts the opens and locks of a client, in memory that outlives the process
// (server/clients/client_records.h). After this instance of the server ends, the client may reclaim
// as many.
// Spec: 4.4.1.2 (information about granted locks in stable storage), 4.4.1.6.
// Thread-safe: the counters publish only themselves.
#pragma once

#include <atomic>
#include <cstdint>

namespace dafs::server {

struct Holdings {
  std::atomic<uint32_t> opens;    // held now
  std::atomic<uint32_t> deniers;  // of them, those that deny something or have a share key
  std::atomic<uint32_t> locks;    // ranges, of all owners and files

  // Held under an earlier instance and not yet reclaimed. After the machine was lost the numbers
  // are unknown: they start at UINT32_MAX and decrease with each reclaim.
  std::atomic<uint32_t> lost_opens;
  std::atomic<uint32_t> lost_deniers;
  std::atomic<uint32_t> lost_locks;

  // Not 0: the lease has expired. The server keeps the opens as a courtesy until another client
  // needs access that they deny, or until ClientTable::Expire ends the courtesy. The next instance
  // forgets the lost ones.
  std::atomic<uint32_t> expired;

  bool owes() const { return lost_opens > 0 || lost_deniers > 0 || lost_locks > 0; }
  bool owes_unknown() const { return lost_locks > UINT32_MAX / 2; }
  void ForgetLost() { lost_opens = lost_deniers = lost_locks = 0; }
  void Reset() {
    ForgetLost();
    opens = deniers = locks = expired = 0;
  }
};

}  // namespace dafs::server
