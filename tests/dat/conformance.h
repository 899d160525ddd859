// What the conformance suite runs over: a provider, where it listens, and what it cannot do.
// A provider that needs a device that is not there says so in `missing`, and its tests skip.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wire/dat/dat.h"

namespace dafs::dat::testing {

struct ConformanceCase {
  std::string name;
  std::function<std::unique_ptr<Provider>()> make;
  std::function<Address()> address;  // to listen at, port 0
  std::string missing;               // why this provider cannot run here; empty: it can
  uint32_t max_segments = 256;       // asked for in the scatter-gather tests
  bool remote_invalidation = true;   // of plain regions: not on most devices
};

// All providers of this build. A device provider takes part when DAFS_TEST_RDMA_ADDRESS names the
// address of a device on this machine.
std::vector<ConformanceCase> ConformanceCases();

}  // namespace dafs::dat::testing
