// The lease keeper next to a worker, against the real server: it renews leases when the client is
// idle, and reports the state of the mount to dafsctl.
#include "client/status/lease_keeper.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/sockets/control_socket.h"
#include "tests/client/server_fixture.h"

namespace dafs::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LeaseKeeperTest : public ServerTest {
 protected:
  // Sends `request` while this thread runs the worker's loop, like a mount.
  std::string Ask(const std::string& request) {
    std::string path = LeaseKeeper::SocketPath(base_ + "/run", "/mnt/here");
    absl::StatusOr<std::string> answer = absl::UnknownError("not asked");
    bool done = false;
    std::thread asker([&] {
      answer = AskControlSocket(path, request);
      loop_->Post([&done] { done = true; });
    });
    while (!done) loop_->RunOnce(absl::Seconds(1));
    asker.join();
    return answer.ok() ? *answer : std::string(answer.status().message());
  }

  // `lease_seconds` replaces the lease time of the server; 0 keeps it.
  void StartAll(uint64_t lease_seconds = 0, bool callbacks = false) {
    ClientOptions options = Options();
    options.callbacks = callbacks;
    options.mount_point = "/mnt/here";
    StartClient(std::move(options));
    if (lease_seconds != 0) client_->limits().lease_seconds = lease_seconds;
    LeaseKeeperOptions keeper_options;
    keeper_options.socket_directory = base_ + "/run";
    auto keeper = LeaseKeeper::Start(*client_, keeper_options);
    ASSERT_STATUS_OK(keeper);
    keeper_ = *std::move(keeper);
  }

  void TearDown() override {
    keeper_.reset();
    ServerTest::TearDown();
  }

  std::unique_ptr<LeaseKeeper> keeper_;
};

