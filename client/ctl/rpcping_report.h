// The report of `dafsctl rpcping`, as text and as JSON. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wire/rpcrdma/properties.h"
#include "wire/rpcrdma/rpc_message.h"

namespace dafs::client {

struct RpcPingReport {
  std::string address;
  std::string transport;
  uint32_t program = 0;
  uint32_t program_version = 0;
  uint32_t rpcrdma_version = 0;
  // The range of versions of a server that refused the highest one.
  std::optional<std::pair<uint32_t, uint32_t>> refused;
  // The server dropped the connection on which the highest version was offered.
  bool dropped = false;
  uint32_t credits = 0;
  uint32_t inline_bytes = 0;                      // that the server receives in one message
  std::optional<rpcrdma::Properties> properties;  // as announced
  rpcrdma::RpcReply reply;                        // the last
  std::vector<absl::Duration> times;
};

// The lines before the times of single calls.
std::string RpcPingHead(const RpcPingReport& report);
std::string RpcPingCall(const RpcPingReport& report);     // of the last call
std::string RpcPingSummary(const RpcPingReport& report);  // empty without a call
std::string RpcPingJson(const RpcPingReport& report);

// kFailedPrecondition: the server answered that it does not serve the program, and why.
absl::Status RpcPingVerdict(const RpcPingReport& report);

}  // namespace dafs::client
