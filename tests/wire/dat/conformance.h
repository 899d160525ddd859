// What the conformance suite runs over: a transport for each side, where it listens, and where it
// is not like the others. A case whose device is not there says so in `missing`, and its tests
// skip.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "wire/dat/dat.h"

namespace dafs::dat::testing {

struct ConformanceCase {
  std::string name;
  std::function<std::unique_ptr<Provider>()> make;         // the client's, and the server's if
  std::function<std::unique_ptr<Provider>()> make_server;  // this is not set
  std::function<Address()> address;                        // to listen at, port 0
  std::string missing;                                     // why it cannot run here; empty: it can
  uint32_t max_segments = 256;                             // asked for in the scatter-gather tests
  bool remote_invalidation = true;                         // of plain regions: not on most devices
  bool server_is_device = false;    // answers RDMA by itself: without being polled
  bool windows = true;              // the server's side has memory windows
  bool windows_have_bounds = true;  // rdma_rxe forgets them
  bool checks_remote_reads = true;  // the server's memory is not read against its access right

  friend void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }
};

// All pairings of this build. Those with a device take part when DAFS_TEST_RDMA_ADDRESS names the
// address of one on this machine; the mixed ones when it is an iWARP device.
std::vector<ConformanceCase> ConformanceCases();

}  // namespace dafs::dat::testing
