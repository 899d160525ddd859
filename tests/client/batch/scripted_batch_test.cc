// Batches at a server that refuses them, groups their results and takes its time. Spec: 4.2.3,
// 6.5.5, 6.5.16, 6.6.2.
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "client/batch/batch.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::ElementsAre;
using wire::DafsStatus;
using wire::Proc;

class ScriptedBatchTest : public ScriptedTest, public BatchSink {
 protected:
  void SetUp() override {
    options_.back_control_channel = server_.back_control = true;
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kHurryUp) {
        hurried_.push_back(request.Decode<wire::HurryUpArgs>().request_id);
        c.Answer(request, wire::HurryUpRes());
        return true;
      }
      if (request.header.procedure != Proc::kBatchSubmit) return false;
      submitted_.push_back(request.Decode<wire::BatchSubmitArgs>());
      if (refuses_) {
        c.Refuse(request, DafsStatus::kWhoaCowboy);
      } else {
        c.Answer(request, wire::BatchSubmitRes());
      }
      return true;
    };
    MakeFiles();
    ASSERT_OK(Await(files_->Connect()));
    batches_.emplace(*files_);
    lease_ = files_->buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    data_.emplace(LeasePart{&files_->buffers(), &lease_, 0, 100});
  }
  void TearDown() override {
    files_->Shutdown();
    batches_.reset();
    data_.reset();
    lease_.Release();
  }

  void OnBatchDone(uint64_t, const BatchResult& result) override {
    EXPECT_OK(result.status);
    ++done_;
  }
  // Queues reads, and waits until the server has seen them. Returns the first id.
  uint64_t Submit(size_t count, absl::Duration window, uint32_t num_completions = 0) {
    const size_t before = submitted_.size();
    const uint64_t first = Queue(count, window, num_completions);
    EXPECT_TRUE(Until([&] { return submitted_.size() == before + 1; }));
    Settle();
    return first;
  }
  uint64_t Queue(size_t count, absl::Duration window, uint32_t num_completions = 0) {
    BatchItem item;
    item.chunks.push_back({.offset = 0, .byte_count = 100});
    item.data = &*data_;
    BatchOptions options;
    options.window = window;
    options.num_completions = num_completions;
    const auto first = batches_->Submit(user_, std::vector<BatchItem>(count, item), options, *this);
    EXPECT_OK(first);
    return first.value_or(0);
  }
  void Report(std::initializer_list<uint64_t> ids) {
    wire::BcBatchCompletionArgs args;
    for (const uint64_t id : ids) {
      wire::CompletionNotification& done = args.completions.emplace_back();
      done.request_id = id;
      done.bytes_transferred = 100;
    }
    const int expected = done_ + static_cast<int>(ids.size());
    server_.BackControl()->Direct(args, next_stream_++);
    EXPECT_TRUE(Until([&] { return done_ == expected; }));
  }

  bool refuses_ = false;
  std::vector<wire::BatchSubmitArgs> submitted_;
  std::vector<uint64_t> hurried_;
  int done_ = 0;
  uint16_t next_stream_ = 0;
  BufferLease lease_;
  std::optional<LeaseBatchData> data_;
  std::optional<Batches> batches_;
};

// Shows DAFS-4.2.3-06
TEST_F(ScriptedBatchTest, NothingIsSubmittedBetweenARefusalAndAReport) {
  const uint64_t first = Submit(1, absl::Microseconds(1));
  refuses_ = true;
  const uint64_t refused = Submit(1, absl::Microseconds(2));
  refuses_ = false;
  const uint64_t later = Queue(1, absl::Microseconds(3));
  Await(loop_->Sleep(absl::Milliseconds(50)));  // longer than pauses between retries begin
  EXPECT_EQ(submitted_.size(), 2u);
  Report({first});
  EXPECT_TRUE(Until([&] { return submitted_.size() == 4; }));
  Settle();
  Report({refused});
  Report({later});
}

// Shows DAFS-6.5.5-08, FAST03-3.1-11: the server gets the window. Shows DAFS-6.5.5-10: it does not
// have to keep it, nor to group the results as requested.
TEST_F(ScriptedBatchTest, ReportsOfAnySizeAreAcceptedHoweverLate) {
  const uint64_t first = Submit(6, absl::Microseconds(100), 2);
  ASSERT_EQ(submitted_[0].requests.size(), 6u);
  EXPECT_EQ(submitted_[0].usec_window, 100u);
  EXPECT_EQ(submitted_[0].num_completions, 2u);
  Await(loop_->Sleep(absl::Milliseconds(5)));
  EXPECT_EQ(done_, 0);
  Report({first});
  Report({first + 4, first + 1, first + 3, first + 2});
  Report({first + 5});
}

// Shows FAST03-4-18
TEST_F(ScriptedBatchTest, ItemWithALongWindowCanBeExpedited) {
  const uint64_t first = Submit(2, absl::Hours(1));
  EXPECT_EQ(submitted_[0].usec_window, 3'600'000'000u);
  EXPECT_OK(Await(batches_->HurryUp(first + 1)));
  EXPECT_THAT(hurried_, ElementsAre(first + 1));
  Report({first + 1});
  Report({first});
  EXPECT_TRUE(absl::IsNotFound(Await(batches_->HurryUp(first))));
}

}  // namespace
}  // namespace dafs::client::testing
