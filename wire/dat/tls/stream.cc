#include "wire/dat/tls/stream.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/tls/certificates.h"

namespace dafs::dat::tls {
namespace {

constexpr std::string_view kChannelBindingLabel = "EXPORTER-Channel-Binding";  // RFC 9266, 4.2
constexpr size_t kChannelBindingBytes = 32;
constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;  // 16 KiB: RFC 8446, 5.1
// Records are sent when this much of them is collected.
constexpr size_t kOutputBytes = 256 << 10;
// The most that waits for the socket: the above, a record, and replies to the peer's key updates. A
// peer that requests those without end and takes no reply must not fill the memory.
constexpr size_t kMostOutputBytes = kOutputBytes * 5 / 4;
// One Send encrypts this much at most, so that a full socket leaves little memory in use.
constexpr size_t kMostOfSend = 1 << 20;
// OpenSSL's buffer for what a recv returns. Memory that is not needed is not touched.
constexpr size_t kInputBytes = 128 << 10;
// The most calls of recv in one Handshake or Receive. OpenSSL returns no key update to the caller,
// so a peer that sends only those would keep the thread in it.
constexpr int kMostReads = 2;

int BioRead(BIO* bio, char* to, int size) {
  BIO_clear_retry_flags(bio);
  bool waits = false;
  const int got = static_cast<OpenSslStream*>(BIO_get_data(bio))->ReadSocket(to, size, &waits);
  if (waits) BIO_set_retry_read(bio);
  return got;
}

int BioWrite(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  return static_cast<OpenSslStream*>(BIO_get_data(bio))->Collect(from, size);
}

long BioControl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int BioCreate(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

// Made once, and never released.
const BIO_METHOD* Method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dafs stream");
    BIO_meth_set_read(made, BioRead);
    BIO_meth_set_write(made, BioWrite);
    BIO_meth_set_ctrl(made, BioControl);
    BIO_meth_set_create(made, BioCreate);
    return made;
  }();
  return method;
}

// Called for each certificate of the chain, and again for what is wrong with one. OpenSSL keeps no
// certificate that it refuses.
int KeepNames(int accepted, X509_STORE_CTX* store) {
  if (accepted == 1) return 1;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const X509* certificate = X509_STORE_CTX_get0_cert(store);
  if (ssl != nullptr && certificate != nullptr) {
    *static_cast<std::vector<std::string>*>(SSL_get_app_data(ssl)) =
        NamesIn(certificate, /*or_common_name=*/false);
  }
  return accepted;
}

// The certificate of the server must be for this name or address. Its common name does not count
// (RFC 9525, 2).
bool ExpectName(SSL* ssl, const std::string& name) {
  if (name.empty()) return false;
  if (IsNumericAddress(name)) {
    const std::string address = name.substr(0, name.find('%'));
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address.c_str()) == 1;
  }
  SSL_set_hostflags(ssl,
                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return SSL_set1_host(ssl, name.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsStream>> OpenSslStream::Create(SSL_CTX* context,
                                                                 const TlsOptions& options,
                                                                 int socket) {
  std::unique_ptr<OpenSslStream> stream(new OpenSslStream(options, socket));
  if (absl::Status status = stream->Prepare(context); !status.ok()) return status;
  return stream;
}

absl::Status OpenSslStream::Prepare(SSL_CTX* context) {
  ERR_clear_error();
  ssl_.reset(SSL_new(context));
  BIO* bio = BIO_new(Method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return absl::ResourceExhaustedError("TLS: no memory for a connection");
  }
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_.get(), bio, bio);  // owns it
  SSL_set_app_data(ssl_.get(), &refused_names_);
  SSL_set_verify(ssl_.get(), SSL_get_verify_mode(ssl_.get()), KeepNames);
  SSL_set_read_ahead(ssl_.get(), 1);
  SSL_set_default_read_buffer_len(ssl_.get(), kInputBytes);
  if (options_.is_server) {
    SSL_set_accept_state(ssl_.get());
    return absl::OkStatus();
  }
  SSL_set_connect_state(ssl_.get());
  if (!ExpectName(ssl_.get(), options_.server_name)) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: '", options_.server_name,
                                                   "' is not a name that a certificate can have"));
  }
  return absl::OkStatus();
}

