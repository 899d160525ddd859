// A session: one connection with its slots and registered message buffers, and the exchange of
// requests for responses. It ends as a whole and is never repaired: its owner builds a new one
// (client/session/session_keeper.h).
// Spec: 3.1.2 (attributes), 3.2.6 (flow control), 4.3 (chains), 5.2.1 (streams), 6.2; WIRE 3, 8,
// 11.
//
// This class begins and ends the session. Its parts do the rest: Negotiation, Exchanger and what
// that joins, OptionalChannels.
//
// Belongs to the thread of its loop. Only Create blocks, while the transport resolves its route.
// Sending and receiving do not allocate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/exchange/exchanger.h"
#include "client/exchange/link.h"
#include "client/exchange/negotiated.h"
#include "client/exchange/report.h"
#include "client/exchange/session_context.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/remote_access.h"
#include "client/session/login.h"
#include "client/session/optional_channels.h"
#include "client/state/client.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class Session final : public Pollable {
 public:
  // Resolves the route to `address`, makes the endpoint and buffers, and starts to connect.
  // Registers the buffers and those of `pool` (may be null) in the session's domain. Counts calls
  // in `totals`. `callbacks`: requests a Back-control Channel even if the client's options request
  // none. All references must outlive the session.
  static absl::StatusOr<std::unique_ptr<Session>> Create(Client& client, Loop& loop,
                                                         dat::Provider& provider,
                                                         const dat::Address& address,
                                                         BufferPool* pool, wire::CallTotals& totals,
                                                         bool callbacks = false);
  // Do not destroy it within a coroutine that it resumed, nor with requests outstanding: call Kill
  // first.
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Waits for the connection, negotiates and authenticates (CLIENT_CONNECT_AUTH, or CLIENT_CONNECT,
  // SECINFO and CLIENT_AUTH). Call once, before anything else. The session is dead after an
  // error. kUnavailable: not connected. kUnauthenticated: the server accepts none of the client's
  // methods. kFailedPrecondition: it speaks another version. kDataLoss: it sent a malformed
  // response.
  Task<absl::Status> Establish(absl::Time deadline);

  // Sends `chain` (1..kMaxChain calls) and waits for all responses. Takes slots for all members
  // before it posts the first, so that no other request is sent between them. With fewer credits
  // than members, sends the members one by one and passes filehandle and state id on explicitly;
  // members after a failure get CHAIN_BROKEN.
  // OK: each member has its `status` and its result.
  // kUnavailable: the session was lost, or a response was damaged. `sent` and `answered` show the
  // state of each member.
  // kDeadlineExceeded: the message names what was missing. Slots stay taken, and advertised buffers
  // quarantined, until the responses arrive or the session ends.
  // kFailedPrecondition: a request exceeds the negotiated size; nothing was sent.
  Task<absl::Status> Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                         absl::Time deadline) {
    return exchanger_.Run(cred, chain, deadline);
  }

  // Sends DISCONNECT, then closes the connection in order. The session is dead afterwards.
  Task<void> Disconnect(absl::Time deadline);

  // Ends the connection now. Before it returns, resumes every waiter with `why`; the server cannot
  // access a buffer any more.
  void Kill(absl::Status why);

  // Gives the connection up: the session dies as if lost, but after this has returned.
  void GiveUp(absl::Status why) { context_.link.Fail(std::move(why)); }

  // `lost` runs once, when the session ended by itself, after all waiters were resumed.
  void OnLost(absl::AnyInvocable<void()> lost) { lost_ = std::move(lost); }

  bool alive() const { return context_.link.state() == Link::State::kUp; }
  // False while it is still ending.
  bool dead() const { return context_.link.state() == Link::State::kDead; }
  const absl::Status& why() const { return context_.link.why(); }  // valid once dead
  const Negotiated& negotiated() const { return context_.negotiated; }
  const dat::Address& peer() const { return context_.peer; }
  // Whether direct writes are impossible: the server reads client memory only over an RDMA-read
  // Channel, which could not be bound; or WriteInline was called.
  bool must_write_inline() const {
    return write_inline_ || (negotiated().rdma_read_channel && !channels_.read_channel_bound());
  }
  // Call when the server answers RDMA_READ_CHANNEL_UNUSABLE (R61).
  void WriteInline() { write_inline_ = true; }
  // Whether asynchronous batches can be reported. The channel exists as long as the session.
  bool back_control_bound() const { return channels_.back_control_bound(); }
  // Sets the receiver of the server's directives on that channel; null: none.
  void OnDirective(BackControlHandler* handler) { channels_.OnDirective(handler); }
  // See OptionalChannels. Valid on a session that is alive.
  Task<absl::Status> BindReferences(absl::Time deadline, absl::AnyInvocable<void()> lost) {
    return channels_.BindReferences(deadline, std::move(lost));
  }
  ReferenceChannel* references() const { return channels_.references(); }
  // Whether the server accesses memory through a window for each request or batch item.
  bool by_windows() const { return exchanger_.windows().used(); }
  // Invalidates windows that no response invalidates. `then` runs when the server cannot use them
  // any more, perhaps before this returns. The end of the session invalidates them too: `then` does
  // not run if the session ends first or has ended.
  void EndWindows(const WindowContexts& windows, absl::AnyInvocable<void()> then) {
    exchanger_.windows().End(windows, std::move(then));
  }
  uint32_t nreq() const { return exchanger_.slots().credits().nreq(); }
  absl::Time last_heard() const { return exchanger_.last_heard(); }  // the last response
  void Fill(SessionReport& report) const;

  bool Poll() override;
  WaitHandle Arm() override;

 private:
  Session(Client& client, Loop& loop, const dat::Address& peer, BufferPool* pool,
          wire::CallTotals& totals, bool callbacks);
  absl::Status SetUp(dat::Provider& provider);
  void ChooseWindows();
  absl::Status Connect(dat::PendingEndpoint& pending, dat::Provider& provider);
  Task<absl::Status> Prepare(absl::Time deadline);
  void Handle(const dat::Completion& completion);
  void Die(const absl::Status& why);
  void StopUse();
  void ResumeAll();

  SessionContext context_;
  std::unique_ptr<dat::Domain> domain_;  // outlives the buffers and channels below
  std::string no_windows_;               // why requests have no memory windows
  Exchanger exchanger_;
  Login login_;
  OptionalChannels channels_;
  bool write_inline_ = false;
  absl::Time since_;  // when it was established
  absl::AnyInvocable<void()> lost_;
  std::array<dat::Completion, 32> completions_;
};

}  // namespace dafs::client
