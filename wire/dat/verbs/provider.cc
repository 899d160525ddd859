#include <utility>

#include "absl/time/clock.h"
#include "runtime/status_macros.h"
#include "wire/dat/verbs/connection.h"
#include "wire/dat/verbs/listener.h"
#include "wire/dat/verbs/opener.h"
#include "wire/dat/verbs/pending.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::dat {
namespace {

class VerbsProvider final : public Provider {
 public:
  explicit VerbsProvider(const VerbsOptions& options) : options_(options) {
    // Kernels before 5.12 may move registered pages at a fork, away from the device. This call
    // prevents that. It does nothing on later kernels, and fails harmlessly without a device.
    (void)ibv_fork_init();
  }

  const char* name() const override { return "rdma"; }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& local) override {
    return verbs::VerbsListener::Create(opener_, local, options_);
  }

  absl::StatusOr<std::unique_ptr<PendingEndpoint>> Resolve(const Address& peer,
                                                           const std::string& device,
                                                           absl::Duration timeout) override {
    ASSIGN_OR_RETURN(std::unique_ptr<verbs::Connection> connection,
                     verbs::Connection::Resolve(opener_, peer, device, options_.reserved_port,
                                                absl::Now() + timeout));
    return std::make_unique<verbs::VerbsPendingEndpoint>(std::move(connection), verbs::Origin(),
                                                         options_);
  }

 private:
  const std::shared_ptr<verbs::Opener> opener_ = std::make_shared<verbs::Opener>();
  const VerbsOptions options_;
};

}  // namespace

std::unique_ptr<Provider> NewVerbsProvider(const VerbsOptions& options) {
  return std::make_unique<VerbsProvider>(options);
}

}  // namespace dafs::dat
