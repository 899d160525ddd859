// The real dafsd, killed after each step of a PERSIST lock: the next instance has the state that
// was answered.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/daemon/dafsd_process.h"
#include "tests/server/server_fixture.h"
#include "wire/messages/locks.h"

namespace dafs::server {
namespace {

class PersistentLocksRestart : public ServerTest {
 protected:
  void TearDown() override {
    client_.reset();
    dafsd_.reset();
    ServerTest::TearDown();
  }

  // Kills the dafsd, if there is one, and starts the next.
  void Restart() {
    if (client_ != nullptr) client_->Vanish();
    client_.reset();
    dafsd_.reset();
    dafsd_ = std::make_unique<DafsdProcess>(
        DAFSD, std::vector<std::string>{"--export", "/a=" + Path("a") + ",no_root_squash",
                                        "--listen", "tcp:127.0.0.1:0", "--state-dir", Path("state"),
                                        "--threads", "1"});
    ASSERT_NE(dafsd_->port(), 0) << dafsd_->log();
    auto addresses = dat::ResolveHost("127.0.0.1", dafsd_->port());
    ASSERT_TRUE(addresses.ok());
    address_ = addresses->front();
  }
  // Opens the file for this client.
  void Connect(const std::string& name, uint64_t verifier = 1) {
    client_ = RawClient::Connect(*provider_, address_);
    ASSERT_NE(client_, nullptr);
    ASSERT_EQ(client_->Call(ConnectArgs(name, verifier)).name(), "DAFS_STATUS_OK");
    ActAsRoot(*client_);
    auto reply = client_->Call(OpenArgs(LookUp(*client_, {"a"}), "f", /*create=*/true));
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    open_ = reply.res;
  }
  std::string Lock(uint32_t options) {
    wire::LockArgs args;
    args.filehandle = open_.filehandle;
    args.state_id = open_.state_id;
    args.length = 10;
    args.lock_type = wire::LockType::kWrite;
    args.options = options;
    return client_->Call(args).name();
  }
  std::string Unlock() {
    wire::LockuArgs args;
    args.filehandle = open_.filehandle;
    args.state_id = open_.state_id;
    args.length = 10;
    args.lock_type = wire::LockType::kWrite;
    return client_->Call(args).name();
  }

  std::unique_ptr<DafsdProcess> dafsd_;
  dat::Address address_;
  std::unique_ptr<RawClient> client_;
  wire::OpenRes open_;
};

// Shows DAFS-4.4.1.3-02.
TEST_F(PersistentLocksRestart, EachStateSurvivesAKill) {
  Restart();
  Connect("node1");
  if (HasFatalFailure()) return;
  ASSERT_EQ(Lock(wire::kLockPersist), "DAFS_STATUS_OK");

  // The next instance of the client breaks it.
  Restart();
  Connect("node1", /*verifier=*/2);
  if (HasFatalFailure()) return;
  EXPECT_EQ(Lock(0), "DAFSERR_LOCK_BROKEN");

  Restart();
  Connect("node1", /*verifier=*/3);
  if (HasFatalFailure()) return;
  EXPECT_EQ(Lock(wire::kLockPersist), "DAFSERR_LOCK_BROKEN");
  ASSERT_EQ(Lock(wire::kLockRepair), "DAFS_STATUS_OK");

  // The repair has not ended.
  Restart();
  Connect("node1", /*verifier=*/4);
  if (HasFatalFailure()) return;
  EXPECT_EQ(Lock(0), "DAFSERR_LOCK_BROKEN");
  ASSERT_EQ(Lock(wire::kLockRepair), "DAFS_STATUS_OK");
  ASSERT_EQ(Unlock(), "DAFS_STATUS_OK");

  Restart();
  Connect("node1", /*verifier=*/5);
  if (HasFatalFailure()) return;
  EXPECT_EQ(Lock(0), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
