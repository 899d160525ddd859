// A worker between a fake kernel and a real server in this process, with a helper for each common
// request. The server needs root; without it, the tests are reported as skipped.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "client/state/client.h"
#include "fuse/mount/worker.h"
#include "server/daemon/server.h"
#include "tests/fuse/fake_kernel.h"
#include "tests/server/scratch_export.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::fuse {

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: the server takes its callers' identities";
    base_ = server::MakeScratch("fuse");
    ASSERT_FALSE(base_.empty());
    server::PrepareProcess();
    provider_ = dat::NewIwarpProvider();
    server::ServerOptions options = server::ScratchOptions(base_);
    options.listen.push_back({server::Transport::kTcp, (*dat::ResolveHost("127.0.0.1", 0))[0]});
    server::Server::Providers providers;
    providers.tcp = provider_.get();
    auto server = server::Server::Start(std::move(options), providers);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    StartWorker();
  }

  void TearDown() override {
    if (state_ != nullptr && state_->notifier != nullptr) state_->notifier->Stop();
    worker_.reset();
    state_.reset();
    client_.reset();
    server_.reset();
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  // The provider with which the worker connects.
  virtual dat::Provider& ClientProvider() { return *provider_; }

  void StartWorker() {
    client::ClientOptions c;
    c.addresses = {server_->bound()[0].address};
    c.providers = {&ClientProvider()};
    c.export_path = {"data"};
    c.client_id_string = "fuse test " + base_;
    c.buffers.bytes = size_t{8} << 20;
    auto client = client::Client::Create(std::move(c));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    Options options;
    state_ = std::make_unique<MountState>(options);
    auto worker = Worker::Start(*state_, *client_, [this] { ended_.Notify(); });
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    absl::Notification found;
    Worker::Root root;
    worker_->FindRoot([&](Worker::Root answer) {
      root = std::move(answer);
      found.Notify();
    });
    found.WaitForNotification();
    ASSERT_TRUE(root.connected.ok()) << root.connected;
    ASSERT_TRUE(root.node.ok()) << root.node.status();
    state_->caches.inodes.SetRoot(root.node->handle, root.node->attributes);
    UniqueFd device = kernel_.TakeWorkerEnd();
    state_->notifier =
        std::make_unique<Notifier>(UniqueFd(fcntl(device.get(), F_DUPFD_CLOEXEC, 0)));
    worker_->Serve(std::move(device));
    EXPECT_EQ(kernel_.Call(FUSE_INIT, 0, FakeKernel::InitBody()).error, 0);
    EXPECT_TRUE(state_->kernel.init.Await(absl::Seconds(20)));
  }

  std::string Local(const std::string& name) const { return base_ + "/export/" + name; }
  std::string Content(const std::string& name) const {
    std::ifstream file(Local(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fuse_entry_out Lookup(uint64_t parent, const std::string& name) {
    FakeKernel::Answer answer = kernel_.Call(FUSE_LOOKUP, parent, Name(name));
    EXPECT_EQ(answer.error, 0) << name;
    return answer.As<fuse_entry_out>();
  }
  struct Created {
    fuse_entry_out entry;
    fuse_open_out open;
  };
  Created Create(const std::string& name, uint32_t flags = O_RDWR) {
    fuse_create_in in = {};
    in.flags = flags | O_CREAT;
    in.mode = S_IFREG | 0644;
    FakeKernel::Answer answer = kernel_.Call(FUSE_CREATE, kRootNode, Raw(in) + Name(name));
    EXPECT_EQ(answer.error, 0) << name;
    return {answer.As<fuse_entry_out>(), answer.As<fuse_open_out>(sizeof(fuse_entry_out))};
  }
  fuse_open_out Open(uint64_t node, uint32_t flags) {
    fuse_open_in in = {.flags = flags, .open_flags = 0};
    FakeKernel::Answer answer = kernel_.Call(FUSE_OPEN, node, Raw(in));
    EXPECT_EQ(answer.error, 0);
    return answer.As<fuse_open_out>();
  }
  FakeKernel::Answer Write(const Created& file, uint64_t offset, const std::string& data) {
    fuse_write_in in = {};
    in.fh = file.open.fh;
    in.offset = offset;
    in.size = static_cast<uint32_t>(data.size());
    return kernel_.Call(FUSE_WRITE, file.entry.nodeid, Raw(in) + data);
  }
  FakeKernel::Answer Read(const Created& file, uint64_t offset, uint32_t size) {
    fuse_read_in in = {};
    in.fh = file.open.fh;
    in.offset = offset;
    in.size = size;
    return kernel_.Call(FUSE_READ, file.entry.nodeid, Raw(in));
  }
  void Release(const Created& file) {
    fuse_release_in in = {};
    in.fh = file.open.fh;
    EXPECT_EQ(kernel_.Call(FUSE_RELEASE, file.entry.nodeid, Raw(in)).error, 0);
  }

  std::string base_;
  std::unique_ptr<dat::Provider> provider_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<MountState> state_;
  FakeKernel kernel_;
  absl::Notification ended_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dafs::fuse
