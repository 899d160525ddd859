#include "fuse/call.h"

#include <cerrno>
#include <utility>

#include "fuse/errno.h"

namespace dafs::fuse {

void CallsInHand::Add(Call* call) { calls_[call->header().unique] = call; }

void CallsInHand::Remove(Call* call) {
  auto it = calls_.find(call->header().unique);
  if (it != calls_.end() && it->second == call) calls_.erase(it);
}

Call* CallsInHand::Find(uint64_t unique) const {
  auto it = calls_.find(unique);
  return it == calls_.end() || it->second->answered() ? nullptr : it->second;
}

Call::Call(KernelChannel& channel, CallsInHand& in_hand, const fuse_in_header& header,
           std::span<const std::byte> body, client::BufferLease lease)
    : channel_(channel),
      in_hand_(in_hand),
      header_(header),
      body_(body.begin(), body.end()),
      lease_(std::move(lease)) {
  in_hand_.Add(this);
}

Call::~Call() {
  // No request stays without an answer.
  ReplyErrno(EIO);
  in_hand_.Remove(this);
}

bool Call::Reply(std::initializer_list<KernelChannel::Bytes> parts) {
  if (std::exchange(answered_, true)) return false;
  return channel_.Reply(header_.unique, parts);
}

bool Call::ReplyErrno(int error) {
  if (std::exchange(answered_, true)) return false;
  return channel_.ReplyError(header_.unique, error);
}

bool Call::ReplyStatus(const absl::Status& status) { return ReplyErrno(ErrnoFromStatus(status)); }

}  // namespace dafs::fuse
