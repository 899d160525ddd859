// Finds the worker that has the session that a further channel will join. The connection requests
// of the channels of one session carry the same private data.
// Spec: E.9; WIRE 11.1.
// One thread (the acceptor's).
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace dafs::server {

class ChannelRoutes {
 public:
  // Parses a connection request from `host` with this private data. nullopt: the private data has
  // no known format.
  struct Request {
    std::string session;  // host and differentiators: the same for all channels of a session
    bool operation = true;
    bool references = false;  // a reference channel
  };
  static std::optional<Request> Read(const std::string& host,
                                     std::span<const std::byte> private_data);

  // Records that the Operation Channel of `session` went to `worker`. Evicts the oldest entry
  // beyond kMost.
  void Remember(const std::string& session, size_t worker);
  std::optional<size_t> Find(const std::string& session) const;

  // A channel normally arrives right after its Operation Channel. If the entry was evicted, the
  // channel is refused, without other harm.
  static constexpr size_t kMost = 4096;

 private:
  absl::flat_hash_map<std::string, size_t> workers_;
  std::deque<std::string> oldest_;
};

}  // namespace dafs::server
