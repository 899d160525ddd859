#include "client/ctl/rpcping_command.h"

#include <netdb.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/ctl/rpcping_report.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/verbs/verbs.h"
#include "wire/rpcrdma/connection.h"

namespace dafs::client {
namespace {

constexpr uint16_t kNfsRdmaPort = 20049;  // RFC 8267, 6.2
// For the announcement of properties, which a server of version 2 sends after its first reply.
constexpr absl::Duration kWaitForProperties = absl::Milliseconds(200);

struct Target {
  bool tcp = false;
  std::string host;
  uint16_t port = kNfsRdmaPort;
  uint32_t program = 0;
};

absl::StatusOr<Target> Parse(const RpcPingOptions& options) {
  Target target;
  std::string_view server = options.server;
  target.tcp = server.starts_with("tcp:");
  if (target.tcp || server.starts_with("rdma:")) server.remove_prefix(server.find(':') + 1);
  RETURN_IF_ERROR(dat::SplitHostPort(server, &target.host, &target.port));
  if (!absl::SimpleAtoi(options.program, &target.program)) {
    const rpcent* const known = getrpcbyname(options.program.c_str());
    if (known == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.program, ": neither a number nor a program of /etc/rpc"));
    }
    target.program = static_cast<uint32_t>(known->r_number);
  }
  return target;
}

// One connection, and its calls one after the other.
class Pinger {
 public:
  Pinger(const RpcPingOptions& ping, const Target& target, Loop& loop)
      : ping_(ping), loop_(loop), timeout_(absl::Seconds(ping.times.timeout_s)) {
    report_.program = target.program;
    report_.program_version = ping.version;
    xid_ = std::random_device()();
    options_.highest_version = ping.highest_rpcrdma;
    options_.max_read_chunks = options_.max_write_chunks = 0;
    options_.max_segments = 1;  // it answers no calls
    options_.long_bytes = rpcrdma::kDefaultInline;
  }

  absl::Status Connect(dat::Provider& provider, const dat::Address& address) {
    const absl::Time deadline = Loop::Now() + timeout_;
    report_.address = address.ToString();
    connection_.reset();
    ASSIGN_OR_RETURN(const std::unique_ptr<dat::PendingEndpoint> pending,
                     provider.Resolve(address, "", timeout_));
    ASSIGN_OR_RETURN(connection_, rpcrdma::Connection::Connect(loop_, *pending, options_));
    RunUntil(deadline, [&] { return connection_->is_up() || !connection_->status().ok(); });
    if (!connection_->is_up() && connection_->status().ok()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no connection within ", absl::FormatDuration(timeout_)));
    }
    return connection_->status();
  }

  // The first call, in a lower version on another connection if the server drops this one. The
  // report then has everything but times.
  absl::Status Agree(dat::Provider& provider, const dat::Address& address) {
    absl::Status status = Call();
    const uint32_t retry = VersionForRetry(*connection_, options_);
    if (absl::IsUnavailable(status) && retry < options_.highest_version) {
      options_.highest_version = retry;
      RETURN_IF_ERROR(Connect(provider, address));
      status = Call();
      report_.dropped = status.ok();
    }
    RETURN_IF_ERROR(status);
    rpcrdma::PropertyExchange& properties = connection_->properties();
    if (connection_->version() == rpcrdma::kVersion2) {
      RunUntil(Loop::Now() + kWaitForProperties, [&] {
        return properties.announced().has_value() || properties.peer_lacks_them() ||
               !connection_->status().ok();
      });
    }
    report_.transport = connection_->description();
    report_.rpcrdma_version = connection_->version();
    report_.credits = connection_->requester().granted();
    report_.inline_bytes = connection_->version() == rpcrdma::kVersion2
                               ? connection_->peer_properties().receive_size
                               : rpcrdma::kVersion1Inline;
    if (properties.announced().has_value()) report_.properties = connection_->peer_properties();
    if (const auto& refused = connection_->requester().refused_version()) {
      report_.refused = {refused->low, refused->high};
    }
    return absl::OkStatus();
  }

