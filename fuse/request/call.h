// One request of the kernel while it is being answered, and the set of those that a worker has in
// hand. A call is answered once; it may be answered early, with EINTR, when its caller is killed:
// what the server then still says is dropped, and whatever it gave away is taken back.
// Belongs to the worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "client/state/identity.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/protocol.h"
#include "fuse/kernel/request_reader.h"
#include "runtime/loop.h"

namespace dafs::fuse {

class Call;

// The calls of one worker that are not answered yet, or answered early and still out.
class CallsInHand {
 public:
  void Add(Call* call);
  void Remove(Call* call);
  Call* Find(uint64_t unique) const;  // nullptr: not ours, or answered
  size_t size() const { return calls_.size(); }
  template <class F>
  void ForEach(F&& visit) const {
    for (const auto& [unique, call] : calls_) visit(*call);
  }

 private:
  absl::flat_hash_map<uint64_t, Call*> calls_;
};

class Call {
 public:
  // `body`: the request behind its header, in at most two pieces; copied, but for the data of a
  // WRITE, which stays in `lease` (empty for all other requests).
  struct Body {
    std::span<const std::byte> first;
    std::span<const std::byte> second = {};
  };
  Call(AnswerPath& path, CallsInHand& in_hand, const fuse_in_header& header, Body body,
       client::BufferLease lease);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const fuse_in_header& header() const { return header_; }
  uint64_t nodeid() const { return header_.nodeid; }
  RequestReader reader() const { return RequestReader(body_); }
  client::BufferLease& lease() { return lease_; }

  // Each answers, unless that was done. False: the kernel did not take this answer.
  bool Reply(std::initializer_list<KernelChannel::Bytes> parts);
  bool ReplyOk() { return ReplyErrno(0); }
  bool ReplyErrno(int error);
  bool ReplyStatus(const absl::Status& status);

  bool answered() const { return answered_; }
  // When the kernel had asked, at the latest.
  absl::Time arrived() const { return arrived_; }

  // A signal came for the caller. Not each one ends the call, see interrupts.h.
  bool interrupted = false;
  // Was there when Interrupts last looked.
  bool looked_at = false;
  // Set while any signal shall end what the call waits for. May resume the call.
  std::function<void()> on_interrupt;
  // Runs when the call ends, however long ago it was answered.
  std::function<void()> on_end;
  // The data of a WRITE that has no lease yet.
  std::vector<std::byte> parked;

 private:
  AnswerPath& path_;
  CallsInHand& in_hand_;
  const fuse_in_header header_;
  absl::InlinedVector<std::byte, 192> body_;  // most bodies are one structure and one short name
  client::BufferLease lease_;
  const absl::Time arrived_ = dat::Loop::Now();
  bool answered_ = false;
};

}  // namespace dafs::fuse
