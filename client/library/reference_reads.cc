#include "client/library/reference_reads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/request_executor.h"
#include "client/session/session.h"
#include "runtime/log/log.h"

namespace dafs::client {
namespace {

// After a loss, and after a refusal that may pass.
constexpr absl::Duration kJoinAgain = absl::Seconds(1);
// A channel that answers no read for this long is ended.
constexpr absl::Duration kMostSilence = absl::Seconds(1);

// A block without a reference is not requested again before this.
constexpr absl::Duration kAskAgain = absl::Seconds(1);
// In place of a reference, with the time until which none is requested in place of the position.
constexpr uint64_t kNoVersion = 0;

uint64_t NanosOf(absl::Time time) { return static_cast<uint64_t>(absl::ToUnixNanos(time)); }

// Whether the server's values can be used.
bool IsUsable(const wire::ExportCacheRes& cache) {
  return cache.block_bytes == wire::kExportedBlock && cache.size_bytes >= wire::kExportedStride &&
         cache.address <= UINT64_MAX - cache.size_bytes;
}

}  // namespace

ReferenceReads::ReferenceReads(Files& files, const Identity& user, const Node& root)
    : files_(files),
      user_(user),
      root_(root),
      directory_(files.client().options().reference_directory_bytes) {
  files_.Observe(*this);
}

ReferenceReads::~ReferenceReads() {
  files_.StopObserving(*this);
  Shutdown();
}

ReferenceChannel* ReferenceReads::channel() const {
  return session_ != nullptr ? session_->references() : nullptr;
}

bool ReferenceReads::ready() const { return is_ready_ && channel() != nullptr; }

void ReferenceReads::SessionReady(Session& session) {
  session_ = &session;
  if ((session.negotiated().extensions & wire::kExtensionReferences) != 0) JoinLater();
}

void ReferenceReads::SessionLost() {
  session_ = nullptr;
  is_ready_ = false;
}

void ReferenceReads::Shutdown() {
  SessionLost();
  is_shut_down_ = true;
  for (Loop::TimerId* timer : {&join_timer_, &watch_timer_}) {
    if (*timer != 0) files_.loop().Cancel(std::exchange(*timer, 0));
  }
}

// Deferred: within SessionReady nothing may wait, and a channel must not be made within the end of
// another.
void ReferenceReads::JoinLater() {
  if (join_timer_ != 0 || is_shut_down_) return;
  const absl::Duration pause = counts_.channels == 0 ? absl::ZeroDuration() : kJoinAgain;
  join_timer_ = files_.loop().RunAfter(pause, [this] {
    join_timer_ = 0;
    if (!is_joining_ && session_ != nullptr && session_->alive()) Start(Join());
  });
}

Task<void> ReferenceReads::Join() {
  is_joining_ = true;
  is_ready_ = false;
  ++counts_.channels;
  const absl::Time deadline = Loop::Now() + files_.client().options().connect_timeout;
  Task<absl::Status> binding = session_->BindReferences(deadline, [this] {
    is_ready_ = false;
    JoinLater();
  });
  absl::Status status = co_await binding;
  const bool is_bound = status.ok();
  if (status.ok()) {
    Call<wire::ExportCacheArgs> call;
    call.args.filehandle = root_.handle;
    CallBase* const chain[] = {&call};
    Task<absl::Status> asking = files_.context().executor.RunAll(&user_, chain, "export cache");
    status = co_await asking;
    if (status.ok() && !IsUsable(call.res))
      status = absl::DataLossError("the server returned invalid values");
    // The channel may have been lost meanwhile: its context is then gone.
    if (status.ok() && channel() != nullptr) {
      cache_ = call.res;
      directory_.Clear();
      is_ready_ = true;
    }
  }
  is_joining_ = false;
  if (status.ok() || session_ == nullptr) co_return;
  LogInfo(absl::StrCat(files_.client().options().server_name, ": no reads by reference: ",
                       status.message(), "; data is read by requests"));
  // A server that refuses keeps doing so; one that could not be reached may be tried again.
  if (!is_bound && absl::IsUnavailable(status)) JoinLater();
}

// Ends a channel that does not answer. One timer for all reads, so that a read costs none.
void ReferenceReads::Watch() {
  if (watch_timer_ != 0 || is_shut_down_) return;
  watch_timer_ = files_.loop().RunAfter(kMostSilence, [this, came = came_] {
    watch_timer_ = 0;
    if (reading_ == 0) return;
    ReferenceChannel* const silent = channel();
    if (came == came_ && silent != nullptr) {
      silent->GiveUp(absl::DeadlineExceededError("no answer to an RDMA read within a second"));
    } else {
      Watch();
    }
  });
}

Task<bool> ReferenceReads::Read(File file, uint64_t offset, uint32_t size,
                                absl::FunctionRef<void(std::span<const std::byte>)> take) {
  const uint64_t block = offset / wire::kExportedBlock;
  const auto in_block = static_cast<uint32_t>(offset % wire::kExportedBlock);
  if (size == 0 || size > wire::kExportedBlock - in_block || !ready()) co_return false;
  const auto reference = directory_.Find(file.name, block);
  if (!reference.has_value() || reference->version == kNoVersion) {
    const bool was_refused = reference.has_value() && NanosOf(Loop::Now()) < reference->position;
    if (!was_refused && requesting_ < kMostRequests) Start(FetchOne(file, block));
    co_return false;
  }
  ReferenceChannel& reads = *channel();
  if (!reads.has_room()) co_return false;
  ReferenceChannel::Read read(
      reads, {.target_address = cache_.address + reference->position, .context = cache_.context});
  ++reading_;
  Watch();
  Pending<bool>& done = read.done();
  const bool came = co_await done;
  --reading_;
  if (!came) {
    ++counts_.lost;
    co_return false;
  }
  ++came_;
  const std::span<const std::byte, wire::kExportedFrame> frame = read.frame();
  if (!wire::IsExported(frame, reference->version)) {
    ++counts_.stale;
    directory_.Remove(file.name, block);
    co_return false;
  }
  ++counts_.by_reference;
  take(frame.subspan(wire::kExportedEdge + in_block, size));
  co_return true;
}

Task<void> ReferenceReads::FetchOne(File file, uint64_t block) {
  ++requesting_;
  Task<absl::StatusOr<uint32_t>> fetching = Fetch(file, block * wire::kExportedBlock, 1);
  const absl::StatusOr<uint32_t> fetched = co_await fetching;
  --requesting_;
  if (fetched.ok() && *fetched > 0) co_return;
  directory_.Add(file.name, block, {NanosOf(Loop::Now() + kAskAgain), kNoVersion});
}

Task<absl::StatusOr<uint32_t>> ReferenceReads::Fetch(File file, uint64_t offset, uint32_t count) {
  uint32_t fetched = 0;
  while (count > 0) {
    if (!ready()) co_return absl::UnavailableError("no reads by reference at this server now");
    ++counts_.requests;
    Call<wire::GetRefsArgs> call;
    call.args.filehandle = file.handle;
    call.args.state_id = file.state_id;
    call.args.offset = offset / wire::kExportedBlock * wire::kExportedBlock;
    call.args.count = std::min(count, wire::kReferencesMax);
    CallBase* const chain[] = {&call};
    const uint64_t channels = counts_.channels;
    Task<absl::Status> asking = files_.context().executor.RunAll(&user_, chain, "references");
    const absl::Status status = co_await asking;
    if (!status.ok()) co_return status;
    // Positions count from the start of a cache that this session's channel has announced.
    if (channels != counts_.channels) co_return absl::UnavailableError("the channel was lost");
    for (const wire::BlockReference& each : call.res.references) {
      if (each.position % 8 != 0 || each.position > cache_.size_bytes ||
          cache_.size_bytes - each.position < wire::kExportedFrame) {
        co_return absl::DataLossError("the server returned a reference outside of its cache");
      }
      if (each.version != kNoVersion) {
        directory_.Add(file.name, each.block, {each.position, each.version});
      }
    }
    fetched += static_cast<uint32_t>(call.res.references.size());
    counts_.references += call.res.references.size();
    offset += uint64_t{call.args.count} * wire::kExportedBlock;
    count -= call.args.count;
  }
  co_return fetched;
}

}  // namespace dafs::client
