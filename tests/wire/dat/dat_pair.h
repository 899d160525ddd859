// Two connected endpoints on one thread, for tests and benchmarks: polls both ends until what is
// waited for has come, or a deadline fails the test.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/loop.h"
#include "wire/dat/dat.h"

namespace dafs::dat::testing {

// Long enough for a loaded machine; a test that needs it has failed.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// One side: its domain, its endpoint and the completions seen so far.
struct Side {
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Endpoint> endpoint;
  std::vector<Completion> seen;

  // Polls once into `seen`; whether anything came.
  bool Poll() {
    if (endpoint == nullptr) return false;
    Completion some[8];
    const size_t count = endpoint->Poll(some);
    for (size_t i = 0; i < count; ++i) seen.push_back(std::move(some[i]));
    return count > 0;
  }
  // The first completion seen of `event`, taken out of `seen`.
  std::optional<Completion> Take(Event event) {
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i].event != event) continue;
      Completion found = std::move(seen[i]);
      seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return std::nullopt;
  }
  size_t Count(Event event) const {
    size_t count = 0;
    for (const Completion& one : seen) count += one.event == event ? 1 : 0;
    return count;
  }
};

// Registered memory with its bytes.
struct Memory {
  std::vector<std::byte> bytes;
  std::unique_ptr<Region> region;

  Segment At(size_t offset, size_t size) const {
    return {.data = region->memory().data() + offset,
            .size_bytes = static_cast<uint32_t>(size),
            .region = region.get()};
  }
  Segment All() const { return At(0, bytes.size()); }
  RemoteBuffer Remote(size_t offset = 0) const {
    return {.target_address = region->target_address() + offset, .context = region->context()};
  }
};

// `fill`: every byte; negative: a pattern that depends on the offset and on `fill`.
inline Memory NewMemory(Domain& domain, size_t size, Access access, int fill = 0) {
  Memory memory;
  memory.bytes.resize(size);
  for (size_t i = 0; i < size; ++i) {
    memory.bytes[i] = static_cast<std::byte>(
        fill >= 0 ? fill : (static_cast<int>(i * 7 + i / 251) - fill) & 0xff);
  }
  absl::StatusOr<std::unique_ptr<Region>> region = domain.Register(memory.bytes, access);
  if (region.ok()) memory.region = *std::move(region);
  return memory;
}

struct Pair {
  std::unique_ptr<Listener> listener;
  Side client;
  Side server;

  // Polls both sides until `done`, for at most kPatience; whether it came to be.
  bool Until(const std::function<bool()>& done) {
    const absl::Time deadline = Loop::Now() + kPatience;
    for (uint32_t turn = 0; !done(); ++turn) {
      client.Poll();
      server.Poll();
      if (turn % 1024 == 0 && Loop::Now() > deadline) return false;
    }
    return true;
  }
  // The next completion of `event` at `side`.
  std::optional<Completion> Await(Side& side, Event event) {
    Until([&] { return side.Count(event) > 0; });
    return side.Take(event);
  }
};

// Makes both endpoints, without connecting them: receives can be posted. The first error ends it.
absl::StatusOr<std::unique_ptr<Pair>> MakePair(Provider& client, Provider& server,
                                               const Address& address,
                                               const EndpointOptions& options,
                                               const std::string& client_data = "",
                                               Listener* shared_listener = nullptr);
// The server's endpoint comes into being once the client's request arrived, so MakePair has called
// Connect already; this accepts and waits for both kConnected.
absl::Status FinishPair(Pair& pair, const std::string& server_data = "");

inline std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// An address of this machine at which `provider` can listen: loopback, port 0.
Address LoopbackAddress();

}  // namespace dafs::dat::testing
