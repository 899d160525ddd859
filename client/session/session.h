// A session: one connection with its slots and registered message buffers, and the exchange of
// requests for responses. It ends as a whole and is never repaired: its owner builds a new one
// (client/session/connection.h).
// Spec: 3.1.2 (attributes), 3.2.6 (flow control), 4.3 (chains), 5.2.1 (streams), 6.2; WIRE 3, 8,
// 11.
//
// Belongs to the thread of its loop. Only Create blocks, while the transport resolves its route.
// Sending and receiving do not allocate.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/exposure.h"
#include "client/session/back_control.h"
#include "client/session/call.h"
#include "client/session/channel.h"
#include "client/session/report.h"
#include "client/state/client.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "wire/dat/dat.h"

namespace dafs::client {

// The values that client and server agreed on. Spec: WIRE 11.3.
struct Negotiated {
  wire::SessionId session_id;
  wire::ClientId client_id;
  wire::ByteOrder order = wire::ByteOrder::kLittle;
  wire::AuthType auth = wire::AuthType::kNone;
  bool trusted = false;  // may register credentials (3.1.1.1.2)
  bool checksums = false;
  bool response_cache = false;        // the server caches responses to changes (5.2)
  bool rdma_read_channel = false;     // direct writes need an RDMA-read Channel
  bool back_control_channel = false;  // the server takes asynchronous batches
  uint32_t max_credentials = 0;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
};

// The maximum number of chain members.
inline constexpr size_t kMaxChain = 8;

class Session final : public dat::Pollable {
 public:
  // Resolves the route to `address`, makes the endpoint and buffers, and starts to connect.
  // Registers the buffers and those of `pool` (may be null) in the session's domain. Counts calls
  // in `totals`. All references must outlive the session.
  static absl::StatusOr<std::unique_ptr<Session>> Create(Client& client, dat::Loop& loop,
                                                         dat::Provider& provider,
                                                         const dat::Address& address,
                                                         BufferPool* pool, CallTotals& totals);
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
  dat::Task<absl::Status> Establish(absl::Time deadline);

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
  dat::Task<absl::Status> Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                              absl::Time deadline);

  // Sends DISCONNECT, then closes the connection in order. The session is dead afterwards.
  dat::Task<void> Disconnect(absl::Time deadline);

  // Ends the connection now. Before it returns, resumes every waiter with `why`; the server cannot
  // access a buffer any more.
  void Kill(absl::Status why);

  // Gives the connection up: the session dies as if lost, but after this has returned.
  void GiveUp(absl::Status why) { Fail(std::move(why)); }

  // `lost` runs once, when the session ended by itself, after all waiters were resumed.
  void OnLost(absl::AnyInvocable<void()> lost) { lost_ = std::move(lost); }

  bool alive() const { return state_ == State::kUp; }
  bool dead() const { return state_ == State::kDead; }  // false while it is still ending
  const absl::Status& why() const { return why_; }      // valid once dead
  const Negotiated& negotiated() const { return negotiated_; }
  const dat::Address& peer() const { return peer_; }
  // Whether direct writes are impossible: the server reads client memory only over an RDMA-read
  // Channel, which could not be bound; or WriteInline was called.
  bool must_write_inline() const {
    return write_inline_ || (negotiated_.rdma_read_channel && !read_channel_bound_);
  }
  // Call when the server answers RDMA_READ_CHANNEL_UNUSABLE (R61).
  void WriteInline() { write_inline_ = true; }
  // Whether asynchronous batches can be reported. The channel exists as long as the session.
  bool back_control_bound() const { return back_control_bound_; }
  // Sets the receiver of the server's directives on that channel; null: none.
  void OnDirective(BackControlHandler* handler) {
    if (back_control_ != nullptr) back_control_->OnDirective(handler);
  }
  // Whether the server accesses memory through a window for each request or batch item.
  bool by_windows() const { return windows_; }
  // Invalidates windows that no response invalidates. `then` runs when the server cannot use them
  // any more, perhaps before this returns. The end of the session invalidates them too: `then` does
  // not run if the session ends first or has ended.
  void EndWindows(const WindowContexts& windows, absl::AnyInvocable<void()> then);
  uint32_t nreq() const { return nreq_; }
  void Fill(SessionReport& report) const;

  bool Poll() override;
  dat::WaitHandle Arm() override;

 private:
  enum class State : uint8_t { kConnecting, kUp, kDying, kDead };
  struct Slot;  // in client/session/slots.h, as are the next two
  struct Exchange;
  struct SlotWaiter;

  Session(Client& client, dat::Loop& loop, BufferPool* pool, CallTotals& totals);

  // connect.cc
  absl::Status SetUp(dat::Provider& provider, const dat::Address& address);
  void ChooseWindows();
  dat::Task<absl::Status> Negotiate(absl::Time deadline);
  dat::Task<absl::Status> ConnectThenAuthenticate(absl::Time deadline);
  dat::Task<absl::Status> AskForExtensions(absl::Time deadline);
  template <class Args>
  void Propose(Args& args) const;
  template <class Res>
  absl::Status Agree(const Res& res);
  absl::Status Refused(wire::Proc proc, wire::DafsStatus status) const;
  Channel::Options ChannelOptions() const;
  wire::ConnectBindArgs BindArgs() const;
  dat::Task<void> BindReadChannel(absl::Time deadline);
  dat::Task<void> BindBackControl(absl::Time deadline);

