// A whole server. Each input is one authenticated session with its Back-control Channel, and the
// requests sent on it. The client answers nothing on that channel. Known filehandles and the last
// state id replace those of a request, so that the code after the decoders is reached. For any
// input the server either answers or ends that session, and another client's session continues.
// Needs root. All files are in one directory of /tmp and stay small.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/log/log.h"
#include "server/daemon/server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/server/raw_client.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/messages/messages.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {
namespace {

constexpr size_t kMostRequests = 12;  // of one input
constexpr size_t kBodyHead = 6;       // procedure, flags, stream, two handles, length
constexpr uint32_t kReceives = 16;

class Target {
 public:
  Target() {
    FUZZ_CHECK(geteuid() == 0);
    LogToStderr("fuzz_server",
                Severity::kWarning);  // suppresses the two lines logged for each session
    PrepareProcess();
    char name[] = "/tmp/dafs-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    base_ = name;
    std::filesystem::create_directory(base_ + "/state");
    std::filesystem::create_directory(base_ + "/a");
    ServerOptions options;
    options.state_dir = base_ + "/state";
    Export e;
    e.name = "/a";
    e.directory = base_ + "/a";
    e.squash = Squash::kNone;
    e.insecure = true;
    options.exports = {e};
    auto addresses = dat::ResolveHost("127.0.0.1", 0);
    FUZZ_CHECK(addresses.ok());
    options.listen = {{Transport::kTcp, addresses->front()}};
    options.workers = 1;
    options.pool_threads = 1;
    options.direct_memory_bytes = 4 << 20;
    auto server = Server::Start(options, {.tcp = provider_.get()});
    FUZZ_CHECK(server.ok());
    server_ = *std::move(server);
    // Set only now, because the files of the state directory are larger.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1 << 20, 1 << 20};
    FUZZ_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    bystander_ = NewSession("bystander");
    FUZZ_CHECK(bystander_ != nullptr);
  }
  ~Target() {
    bystander_.reset();
    server_.reset();
    std::filesystem::remove_all(base_);
  }

  void Run(std::span<const uint8_t> input) {
    Refill();
    auto client = NewSession("fuzz");
    FUZZ_CHECK(client != nullptr);
    auto back_control = BackControl(*client);
    FUZZ_CHECK(back_control != nullptr);
    std::vector<wire::FileHandle> handles = KnownHandles(*client);
    wire::StateId state = OpenFile(*client, handles[1]);
    for (size_t n = 0; n < kMostRequests && input.size() > kBodyHead; ++n) {
      const size_t size = std::min<size_t>(input.size() - kBodyHead, input[5] * 2u);
      const Bytes message =
          Request(*client, input.first(kBodyHead), input.subspan(kBodyHead, size), handles, state);
      input = input.subspan(kBodyHead + size);
      if (!client->Send(message)) break;
      const std::optional<Bytes> answer = client->Receive();
      if (!answer) break;
      FUZZ_CHECK(answer->size() >= wire::kHeaderSize);
    }
    back_control.reset();
    client.reset();
    FUZZ_CHECK(bystander_->Call(wire::NullArgs()).name() == "DAFS_STATUS_OK");
  }

