// What a client holds, in memory that outlives the process (server/clients/client_records.h): how
// much there is to be reclaimed if this instance of the server ends. Spec: 4.4.1.2 (information
// about granted locks in stable storage), 4.4.1.6. Thread-safe: counters that publish nothing but
// themselves.
#pragma once

#include <atomic>
#include <cstdint>

namespace dafs::server {

struct Holdings {
  std::atomic<uint32_t> opens;    // held now
  std::atomic<uint32_t> deniers;  // of them, those that deny something or have a share key
  std::atomic<uint32_t> locks;    // ranges, of all owners and files

  // Of an earlier instance, not reclaimed yet. UINT32_MAX, and less as it is reclaimed: all there
  // can be, behind the loss of the machine.
  std::atomic<uint32_t> lost_opens;
  std::atomic<uint32_t> lost_deniers;
  std::atomic<uint32_t> lost_locks;

  // The lease has run out: what is held is kept as a courtesy, until somebody wants it.
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
