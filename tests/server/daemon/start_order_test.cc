// The server listens only once it has all that it needs to answer a client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "server/clients/client_records.h"
#include "server/daemon/server.h"
#include "server/store/system/state_dir.h"
#include "tests/server/scratch_export.h"

namespace dafs::server {
namespace {

// A transport that refuses to listen. It calls `asked` before.
class RefusingProvider final : public dat::Provider {
 public:
  explicit RefusingProvider(std::function<void()> asked) : asked_(std::move(asked)) {}
  const char* name() const override { return "tcp"; }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address&) override {
    asked_();
    return absl::UnavailableError("the address is in use");
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address&,
                                                                const std::string&,
                                                                absl::Duration) override {
    return absl::UnimplementedError("listens only");
  }

 private:
  const std::function<void()> asked_;
};

class StartOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: opens file handles";
    base_ = MakeScratch("start");
    ASSERT_FALSE(base_.empty());
  }
  void TearDown() override {
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  std::string State(const std::string& name) const { return base_ + "/state/" + name; }
  // Starts a server, which fails at the latest when it listens.
  absl::Status Start() {
    RefusingProvider provider([this] {
      ++listened_;
      had_key_ = HasServed(base_ + "/state");
    });
    ServerOptions options = ScratchOptions(base_);
    options.listen.push_back({Transport::kTcp, (*dat::ResolveHost("127.0.0.1", 0))[0]});
    return Server::Start(std::move(options), {.tcp = &provider}).status();
  }

  std::string base_;
  int listened_ = 0;
  bool had_key_ = false;
};

TEST_F(StartOrderTest, TheStateIsLoadedBeforeTheServerListens) {
  const absl::Status status = Start();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the address is in use"));
  EXPECT_EQ(listened_, 1);
  EXPECT_TRUE(had_key_);
}

TEST_F(StartOrderTest, AServerThatCannotLoadItsResponsesDoesNotListen) {
  std::ofstream(State("responses")) << "no directory";
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(listened_, 0);
}

TEST_F(StartOrderTest, AServerWhoseKeyIsDamagedDoesNotListen) {
  Start().IgnoreError();
  listened_ = 0;
  std::filesystem::resize_file(State("handle-key"), 3);
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(listened_, 0);
}

TEST_F(StartOrderTest, AServerWithoutItsExportDoesNotListen) {
  std::filesystem::remove_all(base_ + "/export");
  EXPECT_FALSE(Start().ok());
  EXPECT_EQ(listened_, 0);
}

// Its loading has settled nothing: the earlier clients may still reclaim what they had open.
TEST_F(StartOrderTest, AStartThatCannotListenForgetsNoClient) {
  Start().IgnoreError();
  const auto open = [this] {
    auto records = ClientRecords::Open(base_ + "/state", /*stable=*/false, /*has_served=*/true);
    EXPECT_TRUE(records.ok()) << records.status();
    return *std::move(records);
  };
  const Principal principal = {.host = *PeerAddress::Parse("192.0.2.1")};
  const auto verifier = wire::OpaqueFromUint64<wire::Verifier>(1);
  ++open()->Take({"c1", verifier, principal, nullptr})->opens;
  Start().IgnoreError();
  EXPECT_EQ(listened_, 2);
  EXPECT_EQ(open()->Owed().size(), 1u);
}

}  // namespace
}  // namespace dafs::server