int OpenSslStream::ReadSocket(char* to, int size, bool* waits) {
  ssize_t got = -1;
  if (!socket_empty_ && reads_left_ > 0) {
    --reads_left_;
    do {
      got = recv(socket_, to, static_cast<size_t>(size), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      socket_state_.error = errno;
      return -1;
    }
    socket_state_.at_end = got == 0;
    socket_empty_ = got < size && got != 0;
  }
  *waits = got < 0;
  return static_cast<int>(got);
}

int OpenSslStream::Collect(const char* from, int size) {
  const auto bytes = static_cast<size_t>(size);
  if (output_begin_ == output_end_) output_begin_ = output_end_ = 0;
  if (output_end_ + bytes > output_capacity_) {
    const size_t waiting = output_end_ - output_begin_;
    if (waiting + bytes > kMostOutputBytes) {
      error_ =
          absl::ResourceExhaustedError("TLS: the peer requests key updates and takes no reply");
      return -1;
    }
    // Small messages need little.
    const size_t capacity =
        waiting + bytes <= 2 * kRecordBytes ? 2 * kRecordBytes : kMostOutputBytes;
    std::unique_ptr<std::byte[]> larger;
    if (capacity > output_capacity_) larger.reset(new std::byte[capacity]);
    std::byte* const to = larger != nullptr ? larger.get() : output_.get();
    if (waiting > 0) std::memmove(to, &output_[output_begin_], waiting);
    output_begin_ = 0;
    output_end_ = waiting;
    if (larger != nullptr) {
      output_ = std::move(larger);
      output_capacity_ = capacity;
    }
  }
  std::memcpy(&output_[output_end_], from, bytes);
  output_end_ += bytes;
  return size;
}

bool OpenSslStream::Flush() {
  while (has_output()) {
    const ssize_t sent = send(socket_, &output_[output_begin_], output_end_ - output_begin_,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0) {
      if (error_.ok()) {
        error_ = absl::UnavailableError(absl::StrCat("TLS: send: ", std::strerror(errno)));
      }
      output_begin_ = output_end_ = 0;
      may_have_input_ = true;  // so that Receive reports it
      return true;
    }
    output_begin_ += static_cast<size_t>(sent);
  }
  return true;
}

// Keeps the reason of the failure that OpenSSL has just reported, and sends its alert.
void OpenSslStream::Fail() {
  if (error_.ok()) {
    error_ = Explain(ssl_.get(), options_,
                     {.in_handshake = !is_up_,
                      .socket = socket_state_,
                      .refused_names = std::move(refused_names_)});
  }
  ERR_clear_error();
  may_have_input_ = true;
  Flush();
}

TlsStream::Progress OpenSslStream::Handshake() {
  if (!error_.ok()) return Progress::kFailed;
  ERR_clear_error();
  socket_empty_ = false;
  reads_left_ = kMostReads;
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1 && SSL_get_error(ssl_.get(), done) != SSL_ERROR_WANT_READ) {
    Fail();
    return Progress::kFailed;
  }
  Flush();
  if (error_.ok() && done == 1) error_ = FinishHandshake();
  if (!error_.ok()) return Progress::kFailed;
  return done == 1 ? Progress::kDone : Progress::kWaits;
}

absl::Status OpenSslStream::FinishHandshake() {
  const unsigned char* protocol = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  if (size != sizeof(kAlpn) - 1 || std::memcmp(protocol, kAlpn + 1, size) != 0) {
    return WrongProtocol(options_);
  }
  TlsPeer peer;
  const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate != nullptr && SSL_get_verify_result(ssl_.get()) == X509_V_OK) {
    peer.has_certificate = true;
    peer.names = NamesIn(certificate, /*or_common_name=*/true);
  }
  peer.channel_binding.resize(kChannelBindingBytes);
  if (SSL_export_keying_material(ssl_.get(),
                                 reinterpret_cast<unsigned char*>(peer.channel_binding.data()),
                                 peer.channel_binding.size(), kChannelBindingLabel.data(),
                                 kChannelBindingLabel.size(), nullptr, 0, 1) != 1) {
    return absl::InternalError("TLS: no channel binding can be made");
  }
  peer_ = std::make_shared<const TlsPeer>(std::move(peer));
  is_up_ = true;
  return absl::OkStatus();
}

