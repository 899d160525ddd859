// The difference of two reports of a mount or of a server, for dafsctl top and iostat. Pure
// functions of the JSON that dafsctl(8) documents.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dafs::client {

// The requests of some procedures in an interval.
struct Rates {
  double calls = 0;  // per second, as the next ones
  double errors = 0;
  double retries = 0;
  double lost = 0;
  double received_bytes = 0;
  double sent_bytes = 0;
  double rtt_us = 0;    // mean time from a request to its response
  double queue_us = 0;  // mean time of a request before it was sent
  double p99_us = 0;
};

struct MountFigures {
  std::string name;  // "host:/export on /mnt"
  Rates all, reads, writes, others;
  uint64_t credits = 0;  // of all sessions
  uint64_t in_use = 0;
  uint64_t waiting = 0;  // requests for credits, and operations for buffers
  uint64_t calls_outstanding = 0;
  uint64_t reconnects = 0;
  uint64_t sessions_down = 0;
};

// `before` null: since the mount began. A mount that was replaced counts from its beginning.
MountFigures FiguresOf(const nlohmann::ordered_json& before, const nlohmann::ordered_json& now,
                       double seconds);

struct ClientFigures {
  std::string name;
  double requests = 0;  // per second
  double received_bytes = 0;
  double sent_bytes = 0;
  uint64_t opens = 0;
  uint64_t locks = 0;
};

// The clients of a server, the busiest first. `before` null: since each session began.
std::vector<ClientFigures> ClientsOf(const nlohmann::ordered_json& before,
                                     const nlohmann::ordered_json& now, double seconds);

}  // namespace dafs::client
