// A worker between a fake kernel and a ScriptedServer. The script runs on the worker's thread. Set
// it before StartWorker; data that it shares with the test must be atomic or guarded by a mutex.
// Needs no privileges.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "client/state/client.h"
#include "fuse/mount/worker.h"
#include "tests/client/scripted_server.h"
#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {

class ScriptedWorkerTest : public testing::Test {
 protected:
  void TearDown() override {
    if (state_ != nullptr && state_->notifier != nullptr) state_->notifier->Stop();
    worker_.reset();
    state_.reset();
    client_.reset();
    for (const std::string& violation : server_.violations) ADD_FAILURE() << violation;
  }

  void StartWorker(const Options& options = Options()) {
    client::ClientOptions c;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(20149);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c.addresses = {dat::Address(reinterpret_cast<sockaddr*>(&address), sizeof(address))};
    c.providers = {&server_};
    c.server_name = "scripted";
    c.client_id_string = "a test";
    c.max_requests = 16;
    c.id_names = id_names_;
    c.buffers.bytes = size_t{8} << 20;
    auto client = client::Client::Create(std::move(c));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    state_ = std::make_unique<MountState>(options);
    auto worker = Worker::Start(*state_, *client_, [] {});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    absl::Notification found;
    Worker::Root root;
    worker_->FindRoot([&](Worker::Root answer) {
      root = std::move(answer);
      found.Notify();
    });
    found.WaitForNotification();
    ASSERT_TRUE(root.node.ok()) << root.node.status();
    state_->caches.inodes.SetRoot(root.node->handle, root.node->attributes);
    UniqueFd device = kernel_.TakeWorkerEnd();
    state_->notifier =
        std::make_unique<Notifier>(UniqueFd(fcntl(device.get(), F_DUPFD_CLOEXEC, 0)));
    worker_->Serve(std::move(device));
    ASSERT_EQ(kernel_.Call(FUSE_INIT, 0, FakeKernel::InitBody()).error, 0);
    ASSERT_TRUE(state_->kernel.init.Await(absl::Seconds(20)));
  }

  fuse_entry_out Lookup(uint64_t parent, const std::string& name) {
    FakeKernel::Answer answer = kernel_.Call(FUSE_LOOKUP, parent, Name(name));
    EXPECT_EQ(answer.error, 0) << name;
    return answer.As<fuse_entry_out>();
  }
  FakeKernel::Answer Getattr(uint64_t node) {
    return kernel_.Call(FUSE_GETATTR, node, Raw(fuse_getattr_in{}));
  }

  client::testing::ScriptedServer server_;
  std::shared_ptr<client::IdNames> id_names_;  // set it before StartWorker; null: none
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<MountState> state_;
  FakeKernel kernel_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dafs::fuse
