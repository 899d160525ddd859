// The requester of one direction: sends calls and matches replies, within the credits. Offers
// memory to the peer in chunks, retries after some errors, and chooses the version. Spec:
// RPCRDMA2 7.2.3, 7.2.4, 8; RFC 8166, 3.3 (credits), 3.4 and 3.5 (chunks). One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/loop/loop.h"
#include "wire/rpcrdma/call.h"
#include "wire/rpcrdma/link.h"

namespace dafs::rpcrdma {

class Requester {
 public:
  // `loop` and `link` outlive it. The channel exists.
  static absl::StatusOr<std::unique_ptr<Requester>> Create(Loop& loop, Link& link);
  ~Requester();

  using Done = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;
  // Sends the call, or queues it until there are credits. Calls `done` once, perhaps before it
  // returns. Errors: kDeadlineExceeded: no reply in time (the connection has ended); kUnavailable:
  // the connection was lost; kFailedPrecondition: the peer refuses it, for the reason in the
  // message; kResourceExhausted: the message or reply is longer than the memory for it; kDataLoss:
  // the reply cannot be decoded; kUnimplemented: no common version.
  void Start(Call call, Done done);
  // Sends the calls that wait, once the connection is up.
  void SendQueued();

  // Messages for the requester. `payload` is the RPC message after `header`.
  void OnReply(const Header& header, std::span<const std::byte> payload,
               std::optional<uint32_t> invalidated);
  void OnError(const Header& header);
  // The reply with this XID cannot be decoded.
  void OnBadReply(uint32_t xid, const std::string& why);
  // Fails all calls. The connection has ended, so no peer can reach their memory.
  void FailAll(const absl::Status& why);

  bool Knows(uint32_t xid) const { return calls_.contains(xid); }
  uint32_t granted() const { return granted_; }  // 0: not known yet
  uint32_t outstanding() const { return static_cast<uint32_t>(calls_.size()); }
  // The range of versions in the server's refusal of ours: {low, high}.
  const std::optional<ErrorBody>& refused_version() const { return refused_version_; }

 private:
  // How a call is sent. Each error that permits a retry changes this, so retries end.
  struct Form {
    bool one_long_message = false;  // a position-zero chunk, and no other read chunk
    bool no_write_chunks = false;
    uint32_t reply_bytes = 0;  // of a reply chunk at least; 0: as the call says
  };
  struct Outstanding {
    Call call;
    Done done;
    Form form;
    Loop::TimerId timer = 0;
    size_t slot = 0;
    Header header;                  // as sent
    std::vector<uint32_t> windows;  // bound for it and not ended
    absl::StatusOr<Reply> result = Reply();
    size_t ending = 0;  // windows that are being ended
  };
  struct Waiting {
    Call call;
    Done done;
    absl::Time deadline;
  };

  Requester(Loop& loop, Link& link) : loop_(loop), link_(link) {}

  void Send(uint32_t xid);
  absl::Status Build(Outstanding& call, Bytes* payload);
  absl::Status AddReplyMemory(Outstanding& call);
  absl::Status AddArguments(Outstanding& call, bool all);
  absl::Status MakeLong(Outstanding& call, const Bytes& message);
  absl::StatusOr<Segment> Expose(Outstanding& call, const dat::Segment& part, dat::Access access);
  void ChooseInvalidated(Outstanding& call) const;
  absl::Status CheckBackward(const Outstanding& call) const;

  absl::StatusOr<Reply> TakeReply(const Outstanding& call, const Header& header,
                                  std::span<const std::byte> payload) const;
  bool TakeCredits(const Header& header);
  void ChooseVersion(uint32_t xid, const ErrorBody& error);
  // How to send the call again after `error`; an error: not at all.
  absl::Status NextForm(const Outstanding& call, const ErrorBody& error, Form* next) const;
  void Again(uint32_t xid);

  // Ends the windows of the call, then reports its result.
  void Finish(uint32_t xid, absl::StatusOr<Reply> result);
  void Report(uint32_t xid);
  void EndWindows(uint32_t xid);
  void OnTimeout(uint32_t xid);
  uint32_t Allowed() const;

  Loop& loop_;
  Link& link_;
  // Part N for calls, part N + credits for replies; of slot N.
  std::optional<Slab> long_messages_;
  std::vector<size_t> free_slots_;
  std::deque<Waiting> waiting_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Outstanding>> calls_;  // by XID
  uint32_t granted_ = 0;
  uint64_t stray_replies_ = 0;
  std::optional<ErrorBody> refused_version_;
  bool connected_ = false;
  absl::Status ended_;  // not OK: the connection has ended
};

}  // namespace dafs::rpcrdma
