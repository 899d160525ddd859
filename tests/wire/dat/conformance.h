// The cases of the conformance suite: a transport for each side, the address to listen at, and how
// this pairing differs from the others. If a device does not exist, `missing` has the reason, and
// the tests skip.
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
  std::function<std::unique_ptr<Provider>()> make;         // the provider of the client
  std::function<std::unique_ptr<Provider>()> make_server;  // and of the server; empty: `make`
  std::function<Address()> address;                        // to listen at, port 0
  std::string missing;                                     // why it cannot run; empty: it can
  uint32_t max_segments = 256;                             // requested in scatter-gather tests
  bool remote_invalidation = true;                         // of plain regions: not on most devices
  bool server_is_device = false;                           // answers RDMA without being polled
  bool windows = true;                                     // the server's side has memory windows
  bool windows_have_bounds = true;                         // rdma_rxe forgets them
  bool checks_remote_reads = true;  // the server checks the read right of its memory

  friend void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }
};

// Returns all pairings of this build. Those with a device run only if DAFS_TEST_RDMA_ADDRESS is the
// address of one on this machine. The mixed ones run only if it is an iWARP device.
std::vector<ConformanceCase> ConformanceCases();

}  // namespace dafs::dat::testing
