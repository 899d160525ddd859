#include "tests/wire/dat/iwarp/raw_peer.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "runtime/crc32c.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/iwarp/bytes.h"

namespace dafs::dat::testing {

ByteString FromHex(const std::string& hex) {
  ByteString bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(std::span<const std::byte> bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

ByteString MakeFpdu(std::span<const std::byte> ulpdu, bool crc) {
  ByteString fpdu(iwarp::FpduBytes(ulpdu.size()));
  iwarp::PutBig(fpdu.data(), static_cast<uint16_t>(ulpdu.size()));
  std::copy(ulpdu.begin(), ulpdu.end(), fpdu.begin() + 2);
  const size_t covered = fpdu.size() - iwarp::kCrcBytes;
  if (crc) iwarp::PutCrc(&fpdu[covered], ExtendCrc32c(0, std::span(fpdu).first(covered)));
  return fpdu;
}

ByteString MakeUlpdu(const iwarp::SegmentHeader& header, std::span<const std::byte> payload) {
  ByteString ulpdu(header.size_bytes());
  iwarp::EncodeSegmentHeader(header, ulpdu.data());
  ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
  return ulpdu;
}

ByteString MakeUlpdu(const iwarp::SegmentHeader& header, const std::string& payload) {
  return MakeUlpdu(header, Bytes(payload));
}

RawPeer::RawPeer(UniqueFd socket) : socket_(std::move(socket)) {
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

std::unique_ptr<RawPeer> RawPeer::ConnectTo(const Address& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Blocking: the kernel completes the connection in the backlog of the listening socket.
  if (connect(socket.get(), address.get(), address.size()) != 0) return nullptr;
  return std::make_unique<RawPeer>(std::move(socket));
}

bool RawPeer::Write(std::span<const std::byte> bytes) {
  const absl::Time deadline = Loop::Now() + kPatience;
  while (!bytes.empty() && Loop::Now() < deadline) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno != EAGAIN) {
      return false;
    }
    pump_();
  }
  return bytes.empty();
}

ByteString RawPeer::Read(size_t size) {
  ByteString bytes(size);
  size_t have = 0;
  const absl::Time deadline = Loop::Now() + kPatience;
  while (have < size && Loop::Now() < deadline) {
    pump_();
    const ssize_t got = recv(socket_.get(), &bytes[have], size - have, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    if (got > 0) have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

ByteString RawPeer::ReadUlpdu(bool crc) {
  const ByteString length = Read(2);
  if (length.size() < 2) return {};
  const size_t size = iwarp::GetBig<uint16_t>(length.data());
  ByteString fpdu = length;
  const ByteString rest = Read(iwarp::FpduBytes(size) - 2);
  fpdu.insert(fpdu.end(), rest.begin(), rest.end());
  ByteString ulpdu(fpdu.begin() + 2,
                   fpdu.begin() + 2 + static_cast<std::ptrdiff_t>(std::min(size, rest.size())));
  // Returns a value that no test expects if the padding or the CRC is wrong.
  if (MakeFpdu(ulpdu, crc) != fpdu) return FromHex("bad0bad0");
  return ulpdu;
}

bool RawPeer::AtEnd() { return Read(1).empty(); }

ByteString RawPeer::Handshake(const iwarp::MpaFrame& request, const std::string& private_data) {
  std::array<std::byte, iwarp::kMaxMpaFrameBytes> frame;
  const size_t size = iwarp::EncodeMpaFrame(request, Bytes(private_data), frame);
  if (!Write(std::span(frame).first(size))) return {};
  ByteString reply = Read(iwarp::kMpaFrameHeaderBytes);
  if (reply.size() < iwarp::kMpaFrameHeaderBytes) return reply;
  const ByteString data = Read(iwarp::GetBig<uint16_t>(&reply[18]));
  reply.insert(reply.end(), data.begin(), data.end());
  return reply;
}

void RawPeer::CloseWriting() { shutdown(socket_.get(), SHUT_WR); }

std::unique_ptr<RawPair> NewRawPair(bool crc, const EndpointOptions& options,
                                    const std::function<void(Side&)>& before_accept,
                                    const IwarpOptions& iwarp_options) {
  auto pair = std::make_unique<RawPair>();
  pair->provider = NewIwarpProvider(iwarp_options);
  absl::StatusOr<std::unique_ptr<Listener>> listener = pair->provider->Listen(LoopbackAddress());
  if (!listener.ok()) return nullptr;
  pair->listener = *std::move(listener);
  pair->peer = RawPeer::ConnectTo(pair->listener->local());
  if (pair->peer == nullptr) return nullptr;
  bool failed = false;
  pair->peer->set_pump([&, raw = pair.get()] {
    if (raw->side.endpoint != nullptr) {
      raw->side.Poll();
      return;
    }
    absl::StatusOr<std::unique_ptr<PendingEndpoint>> pending = raw->listener->Next();
    if (!pending.ok() || *pending == nullptr) return;
    raw->side.domain = *(*pending)->NewDomain();
    raw->side.endpoint = *(*pending)->CreateEndpoint(*raw->side.domain, options);
    if (before_accept != nullptr) before_accept(raw->side);
    failed = !raw->side.endpoint->Accept({}).ok();
  });
  iwarp::MpaFrame request;
  request.crc = crc;
  const ByteString reply = pair->peer->Handshake(request, "");
  pair->peer->set_pump([raw = pair.get()] { raw->side.Poll(); });
  if (failed || reply.size() != iwarp::kMpaFrameHeaderBytes) return nullptr;
  return pair;
}

}  // namespace dafs::dat::testing
