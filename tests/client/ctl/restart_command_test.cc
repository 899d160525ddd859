#include "client/ctl/restart_command.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/loop/loop.h"
#include "runtime/sockets/control_socket.h"

namespace dafs::client {
namespace {

// Answers like a mount on `point`. `refuses`: why it is not restarted; empty: it is.
class FakeMount {
 public:
  FakeMount(const std::string& directory, int number, std::string point, std::string refuses)
      : point_(std::move(point)), refuses_(std::move(refuses)) {
    loop_ = *Loop::Create();
    auto socket = ControlSocket::Create(
        {.path = absl::StrCat(directory, "/000000000000000", number, ".sock")},
        [this](const ControlSocket::Request& request) { return Answer(request.text); });
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return;
    socket_ = *std::move(socket);
    loop_->Add(socket_.get());
    thread_ = std::thread([this] { loop_->Run(); });
  }
  ~FakeMount() {
    loop_->Stop();
    if (thread_.joinable()) thread_.join();
    if (socket_ != nullptr) loop_->Remove(socket_.get());
  }

  int asked() const { return asked_; }

 private:
  absl::StatusOr<std::string> Answer(std::string_view request) {
    if (request == "json") return absl::StrCat("{\"mount_point\": \"", point_, "\"}\n");
    if (request == "restart") {
      ++asked_;
      return "asked\n";
    }
    if (request == "restarted") {
      return absl::StrCat(refuses_.empty() ? asked_.load() : 0, "\n",
                          asked_.load() == 0 ? "" : refuses_);
    }
    return absl::InvalidArgumentError("unknown");
  }

  const std::string point_;
  const std::string refuses_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ControlSocket> socket_;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

class RestartAllTest : public testing::Test {
 protected:
  std::string directory_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RestartAllTest, RestartsEachMountAndNamesThoseThatRefuse) {
  FakeMount first(directory_, 1, "/mnt/first", "");
  FakeMount second(directory_, 2, "/mnt/second", "it has no guardian");
  FakeMount third(directory_, 3, "/mnt/third", "");
  testing::internal::CaptureStderr();
  const absl::Status status = RestartAll(directory_, {});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.message(), "1 of the mounts still run the old program");
  EXPECT_EQ(said, "dafsctl: /mnt/second: not restarted: it has no guardian\n");
  EXPECT_EQ(first.asked(), 1);
  EXPECT_EQ(second.asked(), 1);
  EXPECT_EQ(third.asked(), 1);
}

TEST_F(RestartAllTest, SocketOfKilledProgramIsNoMount) {
  FakeMount first(directory_, 1, "/mnt/first", "");
  std::ofstream(directory_ + "/0000000000000002.sock").close();
  EXPECT_TRUE(RestartAll(directory_, {}).ok());
  EXPECT_EQ(first.asked(), 1);
}

TEST_F(RestartAllTest, WithoutMountsThereIsNothingToDo) {
  EXPECT_TRUE(RestartAll(directory_, {}).ok());
}

}  // namespace
}  // namespace dafs::client
