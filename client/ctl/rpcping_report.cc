#include "client/ctl/rpcping_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dafs::client {
namespace {

using rpcrdma::BackwardSupport;
using rpcrdma::ReplyStatus;

std::string Time(absl::Duration duration) {
  return absl::StrFormat("%.1f us", absl::ToDoubleMicroseconds(duration));
}

const char* BackwardText(BackwardSupport support) {
  switch (support) {
    case BackwardSupport::kNone:
      return "none";
    case BackwardSupport::kInline:
      return "inline";
    case BackwardSupport::kGeneral:
      return "general";
  }
  return "unknown";
}

std::string VersionText(const RpcPingReport& report) {
  std::string text = absl::StrCat("RPC-over-RDMA version ", report.rpcrdma_version);
  if (report.refused.has_value()) {
    absl::StrAppend(&text, "; the server refused version 2 and takes ", report.refused->first,
                    " to ", report.refused->second);
  }
  if (report.dropped) {
    absl::StrAppend(&text, "; the server closed the connection when offered version 2");
  }
  return text;
}

}  // namespace

std::string RpcPingHead(const RpcPingReport& report) {
  std::string text = absl::StrCat(
      report.address, ": ", report.transport, "\n  ", VersionText(report), "\n  ", report.credits,
      " credits, messages up to ", report.inline_bytes, " bytes without RDMA\n");
  if (report.properties.has_value()) {
    absl::StrAppend(&text, "  properties: receive size ", report.properties->receive_size,
                    ", backward calls ", BackwardText(report.properties->backward), "\n");
  } else if (report.rpcrdma_version == rpcrdma::kVersion2) {
    absl::StrAppend(&text, "  properties: none announced\n");
  }
  return text;
}

std::string RpcPingCall(const RpcPingReport& report) {
  return absl::StrCat("call ", report.times.size(), ": ", Time(report.times.back()), "\n");
}

std::string RpcPingSummary(const RpcPingReport& report) {
  const std::vector<absl::Duration>& times = report.times;
  if (times.empty()) return "";
  const auto [least, most] = std::ranges::minmax_element(times);
  const absl::Duration total = std::accumulate(times.begin(), times.end(), absl::ZeroDuration());
  return absl::StrCat("least ", Time(*least), ", mean ",
                      Time(total / static_cast<int64_t>(times.size())), ", most ", Time(*most),
                      "\n");
}

std::string RpcPingJson(const RpcPingReport& report) {
  nlohmann::ordered_json json = {{"address", report.address},
                                 {"transport", report.transport},
                                 {"program", report.program},
                                 {"program_version", report.program_version},
                                 {"served", RpcPingVerdict(report).ok()},
                                 {"rpcrdma_version", report.rpcrdma_version},
                                 {"version_2_refused", report.refused.has_value()},
                                 {"version_2_dropped", report.dropped},
                                 {"credits", report.credits},
                                 {"inline_bytes", report.inline_bytes}};
  if (report.refused.has_value()) {
    json["server_versions"] = {report.refused->first, report.refused->second};
  }
  json["properties"] = nullptr;
  if (report.properties.has_value()) {
    json["properties"] = {{"receive_size", report.properties->receive_size},
                          {"backward", BackwardText(report.properties->backward)}};
  }
  json["calls_us"] = nlohmann::json::array();
  for (const absl::Duration time : report.times) {
    json["calls_us"].push_back(absl::ToDoubleMicroseconds(time));
  }
  return json.dump(2) + "\n";
}

absl::Status RpcPingVerdict(const RpcPingReport& report) {
  const rpcrdma::RpcReply& reply = report.reply;
  const std::string name = absl::StrCat(report.address, ": program ", report.program, " version ",
                                        report.program_version);
  switch (reply.status) {
    case ReplyStatus::kSuccess:
      return absl::OkStatus();
    case ReplyStatus::kProgramUnavailable:
      return absl::FailedPreconditionError(absl::StrCat(name, ": the server has no such program"));
    case ReplyStatus::kProgramMismatch:
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": the server has versions ", reply.low, " to ", reply.high));
    case ReplyStatus::kAuthError:
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": the server takes no calls without authentication (auth_stat ",
                       reply.auth_status, ")"));
    case ReplyStatus::kRpcMismatch:
      return absl::FailedPreconditionError(absl::StrCat(name, ": the server speaks RPC versions ",
                                                        reply.low, " to ", reply.high, ", not 2"));
    default:
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": the server refused procedure 0, accept_stat ",
                       static_cast<uint32_t>(reply.status)));
  }
}

}  // namespace dafs::client
