#include "wire/dat/tls/openssl_tls.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "wire/dat/tls/certificates.h"
#include "wire/dat/tls/stream.h"

namespace dafs::dat {
namespace {

class OpenSslContext final : public TlsContext {
 public:
  explicit OpenSslContext(const TlsOptions& options) : options_(options) {}

  absl::StatusOr<std::unique_ptr<TlsStream>> NewStream(int socket) override {
    // A mount outlives its certificates. If the new files are bad, the old ones may still do.
    if (!options_.is_server && !IsCurrent(tls::StampOfFiles(options_))) (void)Reload();
    absl::MutexLock lock(&mutex_);
    return tls::OpenSslStream::Create(context_.get(), options_, socket);
  }

  // Reads without the lock, so that new connections do not wait for the disk.
  absl::Status Reload() override {
    std::string stamp = tls::StampOfFiles(options_);
    absl::StatusOr<tls::ContextHandle> context = tls::LoadContext(options_);
    if (!context.ok()) return context.status();
    absl::MutexLock lock(&mutex_);
    context_.swap(*context);
    stamp_ = std::move(stamp);
    return absl::OkStatus();
  }

 private:
  bool IsCurrent(const std::string& stamp) {
    absl::MutexLock lock(&mutex_);
    return stamp == stamp_;
  }

  const TlsOptions options_;
  absl::Mutex mutex_;
  tls::ContextHandle context_ ABSL_GUARDED_BY(mutex_);
  std::string stamp_ ABSL_GUARDED_BY(mutex_);  // of the files that context_ was made of
};

}  // namespace

absl::StatusOr<std::shared_ptr<TlsContext>> NewTls(const TlsOptions& options) {
  auto context = std::make_shared<OpenSslContext>(options);
  if (absl::Status status = context->Reload(); !status.ok()) return status;
  return context;
}

}  // namespace dafs::dat
