#include "wire/dat/iwarp/iwarp.h"

#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/listener.h"
#include "wire/dat/iwarp/socket.h"

namespace dafs::dat {
namespace {

bool IsInternet(const Address& address) {
  return address.family() == AF_INET || address.family() == AF_INET6;
}

class IwarpProvider final : public Provider {
 public:
  IwarpProvider(const IwarpOptions& options, std::vector<UniqueFd> listening)
      : options_(options), listening_(std::move(listening)) {}

  const char* name() const override { return "tcp"; }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& local) override {
    if (!IsInternet(local)) return absl::InvalidArgumentError("listen: not an internet address");
    for (UniqueFd& socket : listening_) {
      if (socket.valid() && iwarp::LocalAddress(socket.get()) == local) {
        return iwarp::IwarpListener::Adopt(options_, std::move(socket));
      }
    }
    return iwarp::IwarpListener::Create(options_, local);
  }

  absl::StatusOr<std::unique_ptr<PendingEndpoint>> Resolve(const Address& peer,
                                                           const std::string& device,
                                                           absl::Duration /*timeout*/) override {
    if (!IsInternet(peer)) return absl::InvalidArgumentError("connect: not an internet address");
    if (!device.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device ", device, ": TCP selects its device by route; rdmadev= is for proto=rdma"));
    }
    return iwarp::NewClientPending(options_, peer);
  }

 private:
  const IwarpOptions options_;
  std::vector<UniqueFd> listening_;  // not valid: in use by a listener
};

}  // namespace

std::unique_ptr<Provider> NewIwarpProvider(const IwarpOptions& options,
                                           std::vector<UniqueFd> listening) {
  return std::make_unique<IwarpProvider>(options, std::move(listening));
}

}  // namespace dafs::dat
