// A peer of the iwarp provider made of a bare socket and bytes written out by the test: for what a
// correct peer never does, and for seeing each byte that the provider sends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/mpa.h"
#include "wire/dat/iwarp/socket.h"

namespace dafs::dat::testing {

using ByteString = std::vector<std::byte>;

ByteString FromHex(const std::string& hex);
std::string ToHex(std::span<const std::byte> bytes);

// An FPDU around `ulpdu`.
ByteString MakeFpdu(std::span<const std::byte> ulpdu, bool crc);
// A DDP segment.
ByteString MakeUlpdu(const iwarp::SegmentHeader& header, std::span<const std::byte> payload);
ByteString MakeUlpdu(const iwarp::SegmentHeader& header, const std::string& payload);

// The socket's end.
class RawPeer {
 public:
  // Takes a connected socket, which it makes non-blocking.
  explicit RawPeer(iwarp::OwnedFd socket);
  // Connects to `address`.
  static std::unique_ptr<RawPeer> ConnectTo(const Address& address);

  // Run between attempts, so that the other end, on the same thread, gets on.
  void set_pump(std::function<void()> pump) { pump_ = std::move(pump); }

  // Writes all of `bytes`; false if the socket failed.
  bool Write(std::span<const std::byte> bytes);
  // Reads exactly `size` bytes, or fewer where the other end closed.
  ByteString Read(size_t size);
  // Reads one FPDU and returns its ULPDU; empty at the end of the stream. Checks the CRC field:
  // zero without CRC.
  ByteString ReadUlpdu(bool crc = false);
  // Whether the other end closed (or reset) without a further byte.
  bool AtEnd();
  // Sends an MPA request and returns the reply, with its private data.
  ByteString Handshake(const iwarp::MpaFrame& request, const std::string& private_data);
  void CloseWriting();
  int fd() const { return socket_.get(); }

 private:
  iwarp::OwnedFd socket_;
  std::function<void()> pump_ = [] {};
};

// An endpoint of the provider, server side, with a RawPeer connected to it. `domain` and memory are
// for the test to use.
struct RawPair {
  std::unique_ptr<Provider> provider;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<RawPeer> peer;
  Side side;
};
// Handshakes as a foreign peer does, with `crc` asked by the peer. Receives can be posted by
// `before_accept`.
std::unique_ptr<RawPair> NewRawPair(bool crc, const EndpointOptions& options = {},
                                    const std::function<void(Side&)>& before_accept = nullptr,
                                    const IwarpOptions& iwarp_options = {});

}  // namespace dafs::dat::testing
