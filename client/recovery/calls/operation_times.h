// Where the time of single operations of a caller goes, for its log of slow ones. A caller numbers
// its operations; a request that the operation issues before its first wait belongs to it, with all
// retries. Without numbers, nothing is recorded.
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace dafs::client {

class CallBase;

struct OperationTimes {
  absl::Duration queue;      // for credits and slots
  absl::Duration session;    // without a session, or while the server asked to wait
  absl::Duration server;     // from requests to their responses
  std::string_view slowest;  // the procedure whose response took longest; empty: none was answered
  absl::Duration slowest_took;
};

class OperationClock {
 public:
  // Requests issued between these two belong to operation `number`, which is not 0.
  void Begin(uint64_t number) {
    current_ = number;
    times_.try_emplace(number);
  }
  void Began() { current_ = 0; }
  // Removes the operation. Its requests may still be outstanding.
  OperationTimes End(uint64_t number);

  // For RequestExecutor. 0: no operation.
  uint64_t current() const { return current_; }
  // `chain` was sent, and has all responses that it will get.
  void AddExchange(uint64_t number, std::span<CallBase* const> chain);
  void AddWait(uint64_t number, absl::Duration time);

 private:
  uint64_t current_ = 0;
  absl::flat_hash_map<uint64_t, OperationTimes> times_;
};

}  // namespace dafs::client
