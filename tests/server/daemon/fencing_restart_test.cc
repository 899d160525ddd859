// The real dafsd, killed while it changes a fencing list: the next instance has the list before or
// after the change, and it is in force from the first request.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/daemon/dafsd_process.h"
#include "tests/server/server_fixture.h"
#include "wire/messages/fencing.h"

namespace dafs::server {
namespace {

class FencingRestart : public ServerTest {
 protected:
  void TearDown() override {
    client_.reset();
    dafsd_.reset();
    ServerTest::TearDown();
  }

  // Starts a dafsd, and a session with this fence id.
  void Start(const std::string& kill_at, const std::string& fence_id) {
    std::vector<std::string> arguments = {"--export",    "/a=" + Path("a") + ",no_root_squash",
                                          "--listen",    "tcp:127.0.0.1:0",
                                          "--state-dir", Path("state"),
                                          "--threads",   "1"};
    if (!kill_at.empty()) arguments.insert(arguments.end(), {"--kill-at", kill_at});
    client_.reset();
    dafsd_.reset();
    dafsd_ = std::make_unique<DafsdProcess>(DAFSD, arguments);
    ASSERT_NE(dafsd_->port(), 0) << dafsd_->log();
    auto addresses = dat::ResolveHost("127.0.0.1", dafsd_->port());
    ASSERT_TRUE(addresses.ok());
    address_ = addresses->front();
    Connect(fence_id);
  }
  void Connect(const std::string& fence_id) {
    client_ = RawClient::Connect(*provider_, address_);
    ASSERT_NE(client_, nullptr);
    wire::ClientConnectAuthArgs args = ConnectArgs(fence_id.empty() ? "none" : fence_id);
    args.fence_id_string = fence_id;
    ASSERT_EQ(client_->Call(args).name(), "DAFS_STATUS_OK");
  }
  wire::SetFencingListArgs Change(wire::FenceAccess access, wire::FenceUpdate update,
                                  std::vector<std::string> ids) {
    return {root_, wire::FenceObject::kFilesystem, access, update, std::move(ids)};
  }
  // Whether the session may access the export.
  std::string Access() {
    wire::GetattrInlineArgs args;
    args.filehandle = root_;
    args.attr_request_bitmap = wire::kFattrMode;
    return client_->Call(args).name();
  }

  std::unique_ptr<DafsdProcess> dafsd_;
  dat::Address address_;
  std::unique_ptr<RawClient> client_;
  wire::FileHandle root_;
};

// Shows DAFS-4.4.4.3-02, DAFS-4.4.4.4-03.
TEST_F(FencingRestart, AListSurvivesAKillAtEachStepOfItsChange) {
  for (const char* step : {"before", "recorded", "replied"}) {
    SCOPED_TRACE(step);
    Start("", "operator");
    if (HasFatalFailure()) return;
    root_ = LookUp(*client_, {"a"});
    ASSERT_EQ(client_
                  ->Call(Change(wire::FenceAccess::kAllow, wire::FenceUpdate::kOverwrite,
                                {"node1", "node2", "operator"}))
                  .name(),
              "DAFS_STATUS_OK");
    Start(std::string("SET_FENCING_LIST:") + step, "operator");
    if (HasFatalFailure()) return;
    ASSERT_TRUE(client_->SendRequest(
        Change(wire::FenceAccess::kDeny, wire::FenceUpdate::kRemove, {"node1"})));
    ASSERT_EQ(dafsd_->AwaitEnd(), SIGKILL);
    client_->Vanish();
    Start("", "node1");
    if (HasFatalFailure()) return;
    const bool changed = std::string(step) != "before";
    EXPECT_EQ(Access(), changed ? "DAFSERR_ACCES" : "DAFS_STATUS_OK");
    Connect("");
    EXPECT_EQ(Access(), "DAFSERR_ACCES");
    Connect("node2");
    EXPECT_EQ(Access(), "DAFS_STATUS_OK");
  }
}

}  // namespace
}  // namespace dafs::server
