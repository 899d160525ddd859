// Turns OpenSSL's failures into messages that name what is wrong and the next step.
// Pure, except that the functions empty OpenSSL's error queue of the calling thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "wire/dat/tls.h"
#include "wire/dat/tls/handles.h"

namespace dafs::dat::tls {

// How the connection below stood at the failure.
struct SocketState {
  bool at_end = false;  // the peer closed it
  int error = 0;        // errno of its failure; 0: none
};

struct Failure {
  bool in_handshake = false;
  SocketState socket;
  // The names in the certificate of the peer, if that was refused.
  std::vector<std::string> refused_names;
};

// The failure of a call of `ssl`. All messages begin with "TLS: ". kUnavailable: the connection was
// lost, so that another one may succeed. kUnauthenticated: a certificate was refused.
// kFailedPrecondition: the two ends do not fit together. kDataLoss: the peer broke the protocol.
absl::Status Explain(const SSL* ssl, const TlsOptions& options, const Failure& failure);

// The peer has not agreed to ALPN "dafs".
absl::Status WrongProtocol(const TlsOptions& options);

}  // namespace dafs::dat::tls
