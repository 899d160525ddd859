// What the tests of sessions run over: the iwarp provider on loopback or, with an address of an
// RDMA device in DAFS_TEST_RDMA_ADDRESS, verbs (tests/rdma/run sets it).
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

// Owners: a test and, over RDMA, the process: it must have one provider only
// (wire/dat/verbs/verbs.h).
inline std::shared_ptr<Provider> ProviderUnderTest() {
  if (!OverRdma()) return NewIwarpProvider();
  static const std::shared_ptr<Provider> verbs = NewVerbsProvider();
  return verbs;
}

}  // namespace dafs::dat::testing
