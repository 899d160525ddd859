// Which worker has the session that a further channel will join: the private data of the
// connection requests of one session's channels are alike. Spec: E.9; WIRE 11.1.
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
  // What a connection request from `host` with this private data says; nullopt: nothing of ours.
  struct Request {
    std::string session;  // host and differentiators: the same for all channels of a session
    bool operation = true;
  };
  static std::optional<Request> Read(const std::string& host,
                                     std::span<const std::byte> private_data);

  // The Operation Channel of `session` went to `worker`. Forgets the oldest beyond kMost.
  void Remember(const std::string& session, size_t worker);
  std::optional<size_t> Find(const std::string& session) const;

  // A channel comes right behind its Operation Channel; one that is forgotten is merely refused.
  static constexpr size_t kMost = 4096;

 private:
  absl::flat_hash_map<std::string, size_t> workers_;
  std::deque<std::string> oldest_;
};

}  // namespace dafs::server
