// Construction, shutdown, limits and COMMIT of a worker's Files. Spec: 6.2.6 (DISCONNECT), 6.5.8
// (COMMIT).
#include "client/files/files.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "client/batch/batch.h"
#include "client/recovery/committer.h"
#include "client/recovery/operation.h"
#include "client/recovery/reclaim.h"
#include "client/recovery/runner.h"
#include "client/session/connection.h"
#include "client/session/report.h"
#include "client/session/session.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr uint32_t kLeastAppend = 65536;  // MAX_APPEND is at least this, WIRE 5.3

uint32_t LeastOf(uint64_t a, uint64_t b) { return static_cast<uint32_t>(std::min(a, b)); }

}  // namespace

absl::StatusOr<std::unique_ptr<Files>> Files::Create(Client& client, dat::Loop& loop) {
  BufferPoolOptions options = client.options().buffers;
  options.name = client.options().server_name;
  ASSIGN_OR_RETURN(std::unique_ptr<BufferPool> buffers, BufferPool::Create(options));
  return absl::WrapUnique(new Files(client, loop, std::move(buffers)));
}

Files::Files(Client& client, dat::Loop& loop, std::unique_ptr<BufferPool> buffers)
    : client_(client),
      loop_(loop),
      buffers_(std::move(buffers)),
      connection_(
          std::make_unique<Connection>(client, loop, buffers_.get(), client.options().server_name)),
      runner_(std::make_unique<Runner>(client, loop, *connection_)),
      committer_(std::make_unique<Committer>(*runner_)),
      reclaim_(std::make_unique<Reclaim>(*runner_, *committer_)),
      batches_(std::make_unique<Batches>(*this, *connection_, loop)) {
  buffers_->ReturnBy(loop);
  // Called during the connection's set-up: nothing here waits.
  connection_->OnChange(
      [this](Session& session) {
        runner_->SessionReady();
        batches_->SessionReady(session);
        reclaim_->SessionReady(session);
      },
      [this](Session& session) {
        runner_->SessionLost(session.negotiated().session_id);
        batches_->SessionLost();
      });
  client_.AddWorker(this);
}

Files::~Files() {
  client_.RemoveWorker(this);
  Shutdown();
}

Files::Gathering::Gathering(Files& files, bool wanted)
    : runner_(*files.runner_), before_(runner_.Gather(wanted)) {}

Files::Gathering::~Gathering() { runner_.Gather(before_); }

void Files::Shutdown() {
  committer_->Shutdown();
  connection_->Shutdown();
  batches_->Shutdown();
  runner_->Shutdown();
  reclaim_->Shutdown();
  EndLockWaits(absl::CancelledError("the mount ends"));
  buffers_->Close();
}

dat::Task<absl::Status> Files::Connect() { return connection_->ConnectOnce(); }

dat::Task<void> Files::Disconnect() {
  // Commits the remaining data, if the server is reachable.
  if (!client_.uncommitted().Files(absl::InfiniteFuture()).empty()) {
    dat::Start(committer_->CommitOld(absl::InfiniteFuture()));
    const absl::Time end = dat::Loop::Now() + absl::Seconds(2);
    while (connection_->session() != nullptr && dat::Loop::Now() < end &&
           !client_.uncommitted().Files(absl::InfiniteFuture()).empty()) {
      dat::Task<absl::Status> pause = connection_->Pause(absl::Milliseconds(5));
      if (!(co_await pause).ok()) break;
    }
  }
  dat::Task<void> task = connection_->Disconnect(absl::Seconds(2));
  co_await task;
  Shutdown();
}

uint32_t Files::read_bytes() const {
  uint64_t most = client_.limits().max_read.load(std::memory_order_relaxed);
  if (most == 0) most = UINT64_MAX;
  return LeastOf(most, std::min(client_.options().read_bytes, buffers_->large_bytes()));
}

uint32_t Files::write_bytes() const {
  uint64_t most = client_.limits().max_write.load(std::memory_order_relaxed);
  if (most == 0) most = UINT64_MAX;
  return LeastOf(most, std::min(client_.options().write_bytes, buffers_->large_bytes()));
}

uint32_t Files::append_bytes() const {
  uint64_t most = client_.limits().max_append.load(std::memory_order_relaxed);
  if (most == 0) most = kLeastAppend;
  if (NeedsInlineWrites()) most = std::min<uint64_t>(most, InlineWriteRoom());
  return LeastOf(most, std::min(client_.options().write_bytes, buffers_->large_bytes()));
}

WorkerReport Files::Report() const {
  WorkerReport report;
  connection_->Fill(report);
  report.buffers = buffers_->counts();
  runner_->Fill(report);
  return report;
}

absl::Duration Files::DisconnectedFor() const {
  if (connection_->session() != nullptr) return absl::ZeroDuration();
  return dat::Loop::Now() - connection_->lost_at();
}

dat::Task<absl::Status> Files::Run(const Identity* who, std::span<CallBase* const> chain) {
  return runner_->Run(who, chain);
}

dat::Task<absl::Status> Files::RunAll(const Identity* who, std::span<CallBase* const> chain,
                                      std::string_view what, size_t extra) {
  return runner_->RunAll(who, chain, what, extra);
}

dat::Task<absl::Status> Files::Null() {
  Call<wire::NullArgs> call;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(nullptr, chain, "null");
  absl::Status status = co_await task;
  co_return status;
}

dat::Task<absl::StatusOr<wire::Verifier>> Files::Commit(const Identity& who,
                                                        const wire::FileHandle& file,
                                                        uint64_t offset, uint32_t size,
                                                        bool can_wait) {
  return committer_->CommitAll(who, file, offset, size, can_wait);
}

absl::Status Files::TakeFailure(const wire::FileHandle& file) {
  return client_.uncommitted().TakeFailure(file);
}

dat::Task<void> Files::CommitOfOthers(const Identity& who, const wire::FileHandle& file) {
  std::optional<Uncommitted::Writer> writer = client_.uncommitted().WriterOf(file);
  if (!writer.has_value() || writer->who.uid == who.uid) co_return;
  dat::Task<absl::StatusOr<wire::Verifier>> task = committer_->CommitAll(writer->who, file, 0, 0);
  absl::StatusOr<wire::Verifier> ignored = co_await task;
}

}  // namespace dafs::client
