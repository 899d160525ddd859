// Accepts TCP connections, reads their MPA requests, and returns those that are complete. The first
// byte of a connection is that of an MPA request ('M') or of a TLS handshake record (0x16).
// Spec: RFC 5044, 7.1.2; RFC 8446, 5.1; B.4. Belongs to one thread; see wire/dat/dat.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "runtime/files/unique_fd.h"
#include "wire/dat/dat.h"
#include "wire/dat/iwarp/byte_stream.h"
#include "wire/dat/iwarp/handshake.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/iwarp/socket.h"
#include "wire/dat/tls.h"

namespace dafs::dat::iwarp {

class IwarpListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Create(const IwarpOptions& options,
                                                          const Address& local);
  // `socket` listens already.
  static absl::StatusOr<std::unique_ptr<Listener>> Adopt(const IwarpOptions& options,
                                                         UniqueFd socket);

  absl::StatusOr<std::unique_ptr<PendingEndpoint>> Next() override;
  WaitHandle Arm() override;
  const Address& local() const override { return local_; }

 private:
  // A peer that has not sent its whole request yet.
  struct HalfOpen {
    enum class Step : uint8_t { kFirstByte, kTls, kRequest };
    ByteStream stream() const { return {.fd = socket.get(), .tls = tls.get()}; }

    UniqueFd socket;
    Step step = Step::kFirstByte;
    std::unique_ptr<TlsStream> tls;  // null: none
    Address peer;
    absl::Time deadline;
    MpaFrameReader reader{MpaFrameKind::kRequest};
  };

  IwarpListener(const IwarpOptions& options, UniqueFd socket, const Address& local);
  absl::Status AcceptAll();
  std::unique_ptr<PendingEndpoint> ReadOne(HalfOpen& peer, bool* remove);
  bool ReadFirstByte(HalfOpen& peer, bool* remove);
  bool ContinueTls(HalfOpen& peer, bool* remove);
  void RefuseTls(const HalfOpen& peer, const absl::Status& why) const;
  void Remove(size_t index);
  void DropExpired();

  const IwarpOptions options_;
  UniqueFd socket_;
  UniqueFd reserve_;  // closed briefly when descriptors run out, to accept and refuse a peer
  Address local_;
  DeadlineWait wait_;
  std::deque<std::unique_ptr<HalfOpen>> half_open_;  // oldest first
};

// A client's pending endpoint: nothing has been sent yet.
std::unique_ptr<PendingEndpoint> NewClientPending(const IwarpOptions& options, const Address& peer);

}  // namespace dafs::dat::iwarp