// Returns false after a failure.
bool OpenSslStream::EncryptRecord(const std::byte* data, size_t size) {
  if (++records_of_key_ > options_.records_per_key) {
    records_of_key_ = 1;
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  size_t written = 0;
  // Collect takes everything, so that a write is never partial.
  if (SSL_write_ex(ssl_.get(), data, size, &written) == 1 && written == size) return true;
  Fail();
  return false;
}

ssize_t OpenSslStream::Send(std::span<const iovec> from) {
  if (!Flush()) {
    errno = EAGAIN;
    return -1;
  }
  if (!error_.ok()) {
    errno = EPROTO;
    return -1;
  }
  ERR_clear_error();
  size_t taken = 0;
  size_t offset = 0;  // in from[piece]
  for (size_t piece = 0; piece < from.size() && taken < kMostOfSend;) {
    const auto* data = static_cast<const std::byte*>(from[piece].iov_base) + offset;
    size_t size = std::min(kRecordBytes, from[piece].iov_len - offset);
    offset += size;
    if (offset == from[piece].iov_len) {
      ++piece;
      offset = 0;
    }
    if (size < kRecordBytes && piece < from.size()) {
      // Fills the record with the pieces that follow.
      if (record_ == nullptr) record_.reset(new std::byte[kRecordBytes]);
      std::memcpy(record_.get(), data, size);
      while (size < kRecordBytes && piece < from.size()) {
        const size_t more = std::min(kRecordBytes - size, from[piece].iov_len - offset);
        std::memcpy(&record_[size], static_cast<const std::byte*>(from[piece].iov_base) + offset,
                    more);
        size += more;
        offset += more;
        if (offset < from[piece].iov_len) break;
        ++piece;
        offset = 0;
      }
      data = record_.get();
    }
    if (size == 0) continue;
    if (!EncryptRecord(data, size)) {
      errno = EPROTO;
      return -1;
    }
    taken += size;
    if (output_end_ - output_begin_ >= kOutputBytes && !Flush()) break;
  }
  Flush();
  return static_cast<ssize_t>(taken);
}

ssize_t OpenSslStream::Receive(std::span<const iovec> into) {
  size_t total = 0;
  int outcome = SSL_ERROR_NONE;
  if (error_.ok()) {
    ERR_clear_error();
    socket_empty_ = false;
    reads_left_ = kMostReads;
    for (size_t piece = 0; piece < into.size() && outcome == SSL_ERROR_NONE; ++piece) {
      for (size_t at = 0; at < into[piece].iov_len;) {
        size_t got = 0;
        const int result =
            SSL_read_ex(ssl_.get(), static_cast<std::byte*>(into[piece].iov_base) + at,
                        into[piece].iov_len - at, &got);
        if (result != 1) {
          outcome = SSL_get_error(ssl_.get(), result);
          break;
        }
        at += got;
        total += got;
      }
    }
    const bool ended = outcome == SSL_ERROR_ZERO_RETURN;
    if (outcome != SSL_ERROR_NONE && outcome != SSL_ERROR_WANT_READ && !ended) Fail();
    may_have_input_ = outcome != SSL_ERROR_WANT_READ;
    if (has_output()) Flush();  // the reply to a key update
  }
  if (total > 0) return static_cast<ssize_t>(total);
  if (outcome == SSL_ERROR_ZERO_RETURN) return 0;
  errno = error_.ok() ? EAGAIN : EPROTO;
  return -1;
}

bool OpenSslStream::Close() {
  if (!close_sent_ && is_up_ && error_.ok()) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
  }
  close_sent_ = true;
  return Flush();
}

std::string OpenSslStream::description() const {
  if (!is_up_) return "TLS";
  return absl::StrCat(SSL_get_version(ssl_.get()), " ", SSL_get_cipher_name(ssl_.get()),
                      " by OpenSSL");
}

}  // namespace dafs::dat::tls
