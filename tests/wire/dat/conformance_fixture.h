// The fixture of the conformance suite: a provider for each side, and a pair of their endpoints.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/wire/dat/conformance.h"
#include "tests/wire/dat/dat_pair.h"

namespace dafs::dat::testing {

class ConformanceFixture : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  void SetUp() override {
    if (!GetParam().missing.empty()) GTEST_SKIP() << GetParam().missing;
    provider_ = GetParam().make();
    if (GetParam().make_server) server_provider_ = GetParam().make_server();
    // Hundreds of connections at once need several descriptors each.
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  Provider& client_provider() { return *provider_; }
  Provider& server_provider() { return server_provider_ ? *server_provider_ : *provider_; }
  // Makes the endpoints, so that receives can be posted. Throws if that fails, because no test can
  // continue then.
  void Prepare(const EndpointOptions& options = {}, const std::string& client_data = "") {
    auto pair =
        MakePair(client_provider(), server_provider(), GetParam().address(), options, client_data);
    if (!pair.ok()) throw std::runtime_error(pair.status().ToString());
    pair_ = *std::move(pair);
  }
  void Finish(const std::string& server_data = "") {
    ASSERT_TRUE(FinishPair(*pair_, server_data).ok());
    // The client speaks first (RFC 5044, 7.1.2): an empty write lets an adapter answer.
    ASSERT_TRUE(client().PostRdmaWrite(0, {}, {}, false).ok());
    for (int i = 0; i < 3; ++i) pair_->client.Poll();
  }
  void Open(const EndpointOptions& options = {}) {
    Prepare(options);
    Finish();
  }
  Endpoint& client() { return *pair_->client.endpoint; }
  Endpoint& server() { return *pair_->server.endpoint; }

  static std::string PrefixOf(std::span<const std::byte> data, size_t size) {
    return std::string(reinterpret_cast<const char*>(data.data()), std::min(size, data.size()));
  }

  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Provider> server_provider_;  // null: as the client's
  std::unique_ptr<Pair> pair_;
};

inline std::string CaseName(const ::testing::TestParamInfo<ConformanceCase>& info) {
  return info.param.name;
}

}  // namespace dafs::dat::testing