 private:
  // Makes the same few objects before each input, and removes those of earlier inputs.
  void Refill() {
    for (const auto& entry : std::filesystem::directory_iterator(base_ + "/a")) {
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
    chmod((base_ + "/a").c_str(), 0777);
    std::ofstream(base_ + "/a/f") << std::string(5000, 'f');
    mkdir((base_ + "/a/d").c_str(), 0777);
    FUZZ_CHECK(symlink("f", (base_ + "/a/l").c_str()) == 0);
    FUZZ_CHECK(mkfifo((base_ + "/a/p").c_str(), 0666) == 0);
  }

  std::unique_ptr<RawClient> NewSession(const std::string& name) {
    auto client = RawClient::Connect(*provider_, server_->bound()[0].address, kReceives);
    if (client == nullptr) return nullptr;
    wire::ClientConnectAuthArgs args;
    args.client_id_string = name;
    args.client_verifier = wire::OpaqueFromUint64<wire::Verifier>(1);
    args.auth_req.auth_type = wire::AuthType::kNone;
    args.max_requests = kReceives / 2;
    args.use_back_control_channel = true;
    auto connected = client->Call(args);
    if (connected.name() != "DAFS_STATUS_OK") return nullptr;
    session_id_ = connected.res.session_id;
    wire::RegisterCredArgs cred;
    cred.cred_type = wire::CredType::kId;
    auto registered = client->Call(cred);
    client->cred_handle = registered.res.cred_handle;
    return client;
  }

  // Binds the Back-control Channel of `session`, which must be the last session made.
  std::unique_ptr<RawClient> BackControl(RawClient& session) {
    auto channel = RawClient::Connect(*provider_, server_->bound()[0].address, kReceives, {},
                                      &session.domain());
    if (channel == nullptr) return nullptr;
    wire::ConnectBindArgs args;
    args.session_id = session_id_;
    args.channel_use = wire::ChannelUse::kBackControl;
    args.max_request_size = args.max_response_size = 1024;
    args.max_requests = 4;
    args.auth_req.auth_type = wire::AuthType::kNone;
    return channel->Call(args).name() == "DAFS_STATUS_OK" ? std::move(channel) : nullptr;
  }

  // Returns the handles of the pseudo root, then of f, d, l, p and the export itself.
  std::vector<wire::FileHandle> KnownHandles(RawClient& client) {
    std::vector<wire::FileHandle> handles;
    handles.push_back(client.Call(wire::GetRootHandleArgs()).res.root_handle);
    for (const char* name : {"f", "d", "l", "p", ""}) {
      wire::LookupArgs args;
      args.directory = handles[0];
      args.path = {"a"};
      if (*name != '\0') args.path.emplace_back(name);
      auto reply = client.Call(args);
      FUZZ_CHECK(reply.name() == "DAFS_STATUS_OK");
      handles.push_back(reply.res.filehandle);
    }
    return handles;
  }

  wire::StateId OpenFile(RawClient& client, const wire::FileHandle& file) {
    wire::OpenHandleArgs args;
    args.filehandle = file;
    args.share_access = 3;
    args.owner = "fuzz";
    auto reply = client.Call(args);
    FUZZ_CHECK(reply.name() == "DAFS_STATUS_OK");
    return reply.res.state_id;
  }

  // Head: procedure (an index of the table), flags (chain flags in the low bits, 0x40: body
  // unchanged, 0x80: state id unchanged), stream, handle, second handle, length of the body / 2.
  Bytes Request(RawClient& client, std::span<const uint8_t> head, std::span<const uint8_t> body,
                const std::vector<wire::FileHandle>& handles, const wire::StateId& state) {
    const wire::ProcInfo& row = wire::kProcedures[head[0] % wire::kProcedures.size()];
    wire::RequestHeader header = client.Header(head[2] % (kReceives / 2), head[1] & 0x1f);
    header.procedure = row.number;
    Bytes message = client.Encode(header, wire::NullArgs());
    const size_t at = message.size();
    message.resize(at + std::max<size_t>(row.args_size, (body.size() + 7) / 8 * 8));
    if (!body.empty()) std::memcpy(message.data() + at, body.data(), body.size());
    const auto put = [&](size_t offset, const void* bytes, size_t size) {
      if (at + offset + size <= message.size()) {
        std::memcpy(message.data() + at + offset, bytes, size);
      }
    };
    if ((head[1] & 0x40) == 0) {
      const bool open = row.number == wire::Proc::kOpen;
      const bool two = row.number == wire::Proc::kLink || row.number == wire::Proc::kRename;
      const bool batch = row.number == wire::Proc::kBatchSubmit;
      const wire::FileHandle& first = handles[head[3] % handles.size()];
      // In a batch: in its first request, if the array is at its usual place.
      const size_t handle_at = batch ? 24 : open ? 8 : 0;
      put(handle_at, &first, sizeof(first));
      if (two) put(64, &handles[head[4] % handles.size()], sizeof(first));
      const bool locks = row.number == wire::Proc::kLock || row.number == wire::Proc::kLocku;
      if (!two && !open && (head[1] & 0x80) == 0 && message.size() - at > 72) {
        put(batch ? 24 + 72 : locks ? 72 : 64, &state, sizeof(state));
      }
    }
    // The last two words of a request header (WIRE 3.1); sessions here are little-endian.
    const auto length = static_cast<uint32_t>(message.size());
    std::memcpy(message.data() + 32, &row.number, 4);
    std::memcpy(message.data() + 36, &length, 4);
    return message;
  }

  std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  std::string base_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<RawClient> bystander_;
  wire::SessionId session_id_;  // of the last session made
};

}  // namespace
}  // namespace dafs::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* target = [] {
    auto* made = new dafs::server::Target;
    static dafs::server::Target* to_delete = made;
    std::atexit([] { delete to_delete; });
    return made;
  }();
  target->Run({data, size});
  return 0;
}
