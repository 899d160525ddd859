// Two connected endpoints on one thread, for tests and benchmarks. Polls both ends until the
// expected event, or fails the test after a deadline.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/loop/loop.h"
#include "wire/dat/dat.h"

namespace dafs::dat::testing {

// Long enough for a loaded machine. A test that waits this long has failed.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// One side: its domain, its endpoint and the completions seen so far.
struct Side {
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Endpoint> endpoint;
  std::vector<Completion> seen;

  // Polls once into `seen`. Returns whether any completion arrived.
  bool Poll() {
    if (endpoint == nullptr) return false;
    Completion some[8];
    const size_t count = endpoint->Poll(some);
    for (size_t i = 0; i < count; ++i) seen.push_back(std::move(some[i]));
    return count > 0;
  }
  // Removes the first completion of `event` from `seen` and returns it.
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

// `fill` >= 0 is the value of every byte. A negative `fill` gives a pattern that depends on the
// offset and on `fill`.
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

  // Polls both sides until `done`, for at most kPatience. Returns whether `done` became true.
  bool Until(const std::function<bool()>& done) {
    const absl::Time deadline = Loop::Now() + kPatience;
    for (uint32_t turn = 0; !done(); ++turn) {
      client.Poll();
      server.Poll();
      if (turn % 1024 == 0 && Loop::Now() > deadline) return false;
    }
    return true;
  }
  // Returns the next completion of `event` at `side`.
  std::optional<Completion> Await(Side& side, Event event) {
    Until([&] { return side.Count(event) > 0; });
    return side.Take(event);
  }
};

// Makes both endpoints without connecting them, so that receives can be posted. Returns the first
// error.
absl::StatusOr<std::unique_ptr<Pair>> MakePair(Provider& client, Provider& server,
                                               const Address& address,
                                               const EndpointOptions& options,
                                               const std::string& client_data = "",
                                               Listener* shared_listener = nullptr);
// MakePair has already called Connect, because the server's endpoint exists only after the client's
// request has arrived. This function accepts and waits for both kConnected.
absl::Status FinishPair(Pair& pair, const std::string& server_data = "");

inline std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Returns an address of this machine at which `provider` can listen: loopback, port 0.
Address LoopbackAddress();

}  // namespace dafs::dat::testing