TEST_F(LeaseKeeperTest, ReportsTheStateOfTheMount) {
  StartAll();
  struct stat st;
  ASSERT_EQ(stat((base_ + "/run").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0700u);
  EXPECT_THAT(Ask("status"), AllOf(HasSubstr("127.0.0.1:/data on /mnt/here"),
                                   HasSubstr(dat::testing::OverRdma() ? "verbs device" : "iwarp"),
                                   HasSubstr("trusted"), HasSubstr("slots")));
  EXPECT_THAT(Ask("stats"), AllOf(HasSubstr("GET_ROOT_HANDLE"), HasSubstr("REGISTER_CRED")));
  EXPECT_THAT(Ask("json"), AllOf(HasSubstr("\"mount_point\":\"/mnt/here\""),
                                 HasSubstr("\"slots_taken\":0"), HasSubstr("\"peer\"")));
  EXPECT_THAT(Ask("nonsense"), HasSubstr("unknown request"));
  keeper_.reset();
  EXPECT_FALSE(std::filesystem::exists(LeaseKeeper::SocketPath(base_ + "/run", "/mnt/here")));
}

// Until the first answer, it would otherwise be as old as the machine.
TEST_F(LeaseKeeperTest, SilenceCountsFromTheStartIfThereWasNoAnswer) {
  ClientOptions options = Options();
  options.addresses = *dat::ResolveHost("127.0.0.1", 1);
  options.mount_point = "/mnt/here";
  const std::unique_ptr<Client> client = *Client::Create(std::move(options));
  LeaseKeeperOptions keeper_options;
  keeper_options.socket_directory = base_ + "/run";
  const auto keeper = LeaseKeeper::Start(*client, keeper_options);
  ASSERT_STATUS_OK(keeper);
  const absl::StatusOr<std::string> answer =
      AskControlSocket(LeaseKeeper::SocketPath(base_ + "/run", "/mnt/here"), "json");
  ASSERT_STATUS_OK(answer);
  const nlohmann::json report = nlohmann::json::parse(*answer);
  EXPECT_LT(report["quiet_us"].get<int64_t>(), 60'000'000);
}

// Shows DAFS-4.4.1.1-06: an idle client opens the control session to send NULL; a busy one does
// not.
TEST_F(LeaseKeeperTest, RenewsLeasesOnlyWhenIdle) {
  StartAll();
  client_->limits().lease_seconds = 1;
  // Busy for one and a half leases: the control session is not even opened.
  const absl::Time busy_until = Loop::Now() + absl::Milliseconds(1500);
  while (Loop::Now() < busy_until) {
    client_->NoteActivity(Loop::Now(), Loop::Now());
    loop_->RunOnce(absl::Milliseconds(20));
  }
  EXPECT_EQ(server_->connections(), 1u);
  const absl::Time deadline = Loop::Now() + absl::Seconds(30);
  while (server_->connections() < 2 && Loop::Now() < deadline) {
    loop_->RunOnce(absl::Milliseconds(20));
  }
  EXPECT_EQ(server_->connections(), 2u);
}

// The server announces changes over the control session, so that is there from the start.
TEST_F(LeaseKeeperTest, ControlSessionWithCallbacksConnectsAtOnceAndHasTheChannel) {
  StartAll(0, /*callbacks=*/true);
  const absl::Time deadline = Loop::Now() + absl::Seconds(30);
  std::string status;
  while (status.find("Back-control Channel") == std::string::npos && Loop::Now() < deadline) {
    status = Ask("status");
  }
  EXPECT_THAT(status, AllOf(HasSubstr("(control)"), HasSubstr("Back-control Channel"),
                            HasSubstr("\n  caching ")));
  // The workers' sessions keep their memory windows: they have no other channel.
  EXPECT_EQ(files_->Report().session.transport.find("Back-control"), std::string::npos);
}

// Shows DAFS-4.4.1.2-38: after a lease without replies, the client checks every lock.
TEST_F(LeaseKeeperTest, LocksAreCheckedAfterALeaseWithoutReplies) {
  MakeLocal("f", "content");
  StartAll();
  client_->limits().lease_seconds = 1;
  OpenRequest request;
  request.directory = root_.handle;
  request.name = "f";
  request.owner = "owner";
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
  ASSERT_STATUS_OK(file);
  const LockOwner owner{file->handle, file->state_id, 1};
  ASSERT_STATUS_OK(Await(files_->locks().Lock(root_user_, owner, {0, 9, false})));
  server_.reset();
  const absl::Time silent_until = Loop::Now() + absl::Milliseconds(1600);
  while (Loop::Now() < silent_until) loop_->RunOnce(absl::Milliseconds(20));
  auto reads = [this] { return files_->Report().totals[wire::Proc::kReadInline].calls(); };
  EXPECT_EQ(reads(), 0u);
  StartServer();
  const absl::Time deadline = Loop::Now() + absl::Seconds(30);
  while (reads() == 0 && Loop::Now() < deadline) loop_->RunOnce(absl::Milliseconds(20));
  EXPECT_EQ(reads(), 1u);
}

// Shows DAFS-4.4.1.2-38: also if the gap ended before the keeper noticed it.
TEST_F(LeaseKeeperTest, LocksAreCheckedAfterAnUnnoticedGapInReplies) {
  MakeLocal("f", "content");
  StartAll(1);
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, ToOpen("f")));
  ASSERT_STATUS_OK(file);
  const LockOwner owner{file->handle, file->state_id, 1};
  ASSERT_STATUS_OK(Await(files_->locks().Lock(root_user_, owner, {0, 9, false})));
  // Simulates a reply that arrives two seconds after its request.
  const absl::Time sent = Loop::Now();
  client_->NoteActivity(sent, sent + absl::Seconds(2));
  auto reads = [this] { return files_->Report().totals[wire::Proc::kReadInline].calls(); };
  const absl::Time deadline = Loop::Now() + absl::Seconds(30);
  while (reads() == 0 && Loop::Now() < deadline) loop_->RunOnce(absl::Milliseconds(20));
  EXPECT_EQ(reads(), 1u);
}

}  // namespace
}  // namespace dafs::client
