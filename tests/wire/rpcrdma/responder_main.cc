// dafs_rpcrdma_responder: an RPC-over-RDMA server for tests, over iWARP in user space. Program
// 300000, version 4: procedure 0 does nothing; 1 returns its argument, an opaque, as an opaque that
// may go into a write chunk.
//
//   dafs_rpcrdma_responder [HIGHEST_VERSION]
//
// Prints the address that it listens on and serves one connection after the other until it is
// killed.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/rpcrdma/connection.h"
#include "wire/rpcrdma/rpc_message.h"

namespace dafs::rpcrdma {
namespace {

constexpr uint32_t kProgram = 300000, kVersion = 4;

absl::StatusOr<Response> Handle(const Request& request) {
  const absl::StatusOr<DecodedCall> decoded = DecodeCall(request.message);
  if (!decoded.ok()) return decoded.status();
  const RpcCall& call = decoded->call;
  RpcReply reply = {.xid = call.xid};
  if (call.program != kProgram) {
    reply.status = ReplyStatus::kProgramUnavailable;
  } else if (call.version != kVersion) {
    reply.status = ReplyStatus::kProgramMismatch;
    reply.low = reply.high = kVersion;
  } else if (call.procedure > 1) {
    reply.status = ReplyStatus::kProcedureUnavailable;
  }
  Response response = {EncodeReply(reply)};
  if (reply.status != ReplyStatus::kSuccess || call.procedure == 0) return response;
  Bytes argument;
  XdrDecoder in(request.message.subspan(decoded->arguments_at));
  in(argument);
  if (!in.ok()) {
    reply.status = ReplyStatus::kGarbageArguments;
    return Response{EncodeReply(reply)};
  }
  XdrEncoder out(response.message);
  out(static_cast<uint32_t>(argument.size()));
  response.results.push_back({static_cast<uint32_t>(response.message.size()), std::move(argument)});
  return response;
}

int Main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.highest_version = static_cast<uint32_t>(std::atoi(argv[1]));
  const auto provider = dat::NewIwarpProvider();
  auto listener = provider->Listen(dat::testing::LoopbackAddress());
  auto loop = Loop::Create();
  if (!listener.ok() || !loop.ok()) return 1;
  std::printf("%s\n", (*listener)->local().ToString().c_str());
  std::fflush(stdout);
  std::vector<std::unique_ptr<Connection>> connections;
  while (true) {
    auto pending = (*listener)->Next();
    if (pending.ok() && *pending != nullptr) {
      auto connection = Connection::Accept(**loop, **pending, options, Handle);
      if (connection.ok()) connections.push_back(*std::move(connection));
    }
    std::erase_if(connections, [](const auto& one) { return !one->status().ok(); });
    (*loop)->RunOnce(absl::Milliseconds(2));
  }
}

}  // namespace
}  // namespace dafs::rpcrdma

int main(int argc, char** argv) { return dafs::rpcrdma::Main(argc, argv); }
