// A peer of the iwarp provider: a bare socket and bytes written by the test. It violates the
// protocol where a test needs that, and sees each byte that the provider sends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/files/unique_fd.h"
#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/mpa.h"
#include "wire/dat/iwarp/socket.h"

namespace dafs::dat::testing {

using ByteString = std::vector<std::byte>;

ByteString FromHex(const std::string& hex);
std::string ToHex(std::span<const std::byte> bytes);

// Returns an FPDU around `ulpdu`.
ByteString MakeFpdu(std::span<const std::byte> ulpdu, bool crc);
// Returns a DDP segment.
ByteString MakeUlpdu(const iwarp::SegmentHeader& header, std::span<const std::byte> payload);
ByteString MakeUlpdu(const iwarp::SegmentHeader& header, const std::string& payload);

// The end with the bare socket. Its calls block for at most kPatience.
class RawPeer {
 public:
  // Takes a connected socket and makes it non-blocking.
  explicit RawPeer(UniqueFd socket);
  // Connects to `address`.
  static std::unique_ptr<RawPeer> ConnectTo(const Address& address);

  // `pump` runs between attempts, so that the other end, on the same thread, makes progress.
  void set_pump(std::function<void()> pump) { pump_ = std::move(pump); }

  // Writes all of `bytes`. Returns false if the socket failed.
  bool Write(std::span<const std::byte> bytes);
  // Reads exactly `size` bytes, or fewer if the other end closed.
  ByteString Read(size_t size);
  // Reads one FPDU and returns its ULPDU, or an empty one at the end of the stream. Checks the CRC
  // field, which is zero without CRC.
  ByteString ReadUlpdu(bool crc = false);
  // Returns whether the other end closed (or reset) without a further byte.
  bool AtEnd();
  // Sends an MPA request and returns the reply, with its private data.
  ByteString Handshake(const iwarp::MpaFrame& request, const std::string& private_data);
  void CloseWriting();
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
  std::function<void()> pump_ = [] {};
};

// An endpoint of the provider, server side, with a RawPeer connected to it. The test uses the
// domain and registers memory in it.
struct RawPair {
  std::unique_ptr<Provider> provider;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<RawPeer> peer;
  Side side;
};
// Does the handshake of a foreign peer, which requests CRC if `crc` is set. `before_accept` can
// post receives.
std::unique_ptr<RawPair> NewRawPair(bool crc, const EndpointOptions& options = {},
                                    const std::function<void(Side&)>& before_accept = nullptr,
                                    const IwarpOptions& iwarp_options = {});

}  // namespace dafs::dat::testing
