// Reports of a session and of a worker for the administrator. Values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "wire/protocol/procedure_totals.h"
#include "wire/protocol/program_version.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Since the start of the session.
struct Traffic {
  uint64_t requests = 0;
  uint64_t received_bytes = 0;  // messages, and data that the server has read from the client
  uint64_t sent_bytes = 0;      // messages, and data that the server has written to the client
};

// The rate of the last seconds.
struct Rate {
  double requests = 0;  // all per second
  double received_bytes = 0;
  double sent_bytes = 0;
};

// Measures the rate of a counter that only grows, over one to two windows.
class RateMeter {
 public:
  explicit RateMeter(absl::Time now) : since_(now), next_since_(now) {}

  // Begins a new window.
  void Turn(absl::Time now, const Traffic& traffic) {
    at_ = next_at_;
    since_ = next_since_;
    next_at_ = traffic;
    next_since_ = now;
  }
  // Forgets the windows before.
  void Restart(absl::Time now, const Traffic& traffic) {
    at_ = next_at_ = traffic;
    since_ = next_since_ = now;
  }
  Rate Get(absl::Time now, const Traffic& traffic) const {
    // A window that has only begun says little.
    const double seconds = absl::ToDoubleSeconds(std::max(now - since_, absl::Milliseconds(100)));
    const auto rate = [seconds](uint64_t then, uint64_t after) {
      return static_cast<double>(after - then) / seconds;
    };
    return {rate(at_.requests, traffic.requests), rate(at_.received_bytes, traffic.received_bytes),
            rate(at_.sent_bytes, traffic.sent_bytes)};
  }

 private:
  Traffic at_, next_at_;
  absl::Time since_, next_since_;
};

struct SessionReport {
  wire::ClientId client_id;
  std::string peer;       // address and port
  std::string transport;  // of its Operation Channel
  absl::Duration age;
  Traffic traffic;
  Rate rate;
  wire::ProgramVersion version;  // of the client's program
};

// Counts of the sessions of one worker since the start of the server.
struct WorkerCounts {
  wire::CallTotals totals;
  uint64_t sessions_opened = 0;  // whose client has authenticated
  uint64_t sessions_lost = 0;    // of those: ended without DISCONNECT
  uint64_t slow_operations = 0;  // see ServerOptions::slow

  void Merge(const WorkerCounts& other) {
    totals.Merge(other.totals);
    sessions_opened += other.sessions_opened;
    sessions_lost += other.sessions_lost;
    slow_operations += other.slow_operations;
  }
};

}  // namespace dafs::server
