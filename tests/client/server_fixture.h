// A dafsd in this process, over loopback TCP or an RDMA device
// (tests/wire/dat/transport_under_test.h), with one export in a temporary directory, and a client
// of it. The tests' thread runs the client's loop; the server has its own threads. Needs root,
// because the server opens files by handle and takes the identities of users. Skips visibly without
// root.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/exchange/report.h"
#include "client/files/files.h"
#include "client/state/client.h"
#include "runtime/loop/run.h"
#include "server/daemon/server.h"
#include "tests/server/scratch_export.h"
#include "tests/wire/dat/transport_under_test.h"

namespace dafs::client {

// The Status of a Status or StatusOr, so that one macro serves both.
inline const absl::Status& StatusIn(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusIn(const absl::StatusOr<T>& result) {
  return result.status();
}
#define EXPECT_STATUS_OK(...) \
  EXPECT_TRUE(::dafs::client::StatusIn(__VA_ARGS__).ok()) << ::dafs::client::StatusIn(__VA_ARGS__)
#define ASSERT_STATUS_OK(...) \
  ASSERT_TRUE(::dafs::client::StatusIn(__VA_ARGS__).ok()) << ::dafs::client::StatusIn(__VA_ARGS__)

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: the server takes its callers' identities";
    base_ = server::MakeScratch("client");
    ASSERT_FALSE(base_.empty());
    server::PrepareProcess();
    provider_ = dat::testing::ProviderUnderTest();
    StartServer();
  }

  void TearDown() override {
    StopClient();
    server_.reset();
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  void StartServer() {
    server::ServerOptions options = server::ScratchOptions(base_);
    options.max_requests = server_requests_;
    options.max_batch_requests = server_batch_requests_;
    options.rdma_read_channel = server_read_channel_;
    // After the loss of the state directory, everything but a reclaim waits for it.
    options.grace_time = absl::Seconds(15);
    if (adjust_) adjust_(options);
    const bool rdma = dat::testing::OverRdma();
    options.listen.push_back({rdma ? server::Transport::kRdma : server::Transport::kTcp,
                              (*dat::ResolveHost(dat::testing::HostUnderTest(), port_))[0]});
    server::Server::Providers providers;
    (rdma ? providers.rdma : providers.tcp) = provider_.get();
    auto server = server::Server::Start(std::move(options), providers);
    ASSERT_STATUS_OK(server);
    server_ = *std::move(server);
    port_ = server_->bound()[0].address.port();  // the same after a restart
  }

  ClientOptions Options() {
    ClientOptions options;
    options.addresses = {server_->bound()[0].address};
    options.providers = {provider_.get()};
    options.server_name = "127.0.0.1:/data";
    options.export_path = {"data"};
    options.client_id_string = "test of " + base_;
    options.buffers.bytes = size_t{16} << 20;
    options.backoff_least = absl::Milliseconds(5);
    return options;
  }

  void StartClient(ClientOptions options) {
    auto client = Client::Create(std::move(options));
    ASSERT_STATUS_OK(client);
    client_ = *std::move(client);
    loop_ = *Loop::Create();
    auto files = Files::Create(*client_, *loop_);
    ASSERT_STATUS_OK(files);
    files_ = *std::move(files);
    absl::Status connected = Await(files_->Connect());
    ASSERT_STATUS_OK(connected);
    absl::StatusOr<Node> root = Await(files_->Mount(root_user_));
    ASSERT_STATUS_OK(root);
    root_ = *std::move(root);
  }

  void StopClient() {
    if (files_ != nullptr) RunUntilDone(*loop_, files_->Disconnect());
    files_.reset();
    loop_.reset();
    client_.reset();
  }

  template <class T>
  T Await(Task<T> task) {
    return RunUntilDone(*loop_, std::move(task));
  }

  // Returns a request to open `name` in the export for reading and writing.
  OpenRequest ToOpen(const std::string& name, const std::string& owner = "owner") const {
    OpenRequest request;
    request.directory = root_.handle;
    request.name = name;
    request.share_access = wire::kShareBoth;
    request.owner = owner;
    return request;
  }

  BufferLease Lease(BufferUse use, uint32_t bytes) {
    BufferLease lease = files_->buffers().TryAcquire(use, bytes);
    EXPECT_TRUE(lease);
    return lease;
  }

  std::string Local(const std::string& name) const { return base_ + "/export/" + name; }
  void MakeLocal(const std::string& name, const std::string& content) {
    std::ofstream(Local(name), std::ios::binary) << content;
  }
  std::string LocalContent(const std::string& name) const {
    std::ifstream file(Local(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string base_;
  std::function<void(server::ServerOptions&)> adjust_;  // before the server starts
  uint16_t port_ = 0;
  uint32_t server_requests_ = 64;
  uint32_t server_batch_requests_ = 1024;
  server::RdmaReadChannel server_read_channel_ = server::RdmaReadChannel::kOffered;
  std::shared_ptr<dat::Provider> provider_;  // see ProviderUnderTest
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Files> files_;
  Identity root_user_{0, 0, {}};
  Identity user_{1000, 1000, {1000, 4}};
  Node root_;
};

}  // namespace dafs::client
