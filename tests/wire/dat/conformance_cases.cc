#include <cstdlib>

#include "tests/wire/dat/conformance.h"
#include "tests/wire/dat/dat_pair.h"
#include "tests/wire/dat/tls/certificates.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/tls/openssl_tls.h"
#ifdef DAFS_HAVE_VERBS
#include "wire/dat/verbs/verbs.h"
#endif

namespace dafs::dat::testing {
namespace {

using MakeProvider = std::function<std::unique_ptr<Provider>()>;

MakeProvider IwarpWith(const IwarpOptions& options) {
  return [options] { return NewIwarpProvider(options); };
}

ConformanceCase Iwarp(const std::string& name, const IwarpOptions& options) {
  ConformanceCase one;
  one.name = name;
  one.make = IwarpWith(options);
  one.address = LoopbackAddress;
  return one;
}

// The key changes every few records, so that each transfer meets changes.
ConformanceCase IwarpTls() {
  static Certificates certificates;
  const auto make = [](TlsOptions options) {
    options.records_per_key = 5;
    return NewIwarpProvider({.tls = *NewTls(options)});
  };
  ConformanceCase one;
  one.name = "IwarpTls";
  one.make = [make] { return make(certificates.ClientWithCertificate()); };
  one.make_server = [make] { return make(certificates.Server()); };
  one.address = LoopbackAddress;
  return one;
}

#ifdef DAFS_HAVE_VERBS
std::unique_ptr<Provider> MakeVerbs() { return NewVerbsProvider(); }

// Returns "verbs device siw0 port 1 (iWARP), ..." of the device that has `address`, or an empty
// string if none has.
std::string DeviceAt(const Address& address) {
  const auto provider = MakeVerbs();
  auto pending = provider->Resolve(address, "", absl::Seconds(5));
  if (!pending.ok()) return "";
  auto domain = (*pending)->NewDomain();
  if (!domain.ok()) return "";
  auto endpoint = (*pending)->CreateEndpoint(**domain, {});
  return endpoint.ok() ? (*endpoint)->description() : "";
}

// A case in which at least one side is the device at DAFS_TEST_RDMA_ADDRESS.
ConformanceCase WithDevice(const std::string& name, MakeProvider client, MakeProvider server,
                           bool mixed) {
  ConformanceCase one;
  one.name = name;
  one.max_segments = 4;
  const char* text = std::getenv("DAFS_TEST_RDMA_ADDRESS");
  if (text == nullptr) {
    one.missing = "no RDMA device: DAFS_TEST_RDMA_ADDRESS is not set";
    return one;
  }
  static const Address address = ResolveHost(text, 0)->front();
  static const std::string device = DeviceAt(address);
  const bool is_siw = device.find("device siw") != std::string::npos;
  if (mixed && device.find("(iWARP)") == std::string::npos) {
    one.missing = "only an iWARP device speaks with the iwarp provider, not " + device;
    return one;
  }
  one.make = std::move(client);
  one.server_is_device = server == nullptr || server.target<decltype(&MakeVerbs)>() != nullptr;
  one.make_server = std::move(server);
  one.address = [] { return address; };
  if (one.server_is_device) {
    one.remote_invalidation = false;
    // siw checks whether a region is known and long enough, but not whether it may be read.
    one.checks_remote_reads = !is_siw;
    one.windows = !is_siw;
    one.windows_have_bounds = device.find("device rxe") == std::string::npos;
  }
  return one;
}
#endif

// The device and its peers: a second endpoint of the device, and the iwarp provider on either side.
void AddDeviceCases(std::vector<ConformanceCase>* cases) {
#ifdef DAFS_HAVE_VERBS
  cases->push_back(WithDevice("Verbs", MakeVerbs, nullptr, false));
  for (const bool crc : {false, true}) {
    const MakeProvider iwarp = IwarpWith({.want_crc = crc});
    const std::string suffix = crc ? "Crc" : "";
    cases->push_back(WithDevice("IwarpToVerbs" + suffix, iwarp, MakeVerbs, true));
    cases->push_back(WithDevice("VerbsToIwarp" + suffix, MakeVerbs, iwarp, true));
  }
#else
  ConformanceCase one;
  one.name = "Verbs";
  one.missing = "the verbs provider is not part of this build";
  cases->push_back(one);
#endif
}

}  // namespace

std::vector<ConformanceCase> ConformanceCases() {
  std::vector<ConformanceCase> cases = {
      Iwarp("Iwarp", {}), Iwarp("IwarpCrc", {.want_crc = true}),
      Iwarp("IwarpForeign", {.recognise_peer = false}),
      Iwarp("IwarpForeignCrc", {.want_crc = true, .recognise_peer = false}), IwarpTls()};
  AddDeviceCases(&cases);
  return cases;
}

}  // namespace dafs::dat::testing
