// The admin socket of a whole server. An input is split by 0xff into peers, each of which sends its
// bytes: half a line, a line, several. Root asks, so that commands are executed. For any input the
// server answers the next request, and no descriptor is left. Needs root.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "runtime/sockets/control_socket.h"
#include "server/daemon/server.h"
#include "tests/fuzz/fuzz.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::server {
namespace {

constexpr size_t kMostPeers = 8;  // of one input

size_t Descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class Target {
 public:
  Target() {
    FUZZ_CHECK(geteuid() == 0);
    LogToStderr("fuzz_admin", Severity::kError);
    PrepareProcess();
    char name[] = "/tmp/dafs-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    base_ = name;
    std::filesystem::create_directory(base_ + "/state");
    std::filesystem::create_directory(base_ + "/a");
    ServerOptions options;
    options.state_dir = base_ + "/state";
    options.admin_socket = Socket();
    Export e;
    e.name = "/a";
    e.directory = base_ + "/a";
    options.exports = {e};
    options.read_exports = [e] { return std::vector<Export>{e}; };
    auto addresses = dat::ResolveHost("127.0.0.1", 0);
    FUZZ_CHECK(addresses.ok());
    options.listen = {{Transport::kTcp, addresses->front()}};
    options.workers = 1;
    options.pool_threads = 1;
    options.direct_memory_bytes = 4 << 20;
    auto server = Server::Start(options, {.tcp = provider_.get()});
    FUZZ_CHECK(server.ok());
    server_ = *std::move(server);
    FUZZ_CHECK(AskControlSocket(Socket(), "status", "dafsd").ok());
    descriptors_ = Descriptors();
  }
  ~Target() {
    server_.reset();
    std::filesystem::remove_all(base_);
  }

  void Run(std::span<const uint8_t> input) {
    {
      std::vector<UniqueFd> peers;
      while (!input.empty() && peers.size() < kMostPeers) {
        const auto end = std::find(input.begin(), input.end(), uint8_t{0xff});
        const size_t size = static_cast<size_t>(end - input.begin());
        peers.push_back(Connect());
        [[maybe_unused]] const ssize_t sent =
            send(peers.back().get(), input.data(), size, MSG_NOSIGNAL);
        input = input.subspan(std::min(input.size(), size + 1));
      }
      // Of some, the answer is read; the others hang up.
      for (size_t i = 0; i < peers.size(); i += 2) {
        shutdown(peers[i].get(), SHUT_WR);
        char answer[4096];
        while (recv(peers[i].get(), answer, sizeof(answer), 0) > 0) {
        }
      }
    }
    // One after all of them: its answer shows that the server has finished with the others.
    FUZZ_CHECK(AskControlSocket(Socket(), "status", "dafsd").ok());
    FUZZ_CHECK(Descriptors() <= descriptors_ + kMostPeers);
  }

 private:
  std::string Socket() const { return base_ + "/s"; }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, Socket().c_str(), Socket().size() + 1);
    FUZZ_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
               0);
    return fd;
  }

  const std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  std::string base_;
  std::unique_ptr<Server> server_;
  size_t descriptors_ = 0;
};

}  // namespace
}  // namespace dafs::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static dafs::server::Target target;
  target.Run({data, size});
  return 0;
}
