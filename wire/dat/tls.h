// TLS 1.3 below a transport over TCP (RFC 8446), with ALPN "dafs". The interface: a transport does
// not depend on the library that implements it. wire/dat/tls/openssl_tls.h is the implementation.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dafs::dat {

// The facts that TLS has proven about a peer. A value.
struct TlsPeer {
  // Whether the peer has proven to own a certificate that this side accepts.
  bool has_certificate = false;
  // The DNS names and addresses of that certificate; its common name if it has none of these.
  std::vector<std::string> names;
  // The tls-exporter of the connection (RFC 9266): 32 bytes that both ends know, and that no other
  // connection has. Says nothing about the peer, so it is not compared.
  std::string channel_binding = {};

  friend bool operator==(const TlsPeer& a, const TlsPeer& b) {
    return a.has_certificate == b.has_certificate && a.names == b.names;
  }
};

struct TlsOptions {
  bool is_server = false;
  // Client: the host name or numeric address that the server's certificate must be for.
  std::string server_name = {};
  // The CAs whose certificates are accepted (PEM). Client: empty for those of the system. Server:
  // empty to request no certificate.
  std::string ca_file = {};
  // The own certificate with its chain, and its private key (PEM). A server needs both; a client
  // has both or neither. Other users must have no access to the key.
  std::string cert_file = {};
  std::string key_file = {};
  // The sending key is replaced after this many records. RFC 8446, 5.5: AES-GCM protects 2^24.5.
  uint64_t records_per_key = uint64_t{1} << 22;
};

// One connection. Belongs to the thread of its endpoint; nothing blocks. The socket is borrowed.
// After a failure each call fails; error() has the reason and the remedy.
class TlsStream {
 public:
  virtual ~TlsStream() = default;
  TlsStream() = default;
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Progress : uint8_t { kDone, kWaits, kFailed };
  // Continues the handshake. kWaits: call again when the socket is readable or, while
  // has_output(), writable.
  virtual Progress Handshake() = 0;
  // Encrypts bytes of `from` and sends them. Returns the bytes taken, which are no longer needed,
  // or -1 with errno EAGAIN (the socket is full) or EPROTO (error()).
  virtual ssize_t Send(std::span<const iovec> from) = 0;
  // Fills `into`. Fewer bytes than that: no more have arrived, or the socket stays readable. 0: the
  // peer ended its stream with close_notify. -1: errno is EAGAIN or EPROTO, as above. A stream that
  // ends otherwise is truncated, which is a failure.
  virtual ssize_t Receive(std::span<const iovec> into) = 0;
  // Sends encrypted bytes that the socket did not take before. Returns true if none is left.
  virtual bool Flush() = 0;
  virtual bool has_output() const = 0;
  // Whether Receive may return bytes although the socket is not readable.
  virtual bool may_have_input() const = 0;
  // Ends this side's stream with close_notify; nothing may be sent afterwards. Returns false if
  // that waits for the socket: call again.
  virtual bool Close() = 0;

  virtual const absl::Status& error() const = 0;
  // After the handshake.
  virtual std::shared_ptr<const TlsPeer> peer() const = 0;
  virtual std::string description() const = 0;  // "TLSv1.3 TLS_AES_128_GCM_SHA256 by OpenSSL"
};

// Certificates and keys of one side. Thread-safe.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  TlsContext() = default;
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A stream on a connected non-blocking socket. A client reads its files again if they have
  // changed.
  virtual absl::StatusOr<std::unique_ptr<TlsStream>> NewStream(int socket) = 0;
  // Reads the files again, for later streams. On an error nothing has changed.
  virtual absl::Status Reload() = 0;
};

}  // namespace dafs::dat
