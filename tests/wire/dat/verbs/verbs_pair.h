// Two ends of a verbs connection on one thread, at the address DAFS_TEST_RDMA_ADDRESS of an RDMA
// device. Waits for events: a busy loop would keep software devices from running on one CPU.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::dat::testing {

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Registered memory of a domain.
struct Buffer {
  std::vector<std::byte> bytes;
  std::unique_ptr<Region> region;

  Buffer(Domain& domain, size_t size, Access access, const std::string& text = "") : bytes(size) {
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), size));
    auto registered = domain.Register(bytes, access);
    EXPECT_TRUE(registered.ok()) << registered.status();
    if (registered.ok()) region = *std::move(registered);
  }
  Segment At(size_t offset, size_t size) {
    return {.data = bytes.data() + offset,
            .size_bytes = static_cast<uint32_t>(size),
            .region = region.get()};
  }
  Segment All() { return At(0, bytes.size()); }
  RemoteBuffer Remote(size_t offset = 0) const {
    return {.target_address = region->target_address() + offset, .context = region->context()};
  }
  std::string Text(size_t offset, size_t size) const {
    return std::string(reinterpret_cast<const char*>(bytes.data()) + offset, size);
  }
};

struct End {
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Endpoint> endpoint;
  std::deque<Completion> seen;

  std::optional<Completion> Take(Event event) {
    for (auto at = seen.begin(); at != seen.end(); ++at) {
      if (at->event != event) continue;
      Completion found = std::move(*at);
      seen.erase(at);
      return found;
    }
    return std::nullopt;
  }
  void PollOnce() {
    if (endpoint == nullptr) return;
    Completion some[8];
    const size_t count = endpoint->Poll(some);
    for (size_t i = 0; i < count; ++i) seen.push_back(std::move(some[i]));
  }
};

class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* text = std::getenv("DAFS_TEST_RDMA_ADDRESS");
    if (text == nullptr) {
      GTEST_SKIP() << "DAFS_TEST_RDMA_ADDRESS is not set: no RDMA device to test with "
                      "(scripts/rdma-vm has some)";
    }
    auto addresses = ResolveHost(text, 0);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    address_ = addresses->front();
    // One for the process, as in a program. Made before any test changes the thread's identity.
    static const std::unique_ptr<Provider> provider =
        NewVerbsProvider({.probe_every = absl::Seconds(1)});
    provider_ = provider.get();
    auto listener = provider_->Listen(address_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // Sleeps until one of the ends, or the listener, may have work.
  void Sleep() {
    std::vector<pollfd> fds;
    bool busy = false;
    auto add = [&](WaitHandle handle) {
      busy |= handle.fd < 0;
      fds.push_back({.fd = handle.fd, .events = static_cast<short>(handle.events), .revents = 0});
    };
    for (End* end : {&client_, &server_}) {
      if (end->endpoint != nullptr) add(end->endpoint->Arm());
    }
    add(listener_->Arm());
    if (!busy) poll(fds.data(), fds.size(), 1000);
  }

  // Returns the next completion of `event` at `end`, or nothing after ten seconds.
  std::optional<Completion> Await(End& end, Event event) {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (absl::Now() < deadline) {
      client_.PollOnce();
      server_.PollOnce();
      if (auto found = end.Take(event)) return found;
      Sleep();
    }
    return std::nullopt;
  }

  std::unique_ptr<PendingEndpoint> AwaitRequest() {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (absl::Now() < deadline) {
      auto next = listener_->Next();
      EXPECT_TRUE(next.ok()) << next.status();
      if (!next.ok() || *next != nullptr) return next.ok() ? *std::move(next) : nullptr;
      client_.PollOnce();
      Sleep();
    }
    return nullptr;
  }

  void MakeClient(const EndpointOptions& options) {
    auto pending = provider_->Resolve(listener_->local(), "", absl::Seconds(5));
    ASSERT_TRUE(pending.ok()) << pending.status();
    auto domain = (*pending)->NewDomain();
    ASSERT_TRUE(domain.ok()) << domain.status();
    client_.domain = *std::move(domain);
    auto endpoint = (*pending)->CreateEndpoint(*client_.domain, options);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    client_.endpoint = *std::move(endpoint);
  }

  void MakeServer(PendingEndpoint& pending, const EndpointOptions& options) {
    auto domain = pending.NewDomain();
    ASSERT_TRUE(domain.ok()) << domain.status();
    server_.domain = *std::move(domain);
    auto endpoint = pending.CreateEndpoint(*server_.domain, options);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    server_.endpoint = *std::move(endpoint);
  }

  // Makes and connects both ends. The test posts the receives.
  void ConnectPair(const EndpointOptions& options = {}) {
    ASSERT_NO_FATAL_FAILURE(MakeClient(options));
    ASSERT_TRUE(client_.endpoint->Connect(AsBytes("0123456789abcdef")).ok());
    auto pending = AwaitRequest();
    ASSERT_NE(pending, nullptr);
    ASSERT_NO_FATAL_FAILURE(MakeServer(*pending, options));
    ASSERT_TRUE(server_.endpoint->Accept({}).ok());
    ASSERT_TRUE(Await(client_, Event::kConnected).has_value());
    ASSERT_TRUE(Await(server_, Event::kConnected).has_value());
  }

  bool IsIwarp() const {
    return client_.endpoint->description().find("iWARP") != std::string::npos;
  }

  // Recognises siw by its usual name, which scripts/rdma-vm uses.
  bool IsSiw() const {
    return client_.endpoint->description().find("verbs device siw") != std::string::npos;
  }

  Address address_;
  Provider* provider_ = nullptr;
  std::unique_ptr<Listener> listener_;
  End client_;
  End server_;
};

}  // namespace dafs::dat::testing
