#include <cstdlib>

#include "tests/dat/conformance.h"
#include "tests/dat/dat_pair.h"
#include "wire/dat/iwarp.h"
#ifdef DAFS_HAVE_VERBS
#include "wire/dat/verbs.h"
#endif

namespace dafs::dat::testing {
namespace {

ConformanceCase Iwarp(const std::string& name, const IwarpOptions& options) {
  ConformanceCase one;
  one.name = name;
  one.make = [options] { return NewIwarpProvider(options); };
  one.address = LoopbackAddress;
  return one;
}

ConformanceCase Verbs() {
  ConformanceCase one;
  one.name = "Verbs";
  one.max_segments = 4;
  one.remote_invalidation = false;
  const char* address = std::getenv("DAFS_TEST_RDMA_ADDRESS");
#ifdef DAFS_HAVE_VERBS
  if (address == nullptr) {
    one.missing = "no RDMA device: DAFS_TEST_RDMA_ADDRESS is not set";
    return one;
  }
  one.make = [] { return NewVerbsProvider(); };
  one.address = [text = std::string(address)] { return ResolveHost(text, 0)->front(); };
#else
  (void)address;
  one.missing = "the verbs provider is not part of this build";
#endif
  return one;
}

}  // namespace

std::vector<ConformanceCase> ConformanceCases() {
  return {Iwarp("Iwarp", {}), Iwarp("IwarpCrc", {.want_crc = true}),
          Iwarp("IwarpForeign", {.recognise_peer = false}),
          Iwarp("IwarpForeignCrc", {.want_crc = true, .recognise_peer = false}), Verbs()};
}

}  // namespace dafs::dat::testing
