// The terms of one session, which client and server have agreed on: the results of the connect
// exchange, and the extensions.
// Spec: 3.1.2.2, 6.2.1; WIRE 11.3; extensions: wire/messages/posix.h.
// Belongs to the session's thread, except as noted.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "server/clients/options.h"
#include "wire/messages/posix.h"
#include "wire/messages/session.h"
#include "wire/protocol/program_version.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Returns the values that the server agrees to, as far as `args` and `options` decide them. The
// others (identifiers, number of requests and credentials, Response Cache) stay zero.
wire::ClientConnectRes Negotiate(const ServerOptions& options, const wire::ClientConnectArgs& args);

class Terms {
 public:
  // session_id is zero before the connect exchange.
  const wire::ClientConnectRes& negotiated() const { return negotiated_; }
  void SetNegotiated(const wire::ClientConnectRes& negotiated) { negotiated_ = negotiated; }
  bool has_session() const { return !negotiated_.session_id.is_zero(); }
  bool checksums() const { return negotiated_.use_checksums; }

  // The byte order of the client; nullopt before its first request.
  const std::optional<wire::ByteOrder>& order() const { return order_; }
  void SetOrder(wire::ByteOrder order) { order_ = order; }

  // The extensions (wire::kExtension...), once granted, stay until the session ends. Any thread.
  void Grant(uint64_t extensions) { extensions_.fetch_or(extensions, std::memory_order_relaxed); }
  bool Has(uint64_t extension) const {
    return (extensions_.load(std::memory_order_relaxed) & extension) != 0;
  }
  bool has_extensions() const { return extensions_.load(std::memory_order_relaxed) != 0; }
  // The version of the client's program, for the administrator. Any thread.
  void SetProgramVersion(const wire::ProgramVersion& version) {
    program_version_.store(wire::BitsOf(version), std::memory_order_relaxed);
  }
  wire::ProgramVersion program_version() const {
    return wire::ProgramVersionOf(program_version_.load(std::memory_order_relaxed));
  }
  // Returns true if a read with this cache_hint leaves the access time unchanged.
  bool KeepsAtime(uint32_t cache_hint) const {
    return (cache_hint & wire::kCacheHintKeepAtime) != 0 && Has(wire::kExtensionReadKeepsAtime);
  }

 private:
  wire::ClientConnectRes negotiated_;
  std::optional<wire::ByteOrder> order_;
  // A thread of an export's pool may set them; publishes nothing but itself.
  std::atomic<uint64_t> extensions_{0};
  std::atomic<uint64_t> program_version_{0};  // the same
};

}  // namespace dafs::server
