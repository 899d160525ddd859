// One TLS connection by OpenSSL, on a non-blocking socket. OpenSSL reads and writes through a BIO
// of this class: input goes from the socket into OpenSSL's buffer in large pieces, and records are
// collected, so that one send carries many of them. See TlsStream for the contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wire/dat/tls.h"
#include "wire/dat/tls/explain.h"
#include "wire/dat/tls/handles.h"

namespace dafs::dat::tls {

class OpenSslStream final : public TlsStream {
 public:
  // `context` may be released afterwards. kResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(SSL_CTX* context,
                                                           const TlsOptions& options, int socket);

  Progress Handshake() override;
  ssize_t Send(std::span<const iovec> from) override;
  ssize_t Receive(std::span<const iovec> into) override;
  bool Flush() override;
  bool has_output() const override { return output_begin_ != output_end_; }
  bool may_have_input() const override { return may_have_input_; }
  bool Close() override;
  const absl::Status& error() const override { return error_; }
  std::shared_ptr<const TlsPeer> peer() const override { return peer_; }
  std::string description() const override;

  // Called by the BIO. As read(2) and write(2); ReadSocket sets *waits if no bytes have arrived, or
  // if the present call has read enough.
  int ReadSocket(char* to, int size, bool* waits);
  int Collect(const char* from, int size);

 private:
  OpenSslStream(const TlsOptions& options, int socket) : options_(options), socket_(socket) {}
  absl::Status Prepare(SSL_CTX* context);
  absl::Status FinishHandshake();
  bool EncryptRecord(const std::byte* data, size_t size);
  void Fail();

  const TlsOptions options_;
  const int socket_;
  SslHandle ssl_;
  absl::Status error_;
  std::shared_ptr<const TlsPeer> peer_;
  bool is_up_ = false;
  bool close_sent_ = false;
  bool may_have_input_ = true;
  // The last read took all that had arrived. Saves the system call that would return EAGAIN.
  bool socket_empty_ = false;
  int reads_left_ = 0;  // of the present Handshake or Receive
  SocketState socket_state_;
  std::vector<std::string> refused_names_;  // in the certificate of the peer, if it is refused
  uint64_t records_of_key_ = 0;

  // Encrypted bytes for the socket: [output_begin_, output_end_).
  std::unique_ptr<std::byte[]> output_;
  size_t output_capacity_ = 0;
  size_t output_begin_ = 0;
  size_t output_end_ = 0;
  std::unique_ptr<std::byte[]> record_;  // small pieces are copied here, to share one record
};

}  // namespace dafs::dat::tls
