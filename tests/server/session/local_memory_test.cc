// All RDMA is done by the server. No client can access the memory that the server registers.
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

using dat::Access;

// The regions registered in the domains of a listener's connections. Thread-safe.
class Registrations {
 public:
  void Note(Access access) {
    absl::MutexLock lock(&mutex_);
    all_.push_back(access);
  }
  std::vector<Access> all() const {
    absl::MutexLock lock(&mutex_);
    return all_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Access> all_ ABSL_GUARDED_BY(mutex_);
};

class NotedDomain final : public dat::Domain {
 public:
  NotedDomain(std::unique_ptr<dat::Domain> inner, Registrations& registrations)
      : inner_(std::move(inner)), registrations_(registrations) {}
  absl::StatusOr<std::unique_ptr<dat::Region>> Register(std::span<std::byte> memory,
                                                        Access access) override {
    registrations_.Note(access);
    return inner_->Register(memory, access);
  }
  static dat::Domain& Inner(const dat::Domain& domain) {
    return *static_cast<const NotedDomain&>(domain).inner_;
  }

 private:
  std::unique_ptr<dat::Domain> inner_;
  Registrations& registrations_;
};

class NotedPending final : public dat::PendingEndpoint {
 public:
  NotedPending(std::unique_ptr<dat::PendingEndpoint> inner, Registrations& registrations)
      : inner_(std::move(inner)), registrations_(registrations) {}
  absl::StatusOr<std::unique_ptr<dat::Domain>> NewDomain() override {
    auto domain = inner_->NewDomain();
    if (!domain.ok()) return domain;
    return std::make_unique<NotedDomain>(*std::move(domain), registrations_);
  }
  bool Fits(const dat::Domain& domain) const override {
    return inner_->Fits(NotedDomain::Inner(domain));
  }
  absl::StatusOr<std::unique_ptr<dat::Endpoint>> CreateEndpoint(
      dat::Domain& domain, const dat::EndpointOptions& options) override {
    return inner_->CreateEndpoint(NotedDomain::Inner(domain), options);
  }
  std::span<const std::byte> peer_private_data() const override {
    return inner_->peer_private_data();
  }
  const dat::Address& peer() const override { return inner_->peer(); }

 private:
  std::unique_ptr<dat::PendingEndpoint> inner_;
  Registrations& registrations_;
};

class NotedListener final : public dat::Listener {
 public:
  NotedListener(std::unique_ptr<dat::Listener> inner, Registrations& registrations)
      : inner_(std::move(inner)), registrations_(registrations) {}
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Next() override {
    auto pending = inner_->Next();
    if (!pending.ok() || *pending == nullptr) return pending;
    return std::make_unique<NotedPending>(*std::move(pending), registrations_);
  }
  WaitHandle Arm() override { return inner_->Arm(); }
  const dat::Address& local() const override { return inner_->local(); }

 private:
  std::unique_ptr<dat::Listener> inner_;
  Registrations& registrations_;
};

// Records what a server registers. Does not change the clients.
class NotedProvider final : public dat::Provider {
 public:
  NotedProvider(std::shared_ptr<dat::Provider> inner, Registrations& registrations)
      : inner_(std::move(inner)), registrations_(registrations) {}
  const char* name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address& local) override {
    auto listener = inner_->Listen(local);
    if (!listener.ok()) return listener;
    return std::make_unique<NotedListener>(*std::move(listener), registrations_);
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string& device,
                                                                absl::Duration timeout) override {
    return inner_->Resolve(peer, device, timeout);
  }

 private:
  std::shared_ptr<dat::Provider> inner_;  // owners: this object, and the fixture that passed it
  Registrations& registrations_;
};

class LocalMemoryTest : public ServerTest {
 protected:
  Registrations registrations_;
};

// Shows DAFS-D.4.3-01: neither messages nor direct transfers in either direction need remote access
// to server memory.
TEST_F(LocalMemoryTest, ServerMemoryIsNotRemotelyAccessible) {
  provider_ = std::make_shared<NotedProvider>(provider_, registrations_);
  StartServer();
  auto client = Session();
  ActAsRoot(*client);
  auto opened = client->Call(OpenArgs(LookUp(*client, {"a"}), "f", true));
  ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
  DirectMemory memory = client->NewMemory(100000, Access::kRemoteBoth);
  wire::WriteDirectArgs write;
  write.filehandle = opened.res.filehandle;
  write.state_id = opened.res.state_id;
  write.byte_count = 100000;
  write.write_data_buffers = {memory.At(0, 100000)};
  EXPECT_EQ(client->Call(write).name(), "DAFS_STATUS_OK");
  wire::ReadDirectArgs read;
  read.filehandle = opened.res.filehandle;
  read.byte_count = 100000;
  read.read_data_buffers = {memory.At(0, 100000)};
  EXPECT_EQ(client->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_THAT(registrations_.all(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(registrations_.all(), testing::Each(Access::kLocal));
}

}  // namespace
}  // namespace dafs::server
