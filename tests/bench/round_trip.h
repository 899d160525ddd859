// One message to another process and its reply, over loopback TCP, without a protocol: the cost
// that one request to a server adds to a call of a network file system.
#pragma once

#include <cstddef>
#include <vector>

namespace dafs::bench {

// Blocking; use from one thread. Exits the program if the other process has ended.
class RoundTrip {
 public:
  RoundTrip() = default;
  ~RoundTrip();
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Starts the other process, which ends with this one. Returns false, with errno set, if it
  // failed.
  bool Start();
  // Sends a request with `data_sent` bytes of data and waits for a reply with `data_received`
  // bytes, each at most 1 MiB. Does nothing if Start was not called.
  void Make(size_t data_sent = 0, size_t data_received = 0);

 private:
  int socket_ = -1;
  std::vector<char> bytes_;
};

}  // namespace dafs::bench