  absl::Status Call() {
    const uint32_t xid = ++xid_;
    std::optional<absl::StatusOr<rpcrdma::Reply>> result;
    rpcrdma::Call call = {
        .message = rpcrdma::EncodeCall({xid, report_.program, report_.program_version, 0})};
    call.timeout = timeout_;
    const absl::Time start = Loop::Now();
    connection_->Start(std::move(call), [&](auto reply) { result = std::move(reply); });
    RunUntil(absl::InfiniteFuture(), [&] { return result.has_value(); });
    last_ = Loop::Now() - start;
    RETURN_IF_ERROR(result->status());
    ASSIGN_OR_RETURN(const rpcrdma::DecodedReply reply, rpcrdma::DecodeReply((*result)->message));
    if (reply.reply.xid != xid) {
      return absl::DataLossError("the reply within the message has another XID");
    }
    report_.reply = reply.reply;
    return absl::OkStatus();
  }

  absl::Status Measure() {
    for (int i = 0; i < ping_.times.count; ++i) {
      if (i > 0) usleep(200000);
      RETURN_IF_ERROR(Call());
      report_.times.push_back(last_);
      if (ping_.json) continue;
      std::fputs(RpcPingCall(report_).c_str(), stdout);
      std::fflush(stdout);
    }
    return absl::OkStatus();
  }

  const RpcPingReport& report() const { return report_; }

 private:
  void RunUntil(absl::Time deadline, const auto& done) {
    while (!done() && Loop::Now() < deadline) {
      loop_.RunOnce(std::min(deadline - Loop::Now(), absl::Duration(absl::Milliseconds(100))));
    }
  }

  const RpcPingOptions& ping_;
  Loop& loop_;
  const absl::Duration timeout_;
  rpcrdma::Options options_;
  std::unique_ptr<rpcrdma::Connection> connection_;
  uint32_t xid_ = 0;
  absl::Duration last_;
  RpcPingReport report_;
};

// The first address that can be connected.
absl::Status ConnectToAny(Pinger& pinger, dat::Provider& provider,
                          const std::vector<dat::Address>& addresses, dat::Address* connected) {
  absl::Status status;
  for (const dat::Address& address : addresses) {
    status = pinger.Connect(provider, address);
    if (status.ok()) {
      *connected = address;
      return status;
    }
  }
  return absl::Status(status.code(), absl::StrCat(addresses.back().ToString(), ": ",
                                                  std::string(status.message())));
}

}  // namespace

CLI::App* AddRpcPingCommand(CLI::App& app, RpcPingOptions& options) {
  CLI::App* const command =
      app.add_subcommand("rpcping", "Time calls of an NFS-over-RDMA or other RPC-over-RDMA server");
  command->add_option("SERVER", options.server, "[rdma:|tcp:]host[:port], default port 20049")
      ->required();
  command->add_option("PROGRAM", options.program, "a number, or a name of rpc(5) such as nfs")
      ->required();
  command->add_option("VERSION", options.version, "version of the program")->required();
  AddPingArguments(*command, options.times, "calls");
  command
      ->add_option("--rpcrdma", options.highest_rpcrdma,
                   "version of RPC-over-RDMA to begin with: 1 or 2")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  command->add_flag("--json", options.json, "print JSON");
  return command;
}

absl::Status RpcPing(const RpcPingOptions& options) {
  ASSIGN_OR_RETURN(const Target target, Parse(options));
  ASSIGN_OR_RETURN(const std::vector<dat::Address> addresses,
                   dat::ResolveHost(target.host, target.port));
  const std::unique_ptr<dat::Provider> provider =
      target.tcp ? dat::NewIwarpProvider() : dat::NewVerbsProvider();
  ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  Pinger pinger(options, target, *loop);
  dat::Address address;
  RETURN_IF_ERROR(ConnectToAny(pinger, *provider, addresses, &address));
  absl::Status status = pinger.Agree(*provider, address);
  if (status.ok()) {
    if (!options.json) std::fputs(RpcPingHead(pinger.report()).c_str(), stdout);
    status = RpcPingVerdict(pinger.report());
    if (status.ok()) status = pinger.Measure();
    std::fputs(options.json ? RpcPingJson(pinger.report()).c_str()
                            : RpcPingSummary(pinger.report()).c_str(),
               stdout);
    if (absl::IsFailedPrecondition(status)) return status;
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(address.ToString(), ": ", std::string(status.message())));
}

}  // namespace dafs::client