  // session.cc
  dat::Task<absl::Status> RunTogether(wire::CredHandle cred, std::span<CallBase* const> chain,
                                      absl::Time deadline);
  dat::Task<absl::Status> RunOneByOne(wire::CredHandle cred, std::span<CallBase* const> chain,
                                      absl::Time deadline);
  absl::Status Post(wire::CredHandle cred, Exchange& exchange, std::span<const uint16_t> slots);
  absl::StatusOr<size_t> EncodeMember(wire::CredHandle cred, std::span<CallBase* const> chain,
                                      size_t index, Slot& slot);
  Xid XidOf(std::span<CallBase* const> chain, size_t index, uint16_t slot) const;
  void PostSoon();
  void PostAll();
  void AddExchange(Exchange& exchange);
  void Finish(Exchange& exchange, absl::Status status);

  // slots.cc
  uint32_t Capacity() const;
  bool CanTake(size_t count) const { return in_flight_ + count <= Capacity(); }
  void Take(std::span<uint16_t> slots);
  void FreeSlot(Slot& slot);
  void ServeSlotWaiters();

  // time.cc
  void Tick();
  void StartTicking();
  void Abandon(Exchange& exchange);
  void CheckSilence(absl::Time now);
  dat::Task<void> Probe();
  void MaybeShrink();
  dat::Task<void> Shrink();

  // receive.cc
  absl::Status PostReceive(size_t index);
  void Handle(const dat::Completion& completion);
  void HandleMessage(size_t index, uint32_t size_bytes);
  absl::StatusOr<Slot*> Match(const wire::ResponseHeader& header);
  void NoteRenewal(const Slot& slot, wire::DafsStatus status);
  absl::Status Deliver(Slot& slot, std::span<const std::byte> message,
                       const wire::ResponseHeader& header, bool damaged);
  void Fail(absl::Status why);
  void Die();
  void EndChannels();
  void ResumeAll();

  // windows.cc
  bool WaitsForWindow(size_t index, uint32_t size_bytes);
  absl::StatusOr<uint32_t> PostInvalidates(uint64_t cookie, const WindowContexts& windows);
  void WindowEnded(uint64_t cookie);
  void DropWindows(Slot& slot);
  void HolderWindowEnded(uint64_t cookie);

  Client& client_;
  dat::Loop& loop_;
  BufferPool* pool_;
  CallTotals& totals_;
  dat::Provider* provider_ = nullptr;  // borrowed
  dat::Address peer_;
  PrivateData private_data_;
  State state_ = State::kConnecting;
  absl::Status why_;
  Negotiated negotiated_;
  absl::AnyInvocable<void()> lost_;
  dat::Pending<bool>* connecting_ = nullptr;  // true: connected; false: dead
  dat::Pending<bool>* closing_ = nullptr;     // set when dead

  // Built in this order and destroyed in reverse.
  std::unique_ptr<dat::Domain> domain_;
  std::span<std::byte> memory_;  // the message buffers: sends, then receives
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  std::unique_ptr<Channel> read_channel_;  // null: none, or binding failed; also the next
  std::unique_ptr<BackControl> back_control_;
  bool read_channel_bound_ = false;
  bool back_control_bound_ = false;
  bool write_inline_ = false;
  std::array<dat::Completion, 32> completions_;
  // Whether each request has a window for its buffer; otherwise the reason why not.
  bool windows_ = false;
  std::string no_windows_;
  uint64_t windows_ended_ = 0;  // by the client
  // Callers that wait for their windows to be invalidated, by cookie. These cookies are above those
  // of slots.
  struct Holder {
    uint32_t ending = 0;
    absl::AnyInvocable<void()> then;
  };
  static constexpr uint64_t kNobody = ~uint64_t{0};
  uint64_t last_holder_ = uint64_t{1} << 32;
  absl::flat_hash_map<uint64_t, Holder> holders_;
  struct Response {
    size_t index = 0;  // of the receive
    uint32_t size_bytes = 0;
    Slot* slot = nullptr;  // it may wait for this slot's window; null: matches no request
  };
  std::deque<Response> waiting_;  // in order of arrival

  uint32_t send_bytes_ = 0;     // size of one send buffer
  uint32_t receive_bytes_ = 0;  // size of one receive buffer
  uint32_t request_bytes_ = 0;  // the present limit of a request
  bool checksums_due_ = false;  // on messages from now on (WIRE 6)
  uint32_t peer_version_ = 0;   // of the last response
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_;  // bit i: slot i is free
  struct Unposted {
    uint16_t slot = 0;
    uint32_t bytes = 0;
  };
  std::vector<Unposted> unposted_;  // encoded, to be posted in this order
  uint32_t nreq_ = 1;               // credits, WIRE 11.5
  uint32_t target_nreq_ = 1;        // the number of credits that the server aims at
  uint32_t in_flight_ = 0;          // taken slots
  bool starved_ = false;            // a request had to wait: request more credits
  bool shrinking_ = false;
  bool probing_ = false;
  Exchange* first_exchange_ = nullptr;  // the oldest
  Exchange* last_exchange_ = nullptr;
  SlotWaiter* first_waiter_ = nullptr;
  SlotWaiter* last_waiter_ = nullptr;
  absl::Time last_heard_;
  absl::Time last_noted_;
  absl::Time since_;
  dat::Loop::TimerId tick_ = 0;
  dat::Loop::TimerId post_timer_ = 0;
  bool post_with_turn_ = false;  // unposted requests are posted at the next Poll or Arm
};

}  // namespace dafs::client
