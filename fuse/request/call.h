// One request of the kernel while it is being answered, and the set of a worker's outstanding
// requests. A call is answered once. If its caller is killed, it may be answered early, with EINTR.
// The server's reply is then dropped, and opens, locks and lookups that it granted are undone.
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
#include "client/exchange/in_flight.h"
#include "client/memory/buffer_pool.h"
#include "client/state/records/identity.h"
#include "fuse/kernel/answer_path.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/protocol.h"
#include "fuse/kernel/request_reader.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

class Call;

// The calls of one worker that have not ended: not answered yet, or answered early.
class OutstandingCalls {
 public:
  // Requests that change something are recorded there, for the case that this process is killed.
  // Call before the first call; `entries` outlives them.
  void RecordIn(client::InFlightEntries& entries) { entries_ = &entries; }
  void Add(Call* call);
  void Remove(Call* call);
  Call* Find(uint64_t unique) const;  // nullptr: another worker's, or answered
  size_t size() const { return calls_.size(); }
  template <class F>
  void ForEach(F&& visit) const {
    for (const auto& [unique, call] : calls_) visit(*call);
  }

  // Ends waits for locks without an answer: another program answers these requests, or this one
  // when they begin again (docs/restart.md). A call whose caller got a signal before is answered.
  void Retract();
  bool any_retracted() const { return !retracted_.empty(); }
  // The requests that have ended so, with their headers. Empties the list.
  std::vector<std::vector<std::byte>> TakeRetracted();

 private:
  friend class Call;
  client::InFlightEntries* entries_ = nullptr;
  absl::flat_hash_map<uint64_t, Call*> calls_;
  std::vector<std::vector<std::byte>> retracted_;
};

class Call {
 public:
  // `body` is the request after its header, in at most two pieces, and is copied. It excludes the
  // data of a WRITE, which stays in `lease` (empty for all other requests).
  struct Body {
    std::span<const std::byte> first;
    std::span<const std::byte> second = {};
  };
  Call(AnswerPath& path, OutstandingCalls& outstanding, const fuse_in_header& header, Body body,
       client::BufferLease lease);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const fuse_in_header& header() const { return header_; }
  uint64_t nodeid() const { return header_.nodeid; }
  RequestReader reader() const { return RequestReader(body_); }
  client::InFlightOperation& in_flight() { return in_flight_; }
  client::BufferLease& lease() { return lease_; }

  // Each answers the call if it was not answered before. Returns false if the kernel did not accept
  // this answer.
  bool Reply(std::initializer_list<KernelChannel::Bytes> parts);
  bool ReplyOk() { return ReplyErrno(0); }
  bool ReplyErrno(int error);
  bool ReplyStatus(const absl::Status& status);

  bool answered() const { return answered_; }
  // When the request was read; the kernel sent it no later.
  absl::Time arrived() const { return arrived_; }

  // The caller got a signal. Not every signal ends the call; see interrupts.h.
  bool interrupted = false;
  // EINTR is not sent: see OutstandingCalls::Retract.
  bool retracting = false;
  // Interrupts has seen the call in an earlier round.
  bool looked_at = false;
  // Set while any signal must end what the call waits for. Calling it may resume the call.
  std::function<void()> on_interrupt;
  // Runs when the call ends, which may be long after its answer.
  std::function<void()> on_end;
  // The data of a WRITE that has no lease yet.
  std::vector<std::byte> parked;

 private:
  AnswerPath& path_;
  OutstandingCalls& outstanding_;
  const fuse_in_header header_;
  client::InFlightOperation in_flight_;
  absl::InlinedVector<std::byte, 192> body_;  // most bodies are one structure and one short name
  client::BufferLease lease_;
  const absl::Time arrived_ = Loop::Now();
  bool answered_ = false;
};

}  // namespace dafs::fuse
