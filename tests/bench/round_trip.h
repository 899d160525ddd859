// One message to another process and its answer, over loopback TCP and with nothing else to them:
// what a network file system that asks its server once adds to a call.
#pragma once

#include <cstddef>
#include <vector>

namespace dafs::bench {

// Blocking, of one thread. Ends the program when the other process has gone.
class RoundTrip {
 public:
  RoundTrip() = default;
  ~RoundTrip();
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Starts the other process, which ends with this one. False, with errno, if that cannot be.
  bool Start();
  // Sends a request with so many bytes of data, at most 1 MiB, and waits for an answer with so
  // many. Nothing unless started.
  void Make(size_t data_sent = 0, size_t data_received = 0);

 private:
  int socket_ = -1;
  std::vector<char> bytes_;
};

}  // namespace dafs::bench
