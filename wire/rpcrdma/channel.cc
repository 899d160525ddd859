#include "wire/rpcrdma/channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::rpcrdma {

absl::StatusOr<Slab> Slab::Create(dat::Domain& domain, size_t parts, uint32_t part_bytes,
                                  dat::Access access) {
  Slab slab;
  const size_t bytes = parts * part_bytes;
  slab.memory_ = std::make_unique<std::byte[]>(bytes);
  slab.part_bytes_ = part_bytes;
  ASSIGN_OR_RETURN(slab.region_, domain.Register({slab.memory_.get(), bytes}, access));
  return slab;
}

absl::StatusOr<std::unique_ptr<Channel>> Channel::Create(dat::PendingEndpoint& pending,
                                                         const Sizes& sizes) {
  std::unique_ptr<Channel> channel(new Channel(sizes));
  ASSIGN_OR_RETURN(channel->domain_, pending.NewDomain());
  dat::Domain& domain = *channel->domain_;
  ASSIGN_OR_RETURN(channel->received_,
                   Slab::Create(domain, sizes.receives, sizes.message_bytes, dat::Access::kLocal));
  ASSIGN_OR_RETURN(channel->sent_,
                   Slab::Create(domain, sizes.sends, sizes.message_bytes, dat::Access::kLocal));
  dat::EndpointOptions options;
  options.max_receives = sizes.receives;
  options.max_sends = sizes.sends + sizes.rdma_operations;
  options.max_windows = absl::IsUnimplemented(domain.windows()) ? 0 : sizes.windows;
  ASSIGN_OR_RETURN(channel->endpoint_, pending.CreateEndpoint(domain, options));
  for (size_t i = 0; i < sizes.receives; ++i) RETURN_IF_ERROR(channel->PostReceive(i));
  channel->on_sent_.resize(sizes.sends);
  for (size_t i = 0; i < sizes.sends; ++i) channel->free_sends_.push_back(i);
  return channel;
}

absl::Status Channel::PostReceive(size_t index) {
  return endpoint_->PostReceive(index, received_->Part(index, sizes_.message_bytes));
}

uint64_t Channel::Remember(Done done) {
  operations_.emplace(++next_operation_, std::move(done));
  return next_operation_;
}

absl::Status Channel::Send(std::span<const std::byte> header, std::span<const std::byte> payload,
                           std::optional<uint32_t> invalidate, Done sent) {
  const size_t bytes = header.size() + payload.size();
  if (bytes > sizes_.message_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("send ", bytes, " bytes: a message has at most ", sizes_.message_bytes));
  }
  if (free_sends_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the peer does not take the ", sizes_.sends, " messages that wait"));
  }
  const size_t index = free_sends_.back();
  const dat::Segment segment = sent_->Part(index, static_cast<uint32_t>(bytes));
  std::ranges::copy(header, segment.data);
  std::ranges::copy(payload, segment.data + header.size());
  RETURN_IF_ERROR(endpoint_->PostSend(index, {&segment, 1}, {.invalidate_context = invalidate}));
  free_sends_.pop_back();
  on_sent_[index] = std::move(sent);
  endpoint_->Flush();
  return absl::OkStatus();
}

absl::Status Channel::Read(dat::Segment into, const Segment& from, Done done) {
  into.size_bytes = from.length;
  const uint64_t cookie = Remember(std::move(done));
  absl::Status status = endpoint_->PostRdmaRead(cookie, {&into, 1}, {from.offset, from.handle});
  if (!status.ok()) operations_.erase(cookie);
  return status;
}

absl::Status Channel::Write(const dat::Segment& from, const Segment& to) {
  return endpoint_->PostRdmaWrite(0, {&from, 1}, {to.offset, to.handle}, /*signaled=*/false);
}

absl::Status Channel::EndWindow(uint32_t context, Done done) {
  const uint64_t cookie = Remember(std::move(done));
  absl::Status status = endpoint_->PostInvalidate(cookie, context);
  if (status.ok()) return status;
  Done ended = std::move(operations_.extract(cookie).mapped());
  if (!absl::IsNotFound(status)) return status;
  ended(absl::OkStatus());
  return absl::OkStatus();
}

void Channel::Finish(const dat::Completion& completion) {
  const auto at = operations_.find(completion.cookie);
  if (at == operations_.end()) return;  // an unsignaled write that was flushed
  Done done = std::move(at->second);
  operations_.erase(at);
  done(completion.status);
}

void Channel::Handle(const dat::Completion& completion, Receiver& receiver) {
  switch (completion.event) {
    case dat::Event::kConnected:
      return receiver.OnConnected();
    case dat::Event::kReceive:
      if (!completion.status.ok()) return;  // flushed; kDisconnected follows
      receiver.OnMessage({received_->Part(completion.cookie, 0).data, completion.size_bytes},
                         completion.invalidated_context);
      // An error here has ended the connection, and kDisconnected follows.
      (void)PostReceive(completion.cookie);
      return;
    case dat::Event::kSend: {
      Done sent = std::move(on_sent_[completion.cookie]);
      on_sent_[completion.cookie] = nullptr;
      free_sends_.push_back(completion.cookie);
      if (sent != nullptr) sent(completion.status);
      return;
    }
    case dat::Event::kRdmaRead:
    case dat::Event::kInvalidated:
      return Finish(completion);
    case dat::Event::kRdmaWrite:
      return;
    case dat::Event::kDisconnected:
      return receiver.OnDisconnected(completion.status);
  }
}

bool Channel::Poll(Receiver& receiver) {
  dat::Completion completions[16];
  const size_t count = endpoint_->Poll(completions);
  for (const dat::Completion& completion : std::span(completions, count)) {
    Handle(completion, receiver);
  }
  return count > 0;
}

}  // namespace dafs::rpcrdma
