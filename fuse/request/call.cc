#include "fuse/request/call.h"

#include <cerrno>
#include <utility>

#include "fuse/kernel/errno.h"

namespace dafs::fuse {

void OutstandingCalls::Add(Call* call) { calls_[call->header().unique] = call; }

void OutstandingCalls::Remove(Call* call) {
  auto it = calls_.find(call->header().unique);
  if (it != calls_.end() && it->second == call) calls_.erase(it);
}

Call* OutstandingCalls::Find(uint64_t unique) const {
  auto it = calls_.find(unique);
  return it == calls_.end() || it->second->answered() ? nullptr : it->second;
}

void OutstandingCalls::Retract() {
  std::vector<uint64_t> waits;
  for (const auto& [unique, call] : calls_) {
    if (call->header().opcode != FUSE_SETLKW || call->answered() || call->interrupted) continue;
    call->interrupted = call->retracting = true;
    waits.push_back(unique);
  }
  // Not inside the loop, because this may end calls.
  for (const uint64_t unique : waits) {
    Call* const call = Find(unique);
    if (call == nullptr) continue;
    if (std::function<void()> end_wait = call->on_interrupt) end_wait();
  }
}

std::vector<std::vector<std::byte>> OutstandingCalls::TakeRetracted() {
  return std::exchange(retracted_, {});
}

Call::Call(AnswerPath& path, OutstandingCalls& outstanding, const fuse_in_header& header, Body body,
           client::BufferLease lease)
    : path_(path),
      outstanding_(outstanding),
      header_(header),
      in_flight_(outstanding.entries_, header.unique & ~kUniqueResent,
                 (header.unique & kUniqueResent) != 0),
      body_(body.first.begin(), body.first.end()),
      lease_(std::move(lease)) {
  body_.insert(body_.end(), body.second.begin(), body.second.end());
  outstanding_.Add(this);
}

Call::~Call() {
  // The kernel needs an answer to every request; ignored if the call was answered.
  ReplyErrno(EIO);
  outstanding_.Remove(this);
  if (on_end) on_end();
}

bool Call::Reply(std::initializer_list<KernelChannel::Bytes> parts) {
  if (std::exchange(answered_, true)) return false;
  const bool accepted = path_.Reply(header_.unique, parts);
  in_flight_.End();  // the kernel does not send it again
  return accepted;
}

bool Call::ReplyErrno(int error) {
  if (std::exchange(answered_, true)) return false;
  if (retracting && error == EINTR) {
    std::vector<std::byte>& request = outstanding_.retracted_.emplace_back();
    const KernelChannel::Bytes header = AsBytes(header_);
    request.assign(header.begin(), header.end());
    request.insert(request.end(), body_.begin(), body_.end());
    return true;
  }
  const bool accepted = path_.ReplyError(header_.unique, error);
  in_flight_.End();
  return accepted;
}

bool Call::ReplyStatus(const absl::Status& status) { return ReplyErrno(ErrnoFromStatus(status)); }

}  // namespace dafs::fuse
