// The control socket with well-behaved and hostile peers.
#include "runtime/sockets/control_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/text.h"

namespace dafs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ControlSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dafs-control-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = name;
    path_ = base_ + "/run/test.sock";
  }
  void TearDown() override {
    Stop();
    std::filesystem::remove_all(base_);
  }

  // Serves in a thread: repeats the request, or refuses the one that is "bad".
  void Serve(absl::Duration time_limit = absl::Seconds(30)) {
    auto loop = Loop::Create({.max_spin = absl::ZeroDuration()});
    ASSERT_TRUE(loop.ok());
    loop_ = *std::move(loop);
    auto socket = ControlSocket::Create(
        {.path = path_, .time_limit = time_limit},
        [this](const ControlSocket::Request& request) -> absl::StatusOr<std::string> {
          uid_ = request.uid;
          if (request.text == "bad") return absl::InvalidArgumentError("it is bad");
          if (request.text == "long") return std::string(kLong, 'x');
          return absl::StrCat("you said ", Text(request.text), "\n");
        });
    ASSERT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
    loop_->Add(socket_.get());
    thread_ = std::thread([this] { loop_->Run(); });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    loop_->Stop();
    thread_.join();
    loop_->Remove(socket_.get());
    socket_.reset();
  }

  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void Send(const UniqueFd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // All that arrives until the connection ends.
  static std::string Rest(const UniqueFd& fd) {
    std::string text;
    char some[4096];
    ssize_t got = 0;
    while ((got = recv(fd.get(), some, sizeof(some), 0)) > 0) {
      text.append(some, static_cast<size_t>(got));
    }
    return text;
  }

  static constexpr size_t kLong = 4 << 20;  // more than a socket buffers
  std::string base_, path_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ControlSocket> socket_;
  std::thread thread_;
  std::atomic<uid_t> uid_{12345};
};

TEST_F(ControlSocketTest, AnswersARequestWithTheUserThatAsks) {
  Serve();
  auto answer = AskControlSocket(path_, "this");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "you said this\n");
  EXPECT_EQ(uid_, geteuid());
  answer = AskControlSocket(path_, "long");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), kLong);
}

TEST_F(ControlSocketTest, ARefusalIsAnErrorWithItsReason) {
  Serve();
  const auto answer = AskControlSocket(path_, "bad");
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(answer.status().message(), "it is bad");
}

TEST_F(ControlSocketTest, OnlyTheOwnerMayConnectUnlessThereIsAGroup) {
  Serve();
  struct stat st;
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777u, 0600u);
  ASSERT_EQ(stat((base_ + "/run").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777u, 0700u);
  Stop();
  EXPECT_FALSE(std::filesystem::exists(path_));
  if (geteuid() != 0) GTEST_SKIP() << "needs root: gives the socket to a group";
  const mode_t before = umask(077);
  auto socket = ControlSocket::Create({.path = path_, .group = 12}, nullptr);
  umask(before);
  ASSERT_TRUE(socket.ok()) << socket.status();
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777u, 0660u);
  EXPECT_EQ(st.st_gid, 12u);
}

TEST_F(ControlSocketTest, ARequestMayArriveInPiecesAndEndWithoutANewline) {
  Serve();
  const UniqueFd fd = Connect();
  for (const char* piece : {"to", "ge", "ther"}) Send(fd, piece);
  shutdown(fd.get(), SHUT_WR);
  EXPECT_EQ(Rest(fd), "you said together\n");
}

TEST_F(ControlSocketTest, ALongRequestIsRefused) {
  Serve();
  const std::string longest(ControlSocket::kLongestRequest, 'q');
  EXPECT_EQ(AskControlSocket(path_, longest).value_or(""),
            absl::StrCat("you said ", longest, "\n"));
  for (const std::string& request : {longest + "q", longest + longest + longest}) {
    const auto answer = AskControlSocket(path_, request);
    EXPECT_THAT(answer.status().message(), HasSubstr("longer than 4096 bytes"));
  }
  // Also without its end.
  const UniqueFd fd = Connect();
  Send(fd, longest + "qq");
  EXPECT_THAT(Rest(fd), StartsWith("error: the request is longer"));
}

TEST_F(ControlSocketTest, APeerThatAsksNothingIsDropped) {
  Serve(absl::Milliseconds(200));
  const UniqueFd silent = Connect();
  const UniqueFd slow = Connect();
  Send(slow, "no newline");
  const UniqueFd deaf = Connect();
  Send(deaf, "long\n");
  EXPECT_EQ(Rest(silent), "");
  EXPECT_EQ(Rest(slow), "");
  // The part that the system has buffered.
  EXPECT_LT(Rest(deaf).size(), kLong);
  { const UniqueFd gone = Connect(); }
  EXPECT_TRUE(AskControlSocket(path_, "more").ok());
}

TEST_F(ControlSocketTest, ASlowPeerDelaysNoOther) {
  Serve();
  const UniqueFd silent = Connect();
  const UniqueFd slow = Connect();
  Send(slow, "no newline");
  const UniqueFd deaf = Connect();
  Send(deaf, "long\n");
  EXPECT_EQ(AskControlSocket(path_, "this").value_or(""), "you said this\n");
  Send(slow, " yet\n");
  EXPECT_EQ(Rest(slow), "you said no newline yet\n");
}

TEST_F(ControlSocketTest, TooManyPeersAreRefusedUntilOneEnds) {
  Serve();
  std::vector<UniqueFd> peers;
  for (size_t i = 0; i < ControlSocket::kMostPeers; ++i) peers.push_back(Connect());
  EXPECT_THAT(AskControlSocket(path_, "this").status().message(), HasSubstr("ask again later"));
  Send(peers.back(), "last\n");
  EXPECT_EQ(Rest(peers.back()), "you said last\n");
  EXPECT_EQ(AskControlSocket(path_, "this").value_or(""), "you said this\n");
}

TEST_F(ControlSocketTest, ReplacesASocketWithoutAProcessButKeepsAnother) {
  Serve();
  auto other = ControlSocket::Create({.path = path_, .keeps_other = true}, nullptr);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  // As a killed program leaves it.
  const std::string left = base_ + "/run/left.sock";
  {
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, left.c_str(), left.size() + 1);
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_EQ(AskControlSocket(left, "x").status().code(), absl::StatusCode::kUnavailable);
  other = ControlSocket::Create({.path = left, .keeps_other = true}, nullptr);
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(AskControlSocket(base_ + "/absent", "x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AskControlSocket(std::string(200, 'a'), "x").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A later mount on the same directory takes the path over.
TEST_F(ControlSocketTest, LeavesTheSocketOfAnotherThatHasReplacedIt) {
  Serve();
  auto later = ControlSocket::Create({.path = path_}, nullptr);
  ASSERT_TRUE(later.ok()) << later.status();
  Stop();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace dafs
