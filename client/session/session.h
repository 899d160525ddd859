// A session: one connection, its slots, its registered message buffers, and the exchange of
// requests for responses on it. It dies as a whole and is never repaired: its owner builds a new
// one (client/session/connection.h).
// Spec: 3.1.2 (attributes), 3.2.6 (flow control), 4.3 (chains), 5.2.1 (streams), 6.2; WIRE 3,
// 8, 11.
//
// Belongs to the thread of its loop. Nothing blocks but Create, by as long as the transport needs
// to find its route. Sending and receiving allocate nothing.
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

// What client and server agreed on. Spec: WIRE 11.3.
struct Negotiated {
  wire::SessionId session_id;
  wire::ClientId client_id;
  wire::ByteOrder order = wire::ByteOrder::kLittle;
  wire::AuthType auth = wire::AuthType::kNone;
  bool trusted = false;  // may register credentials (3.1.1.1.2)
  bool checksums = false;
  bool response_cache = false;        // the server keeps what it answered to changes (5.2)
  bool rdma_read_channel = false;     // direct writes need the RDMA-read Channel
  bool back_control_channel = false;  // the server takes asynchronous batches
  uint32_t max_credentials = 0;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
};

// The most members of one chain.
inline constexpr size_t kMaxChain = 8;

class Session final : public dat::Pollable {
 public:
  // Finds the route to `address`, makes endpoint and buffers, registers them and those of `pool`
  // (may be null) in the session's domain, and starts to connect. `totals` counts what is done.
  // All outlive the session.
  static absl::StatusOr<std::unique_ptr<Session>> Create(Client& client, dat::Loop& loop,
                                                         dat::Provider& provider,
                                                         const dat::Address& address,
                                                         BufferPool* pool, CallTotals& totals);
  // Not from within a coroutine that the session resumed. No exchange is out: Kill it first.
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Waits for the connection, negotiates and authenticates (CLIENT_CONNECT_AUTH, or
  // CLIENT_CONNECT, SECINFO and CLIENT_AUTH). Once, before anything else. kUnavailable: not
  // connected; kUnauthenticated: the server takes none of our methods; kFailedPrecondition: it
  // speaks another version; kDataLoss: it answered nonsense. The session is dead after an error.
  dat::Task<absl::Status> Establish(absl::Time deadline);

  // Sends `chain` (1..kMaxChain calls) and waits for all answers. Slots for all are taken before
  // the first is posted, so that nothing comes between them; with fewer credits than members they
  // go out one by one, filehandle and state id passed on explicitly, and those behind a failure
  // get CHAIN_BROKEN. OK: each member has its answer in `status` and its result.
  // kUnavailable: the session was lost, or an answer was damaged; `sent` and `answered` of each
  // member tell how far it came. kDeadlineExceeded: says what was waited for; the slots stay
  // taken, and advertised buffers quarantined, until the answers come or the session ends.
  // kFailedPrecondition: a request does not fit the negotiated size; nothing was sent.
  dat::Task<absl::Status> Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                              absl::Time deadline);

  // DISCONNECT, then an orderly close. The session is dead afterwards.
  dat::Task<void> Disconnect(absl::Time deadline);

  // Ends the connection now: before this returns, everything that is out or waits is resumed with
  // `why`, and the server can reach no buffer any more.
  void Kill(absl::Status why);

  // Gives the connection up: the session dies as if it had been lost, but not before this returns.
  void GiveUp(absl::Status why) { Fail(std::move(why)); }

  // Runs once, when the session died by itself, after everything was resumed.
  void OnLost(absl::AnyInvocable<void()> lost) { lost_ = std::move(lost); }

  bool alive() const { return state_ == State::kUp; }
  bool dead() const { return state_ == State::kDead; }  // and was not merely told to die
  const absl::Status& why() const { return why_; }      // once it is dead
  const Negotiated& negotiated() const { return negotiated_; }
  const dat::Address& peer() const { return peer_; }
  // The server reads client memory by a channel only, and that could not be bound; or so it says.
  bool must_write_inline() const {
    return write_inline_ || (negotiated_.rdma_read_channel && !read_channel_bound_);
  }
  // It says so: RDMA_READ_CHANNEL_UNUSABLE (R61).
  void WriteInline() { write_inline_ = true; }
  // Asynchronous batches can be reported. The channel is there as long as the session is.
  bool back_control_bound() const { return back_control_bound_; }
  // Who hears what the server has to say by that channel; null: nobody.
  void OnDirective(BackControlHandler* handler) {
    if (back_control_ != nullptr) back_control_->OnDirective(handler);
  }
  // Whether the server reaches memory by a window for each request, or item of a batch.
  bool by_windows() const { return windows_; }
  // Ends windows that were not bound for an answer; `then` runs once the server can reach nothing
  // by them, perhaps before this returns. Not after the end of the session, which ends them too.
  void EndWindows(const WindowContexts& windows, absl::AnyInvocable<void()> then);
  uint32_t nreq() const { return nreq_; }
  void Fill(SessionReport& report) const;

  bool Poll() override;
  dat::WaitHandle Arm() override;

 private:
  enum class State : uint8_t { kConnecting, kUp, kDying, kDead };
  struct Slot;  // client/session/slots.h, so too below
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

  // In the order they must be built; destroyed the other way round.
  std::unique_ptr<dat::Domain> domain_;
  std::span<std::byte> memory_;  // the message buffers: sends, then receives
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  std::unique_ptr<Channel> read_channel_;  // null: none, or it could not be bound; so too below
  std::unique_ptr<BackControl> back_control_;
  bool read_channel_bound_ = false;
  bool back_control_bound_ = false;
  bool write_inline_ = false;
  std::array<dat::Completion, 32> completions_;
  // Whether each request has a window for its buffer; else why there are none.
  bool windows_ = false;
  std::string no_windows_;
  uint64_t windows_ended_ = 0;  // by us
  // Who waits for the end of windows of his, by the cookie of that: above those of slots.
  struct Holder {
    uint32_t ending = 0;
    absl::AnyInvocable<void()> then;
  };
  static constexpr uint64_t kNobody = ~uint64_t{0};
  uint64_t last_holder_ = uint64_t{1} << 32;
  absl::flat_hash_map<uint64_t, Holder> holders_;
  struct Response {
    size_t index = 0;  // of its receive
    uint32_t size_bytes = 0;
    Slot* slot = nullptr;  // whose window it may wait for; null: of no request
  };
  std::deque<Response> waiting_;  // in the order they came

  uint32_t send_bytes_ = 0;     // of one send buffer
  uint32_t receive_bytes_ = 0;  // of one receive buffer
  uint32_t request_bytes_ = 0;  // the most a request may be now
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
  uint32_t target_nreq_ = 1;        // what the server aims at
  uint32_t in_flight_ = 0;          // taken slots
  bool starved_ = false;            // somebody had to wait: ask for more
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
  bool post_with_turn_ = false;  // what is unposted leaves at the next Poll or Arm
};

}  // namespace dafs::client
