#include "client/session/reference_channel.h"

#include <utility>

#include "absl/memory/memory.h"
#include "runtime/status_macros.h"

namespace dafs::client {

absl::StatusOr<std::unique_ptr<ReferenceChannel>> ReferenceChannel::Connect(
    Loop& loop, dat::Provider& provider, dat::Domain& domain, const Options& options) {
  auto channel = absl::WrapUnique(new ReferenceChannel(loop));
  channel->frames_.resize(kMostReads * kFrameStride);
  ASSIGN_OR_RETURN(channel->frames_region_, domain.Register(channel->frames_, dat::Access::kLocal));
  RETURN_IF_ERROR(channel->SetUp(provider, domain, options));
  return channel;
}

ReferenceChannel::ReferenceChannel(Loop& loop)
    : Channel(loop, {.use = wire::ChannelUse::kReferences, .reads = kMostReads}) {
  for (uint32_t i = kMostReads; i-- > 0;) free_.push_back(i);
}

ReferenceChannel::~ReferenceChannel() {
  Kill(absl::CancelledError("the reference channel is closed"));  // before its frames
  OnEnded();
}

ReferenceChannel::Read::Read(ReferenceChannel& channel, dat::RemoteBuffer from)
    : channel_(&channel), index_(channel.free_.back()) {
  channel.free_.pop_back();
  channel.reads_[index_] = this;
  const std::span<std::byte> into = channel.FrameAt(index_);
  channel.PostRead(index_, {into.data(), wire::kExportedFrame, channel.frames_region_.get()}, from);
}

ReferenceChannel::Read::~Read() {
  if (channel_ == nullptr) return;
  channel_->reads_[index_] = nullptr;
  channel_->free_.push_back(index_);
}

void ReferenceChannel::OnRead(uint64_t index, bool came) {
  if (index < kMostReads && reads_[index] != nullptr) reads_[index]->done_.Set(came);
}

void ReferenceChannel::OnEnded() {
  for (Read*& each : reads_) {
    Read* const read = std::exchange(each, nullptr);
    if (read == nullptr) continue;
    read->channel_ = nullptr;
    if (!read->done_.is_set()) read->done_.Set(false);
  }
}

}  // namespace dafs::client
