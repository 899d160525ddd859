// The transport of the tests of sessions: the iwarp provider on loopback or, if
// DAFS_TEST_RDMA_ADDRESS is the address of an RDMA device, verbs (tests/rdma/run sets it).
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::dat::testing {

inline bool OverRdma() { return std::getenv("DAFS_TEST_RDMA_ADDRESS") != nullptr; }

inline std::string HostUnderTest() {
  return OverRdma() ? std::getenv("DAFS_TEST_RDMA_ADDRESS") : "127.0.0.1";
}

// Owned by the test and, over RDMA, by the process, which must have only one provider
// (wire/dat/verbs/verbs.h).
inline std::shared_ptr<Provider> ProviderUnderTest() {
  if (!OverRdma()) return NewIwarpProvider();
  static const std::shared_ptr<Provider> verbs = NewVerbsProvider();
  return verbs;
}

}  // namespace dafs::dat::testing
