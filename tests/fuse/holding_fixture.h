// A worker that connects through a HoldingProvider: a test can hold back the server's replies.
#pragma once

#include <optional>

#include "tests/fuse/holding_provider.h"
#include "tests/fuse/worker_fixture.h"

namespace dafs::fuse {

class HoldingWorkerTest : public WorkerTest {
 protected:
  dat::Provider& ClientProvider() override {
    holding_.emplace(*provider_);
    return *holding_;
  }
  void TearDown() override {
    if (holding_.has_value()) holding_->hold = false;
    WorkerTest::TearDown();
  }

  std::optional<HoldingProvider> holding_;
};

}  // namespace dafs::fuse
