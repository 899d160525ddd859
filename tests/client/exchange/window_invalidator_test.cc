// The invalidation of memory windows: responses wait for the windows of their requests and keep
// their order, and holders of windows learn that theirs have ended.
#include "client/exchange/window_invalidator.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/loop/loop.h"

namespace dafs::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Records the invalidations that it is to do.
class WindowEndpoint final : public dat::Endpoint {
 public:
  absl::Status Connect(std::span<const std::byte>) override { return absl::OkStatus(); }
  absl::Status Accept(std::span<const std::byte>) override { return absl::OkStatus(); }
  absl::Status PostReceive(uint64_t, dat::Segment) override { return absl::OkStatus(); }
  absl::Status PostSend(uint64_t, std::span<const dat::Segment>, const SendOptions&) override {
    return absl::OkStatus();
  }
  absl::Status PostRdmaWrite(uint64_t, std::span<const dat::Segment>, dat::RemoteBuffer,
                             bool) override {
    return absl::OkStatus();
  }
  absl::Status PostRdmaRead(uint64_t, std::span<const dat::Segment>, dat::RemoteBuffer) override {
    return absl::OkStatus();
  }
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override {
    if (gone.contains(context)) return absl::NotFoundError("gone");
    if (context == broken) return absl::UnavailableError("broken");
    posted.emplace_back(cookie, context);
    return absl::OkStatus();
  }
  size_t Poll(std::span<dat::Completion>) override { return 0; }
  WaitHandle Arm() override { return {}; }
  void Disconnect() override {}
  void Abort(absl::Status why) override { aborted = std::move(why); }
  std::span<const std::byte> peer_private_data() const override { return {}; }
  const dat::Address& peer() const override { return peer_; }
  uint32_t max_segments() const override { return 1; }
  std::string description() const override { return "windows"; }

  std::set<uint32_t> gone;  // contexts that the server has invalidated
  uint32_t broken = 0;
  std::vector<std::pair<uint64_t, uint32_t>> posted;
  absl::Status aborted;

 private:
  dat::Address peer_;
};

class NoSource final : public Pollable {
 public:
  bool Poll() override { return false; }
  WaitHandle Arm() override { return {}; }
};

class WindowInvalidatorTest : public ::testing::Test {
 protected:
  WindowInvalidatorTest() {
    auto endpoint = std::make_unique<WindowEndpoint>();
    endpoint_ = endpoint.get();
    link_.Open(std::move(endpoint));
  }
  // The response to the request in `slot`, whose windows are `contexts`.
  WindowInvalidator::Response ResponseOf(size_t slot, const std::vector<uint32_t>& contexts) {
    slots_[slot].windows.assign(contexts.begin(), contexts.end());
    return {slot, 40, &slots_[slot]};
  }
  std::vector<size_t> Ready() {
    std::vector<size_t> indices;
    while (auto response = windows_.NextReady()) indices.push_back(response->index);
    return indices;
  }

  NoSource source_;
  std::unique_ptr<Loop> loop_ = *Loop::Create();
  Link link_{*loop_, source_};
  WindowEndpoint* endpoint_;
  dat::Address peer_;
  Slots slots_{8, peer_};
  WindowInvalidator windows_{link_, slots_};
};

TEST_F(WindowInvalidatorTest, ResponseWaitsForAllItsWindows) {
  EXPECT_TRUE(windows_.Delays(ResponseOf(3, {11, 12})));
  EXPECT_THAT(endpoint_->posted, ElementsAre(Pair(3, 11), Pair(3, 12)));
  windows_.OnInvalidated(3);
  EXPECT_THAT(Ready(), IsEmpty());
  windows_.OnInvalidated(3);
  EXPECT_THAT(Ready(), ElementsAre(3));
  EXPECT_EQ(windows_.ended(), 2u);
}

TEST_F(WindowInvalidatorTest, ResponseWhoseWindowsTheServerEndedDoesNotWait) {
  endpoint_->gone = {11};
  EXPECT_FALSE(windows_.Delays(ResponseOf(3, {11})));
  EXPECT_FALSE(windows_.Delays(ResponseOf(4, {})));
  EXPECT_EQ(windows_.ended(), 0u);
}

TEST_F(WindowInvalidatorTest, LaterResponsesKeepTheirPlace) {
  EXPECT_TRUE(windows_.Delays(ResponseOf(1, {11})));
  EXPECT_TRUE(windows_.Delays(ResponseOf(2, {})));
  EXPECT_TRUE(windows_.Delays({7, 40, nullptr}));  // matches no request
  EXPECT_TRUE(windows_.Delays(ResponseOf(3, {12})));
  windows_.OnInvalidated(3);
  EXPECT_THAT(Ready(), IsEmpty());
  windows_.OnInvalidated(1);
  EXPECT_THAT(Ready(), ElementsAre(1, 2, 7, 3));
}

TEST_F(WindowInvalidatorTest, FailedInvalidationFailsTheSession) {
  endpoint_->broken = 11;
  EXPECT_TRUE(windows_.Delays(ResponseOf(1, {11})));
  EXPECT_FALSE(link_.usable());
  EXPECT_TRUE(absl::IsUnavailable(endpoint_->aborted)) << endpoint_->aborted;
}

TEST_F(WindowInvalidatorTest, HolderLearnsThatItsLastWindowEnded) {
  int reported = 0;
  windows_.End({11, 12}, [&reported] { ++reported; });
  ASSERT_EQ(endpoint_->posted.size(), 2u);
  const uint64_t cookie = endpoint_->posted[0].first;
  EXPECT_EQ(endpoint_->posted[1].first, cookie);
  windows_.OnInvalidated(cookie);
  EXPECT_EQ(reported, 0);
  windows_.OnInvalidated(cookie);
  EXPECT_EQ(reported, 1);
  endpoint_->gone = {13};
  windows_.End({13}, [&reported] { ++reported; });  // at once
  EXPECT_EQ(reported, 2);
}

TEST_F(WindowInvalidatorTest, EndOfTheConnectionDropsAllThatWaits) {
  int reported = 0;
  EXPECT_TRUE(windows_.Delays(ResponseOf(1, {11})));
  windows_.End({12}, [&reported] { ++reported; });
  windows_.Clear();
  EXPECT_THAT(Ready(), IsEmpty());
  for (const auto& [cookie, context] : endpoint_->posted) windows_.OnInvalidated(cookie);
  EXPECT_EQ(reported, 0);
  EXPECT_FALSE(windows_.Delays(ResponseOf(2, {})));
}

TEST_F(WindowInvalidatorTest, WindowsOfAnUnsentRequestHoldNothingUp) {
  slots_[1].windows.assign({11u});
  windows_.Drop(slots_[1]);
  ASSERT_EQ(endpoint_->posted.size(), 1u);
  EXPECT_TRUE(slots_[1].windows.empty());
  windows_.OnInvalidated(endpoint_->posted[0].first);
  EXPECT_FALSE(windows_.Delays(ResponseOf(1, {})));
}

}  // namespace
}  // namespace dafs::client
