// The real dafsd, killed at each step of a change under an AUTORECOVERY lock, of its undo and of
// its end, and killed again while it recovers: the file is as before the lock, or as the last LOCKU
// left it, and never between.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/server/daemon/dafsd_process.h"
#include "tests/server/server_fixture.h"
#include "wire/messages/locks.h"
#include "wire/messages/read_write.h"

namespace dafs::server {
namespace {

class AutoRecoveryRestart : public ServerTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    WriteFile("a/f", kBefore);
  }
  void TearDown() override {
    client_.reset();
    dafsd_.reset();
    ServerTest::TearDown();
  }

  std::vector<std::string> Arguments(const std::string& kill_at) {
    std::vector<std::string> arguments = {"--export",    "/a=" + Path("a") + ",no_root_squash",
                                          "--listen",    "tcp:127.0.0.1:0",
                                          "--state-dir", Path("state"),
                                          "--threads",   "1"};
    if (!kill_at.empty()) arguments.insert(arguments.end(), {"--kill-at", kill_at});
    return arguments;
  }
  std::string Content() {
    std::ifstream in(Path("a/f"));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Kills the dafsd, if there is one, and starts the next.
  void Restart(const std::string& kill_at = "") {
    if (client_ != nullptr) client_->Vanish();
    client_.reset();
    dafsd_.reset();
    dafsd_ = std::make_unique<DafsdProcess>(DAFSD, Arguments(kill_at));
    ASSERT_NE(dafsd_->port(), 0) << dafsd_->log();
    auto addresses = dat::ResolveHost("127.0.0.1", dafsd_->port());
    ASSERT_TRUE(addresses.ok());
    address_ = addresses->front();
  }
  // A new instance of the client for each `verifier`.
  void Connect(uint64_t verifier) {
    client_ = RawClient::Connect(*provider_, address_);
    ASSERT_NE(client_, nullptr);
    ASSERT_EQ(client_->Call(ConnectArgs("node1", verifier)).name(), "DAFS_STATUS_OK");
    ActAsRoot(*client_);
    auto reply = client_->Call(OpenArgs(LookUp(*client_, {"a"}), "f", /*create=*/false));
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    open_ = reply.res;
  }
  wire::LockArgs LockArgs(wire::LockType type, uint32_t options) {
    wire::LockArgs args;
    args.filehandle = open_.filehandle;
    args.state_id = open_.state_id;
    args.length = wire::kLockToEnd;
    args.lock_type = type;
    args.options = options;
    return args;
  }
  std::string Lock() {
    std::string name = "DAFSERR_DELAY";
    while (name == "DAFSERR_DELAY") {
      name = client_->Call(LockArgs(wire::LockType::kWrite, wire::kLockAutorecovery)).name();
    }
    return name;
  }
  wire::LockuArgs UnlockArgs() {
    wire::LockuArgs args;
    args.filehandle = open_.filehandle;
    args.state_id = open_.state_id;
    args.length = wire::kLockToEnd;
    args.lock_type = wire::LockType::kWrite;
    return args;
  }
  wire::WriteInlineArgs WriteArgs(uint64_t offset) {
    wire::WriteInlineArgs args;
    args.filehandle = open_.filehandle;
    args.state_id = open_.state_id;
    args.offset = offset;
    args.byte_count = static_cast<uint32_t>(kNew.size());
    args.stable_how = wire::StableHow::kUnstable;
    return args;
  }
  std::string Write(uint64_t offset) {
    return client_->Call(WriteArgs(offset), std::as_bytes(std::span(kNew))).name();
  }
  // Sends a request that ends the server.
  template <class Args>
  void SendAndDie(const Args& args, std::span<const std::byte> data = {}) {
    ASSERT_TRUE(client_->Send(client_->Encode(client_->Header(), args, data)));
    ASSERT_EQ(dafsd_->AwaitEnd(), SIGKILL);
  }
  // The next instance of the client: the changes of the earlier one are undone before it gets the
  // lock. `verifier` increases with each.
  void ExpectUndone(uint64_t verifier) {
    Restart();
    if (HasFatalFailure()) return;
    Connect(verifier);
    if (HasFatalFailure()) return;
    ASSERT_EQ(Lock(), "DAFS_STATUS_OK");
    EXPECT_EQ(Content(), kBefore);
    EXPECT_EQ(client_->Call(UnlockArgs()).name(), "DAFS_STATUS_OK");
  }

  const std::string kBefore = "0123456789";
  const std::string kNew = "changed";
  std::unique_ptr<DafsdProcess> dafsd_;
  dat::Address address_;
  std::unique_ptr<RawClient> client_;
  wire::OpenRes open_;
};

class KilledInAChange : public AutoRecoveryRestart {};
// "written": after the response, so that the change is in the file.
INSTANTIATE_TEST_SUITE_P(Steps, KilledInAChange,
                         testing::Values("undo_saved", "undo_row", "written"));

// Shows DAFS-4.4.1.4-02.
TEST_P(KilledInAChange, TheFileIsAsBefore) {
  const std::string step = GetParam();
  Restart(step == "written" ? "" : "WRITE_INLINE:" + step);
  if (HasFatalFailure()) return;
  Connect(1);
  if (HasFatalFailure()) return;
  ASSERT_EQ(Lock(), "DAFS_STATUS_OK");
  if (step == "written") {
    ASSERT_EQ(Write(8), "DAFS_STATUS_OK");
    EXPECT_EQ(Content(), "01234567changed");
  } else {
    SendAndDie(WriteArgs(8), std::as_bytes(std::span(kNew)));
    if (HasFatalFailure()) return;
    EXPECT_EQ(Content(), kBefore);
  }
  ExpectUndone(2);
  ExpectUndone(3);
}

class KilledInAnUndo : public AutoRecoveryRestart {};
INSTANTIATE_TEST_SUITE_P(Steps, KilledInAnUndo,
                         testing::Values("undo_written", "undo_synced", "undo_deleted"));

TEST_P(KilledInAnUndo, TheNextInstanceRepeatsIt) {
  Restart();
  if (HasFatalFailure()) return;
  Connect(1);
  if (HasFatalFailure()) return;
  ASSERT_EQ(Lock(), "DAFS_STATUS_OK");
  ASSERT_EQ(Write(8), "DAFS_STATUS_OK");
  ASSERT_EQ(Write(2), "DAFS_STATUS_OK");
  const std::string kill_at = "LOCK:" + std::string(GetParam());
  Restart(kill_at);
  if (HasFatalFailure()) return;
  client_ = RawClient::Connect(*provider_, address_);
  ASSERT_NE(client_, nullptr);
  client_->SendRequest(ConnectArgs("node1", 2));  // a new instance
  ASSERT_EQ(dafsd_->AwaitEnd(), SIGKILL);
  // Killed again where it repeats the undo: that it had begun is recorded, so no client is needed.
  if (std::string(GetParam()) != "undo_deleted") {
    client_->Vanish();
    client_.reset();
    dafsd_ = std::make_unique<DafsdProcess>(DAFSD, Arguments(kill_at));
    ASSERT_EQ(dafsd_->AwaitEnd(), SIGKILL);
  }
  ExpectUndone(3);
}

class KilledInAnUnlock : public AutoRecoveryRestart {};
INSTANTIATE_TEST_SUITE_P(Steps, KilledInAnUnlock, testing::Values("undo_synced", "undo_deleted"));

TEST_P(KilledInAnUnlock, ItIsDoneOrUndone) {
  Restart("LOCKU:" + std::string(GetParam()));
  if (HasFatalFailure()) return;
  Connect(1);
  if (HasFatalFailure()) return;
  ASSERT_EQ(Lock(), "DAFS_STATUS_OK");
  ASSERT_EQ(Write(8), "DAFS_STATUS_OK");
  SendAndDie(UnlockArgs());
  if (HasFatalFailure()) return;
  if (std::string(GetParam()) == "undo_synced") return ExpectUndone(2);
  for (uint64_t verifier = 2; verifier < 4; ++verifier) {
    Restart();
    if (HasFatalFailure()) return;
    Connect(verifier);
    if (HasFatalFailure()) return;
    ASSERT_EQ(Lock(), "DAFS_STATUS_OK");
    EXPECT_EQ(Content(), "01234567changed");
    ASSERT_EQ(client_->Call(UnlockArgs()).name(), "DAFS_STATUS_OK");
  }
}

}  // namespace
}  // namespace dafs::server
