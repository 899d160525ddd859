// One session, from the connection of its Operation Channel to the end.
// Spec: 3.1 (sessions), 3.2.6 (flow control), 6.2; WIRE 9.2, 11.
//
// Belongs to its worker's thread. The session checks requests as they arrive and begins them in
// that order. The members of a chain run one after another. Any other request may overtake one that
// waits. Credits bound what a client makes the server hold: each costs a receive buffer, a send
// buffer and a Call. A fault of the peer ends this session only.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/loop.h"
#include "server/clients/client_table.h"
#include "server/clients/options.h"
#include "server/clients/response_cache.h"
#include "server/session/call.h"
#include "server/session/chain.h"
#include "server/session/credit.h"
#include "server/session/message_buffers.h"
#include "server/session/pending_work.h"
#include "server/session/pool.h"
#include "server/session/procedure.h"
#include "server/session/refusal_log.h"
#include "server/session/streams.h"
#include "server/session/table.h"
#include "server/store/objects/recent_stats.h"

namespace dafs::server {

class BackControl;
class Worker;

Peer PeerOf(const dat::Address& address);

// Shared by the sessions of a server. Borrowed; all of it is thread-safe and outlives them.
struct Shared {
  const ServerOptions* options = nullptr;
  const ProcedureTable* procedures = nullptr;
  Store* store = nullptr;
  Pool* pool = nullptr;
  Pool* chores = nullptr;  // housekeeping of the server
  ExportPools* export_pools = nullptr;
  ClientTable* clients = nullptr;
  SessionTable* sessions = nullptr;
  ResponseCache* responses = nullptr;
  CreditBudget* budget = nullptr;
  RefusalLog* refusals = nullptr;
  const std::vector<std::unique_ptr<Worker>>* workers = nullptr;  // complete once a worker serves
  dat::CpuLatency* cpu_latency = nullptr;                         // null: none
};

class Session final : public dat::Pollable {
 public:
  // The number of RDMA operations that a session may have posted, besides its responses.
  static constexpr uint32_t kRdmaCredits = 64;
  static dat::EndpointOptions EndpointOptions(const ServerOptions& options);

  // Posts the first receive and accepts the connection. `slab` is the worker's direct memory in
  // this domain. If the start fails, the session ends as if the peer had closed it.
  Session(Worker& worker, const Shared& shared, dat::Domain& domain, const dat::Region& slab,
          std::unique_ptr<dat::Endpoint> endpoint, SessionTable::Place place);
  ~Session() override;

  bool Poll() override;
  dat::WaitHandle Arm() override;

  // Ends the session now, for a reason of the server (it stops, or the client was superseded).
  void Abort(absl::Status why);
  // Ends the session if a later instance of its client has connected. That instance may query the
  // outcome of the old instance's requests.
  void EndIfSuperseded();

  // --- For procedures ----------------------------------------------------------------------------

  const Shared& shared() const { return shared_; }
  Store& store() { return *shared_.store; }
  dat::Loop& loop();
  Pool& pool() { return *shared_.pool; }
  // The pool of the export that has this file, if its file system may hang: all access to the file
  // runs there. Null for other exports.
  Pool* OwnPool(const wire::FsHandle& fshandle) {
    const std::optional<size_t> index = store().ExportThatMayHang(fshandle);
    return index ? &shared_.export_pools->Of(*index) : nullptr;
  }
  // Returns true if a read with this cache_hint leaves the access time unchanged.
  bool KeepsAtime(uint32_t cache_hint) const {
    return (cache_hint & wire::kCacheHintKeepAtime) != 0 && extends(wire::kExtensionReadKeepsAtime);
  }
  // `DirectLease lease = co_await session.AcquireDirect(n)`: see DirectBuffers::Acquire. Set
  // `may_hang` if the export of the file may hang: its file system is accessed while the memory is
  // held.
  DirectAcquirer AcquireDirect(size_t size_bytes, bool may_hang = false);
  const dat::Region& slab() const { return slab_; }
  // The channel for RDMA reads of client memory: the RDMA-read Channel if one was agreed on,
  // otherwise the session itself. Null: the agreed channel is not bound. Valid until the next
  // suspension.
  Session* read_channel();
  // The Back-control Channel; null if none is bound. Valid until the next suspension.
  Session* back_channel() const { return back_channel_; }
  // Set if this is a bound Back-control Channel.
  BackControl* back_control() const { return back_control_.get(); }
  // The batches of this session. Null until a procedure sets them.
  PendingWork* pending_work() { return pending_work_.get(); }
  void set_pending_work(std::unique_ptr<PendingWork> work) { pending_work_ = std::move(work); }
  dat::Endpoint& endpoint() { return *endpoint_; }
  bool checksums() const { return negotiated_.use_checksums; }
  const dat::Domain& domain() const { return domain_; }
  const wire::ClientConnectRes& negotiated() const { return negotiated_; }
  wire::ByteOrder order() const { return *order_; }  // valid after the first request
  bool busy() const { return executing_ > 0; }       // executes requests, batches excluded
  // For BackControl. TakeSendBuffer returns null if no buffer is free. SendMessage sends the
  // message in `outgoing`. Zero bytes mean that encoding failed, and the session ends.
  std::unique_ptr<Outgoing> TakeSendBuffer() { return send_buffers_.Take(); }
  void SendMessage(std::unique_ptr<Outgoing> outgoing, size_t size_bytes);
  // Logs that the client was refused, and the remedy. RefusalLog limits the lines for one host and
  // `kind`.
  void SayRefused(const char* kind, absl::string_view why);
  // Logs that exports refused the client because its port is not reserved. Limited likewise.
  void SayWrongPort();
  // Destroys the session if it has ended and no work of it runs any more.
  void MaybeForget();

  // `co_await session.RdmaCredits(n)`: waits for room for n RDMA operations, n <= kRdmaCredits, in
  // order of arrival. Each credit returns with the completion of its operation, or with the
  // response (Outgoing::rdma_credits).
  class CreditWaiter {
   public:
    CreditWaiter(Session& session, uint32_t count) : session_(session), count_(count) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> waiter);
    void await_resume() const noexcept {}

   private:
    friend class Session;
    Session& session_;
    uint32_t count_;
    std::coroutine_handle<> waiter_;
  };
  CreditWaiter RdmaCredits(uint32_t count) { return CreditWaiter(*this, count); }
  void ReturnRdmaCredits(uint32_t count);
  // `count` more RDMA operations wait for the peer. Those of a response complete when its send
  // does. If no RDMA operation of the session completes for ServerOptions::transfer_timeout, or up
  // to twice that, the session ends: the operations hold memory that other sessions need.
  void Moving(uint32_t count);
  // Work was posted outside of Poll: the loop must poll the endpoint before it sleeps.
  void Posted();

  // RDMA operations with completions, awaited together. Each is posted with the address of an
  // RdmaWork as its cookie. Lives in the awaiting coroutine.
  struct RdmaWork {
    uint32_t pending = 0;
    bool failed = false;
    std::coroutine_handle<> waiter;
    bool await_ready() const noexcept { return pending == 0; }
    void await_suspend(std::coroutine_handle<> w) noexcept { waiter = w; }
    bool await_resume() const noexcept { return !failed; }  // true if all succeeded
  };

  // connect.cc, channels.cc: the procedures that create, authenticate, extend and end a session.
  void Connect(Call& call);
  void ConnectAuth(Call& call);
  void ClientAuth(Call& call);
  void ConnectBind(Call& call);
  void Disconnect(Call& call);
  void Secinfo(Call& call);
  void ServerAuth(Call& call);
  void ReleaseCred(Call& call);
  dat::Task<void> RegisterCred(Call& call);
  // EXTENSIONS: see wire/messages/posix.h.
  wire::DafsStatus Extend(const Caller& caller, const wire::ExtensionsArgs& args,
                          uint64_t* granted);

  // server/procedures/response_cache.cc
  void CheckResponse(Call& call);
  void FetchResponse(Call& call);
  void DiscardResponses(Call& call);

 private:
  friend class Call;

  // A posted receive, and the request that arrived in it.
  struct Receive : Call {
    using Call::Call;
    std::unique_ptr<MessageBuffer> buffer;
    size_t index = 0;         // in receives_
    bool of_connect = false;  // the first; released once the session is open
  };

  // The cookie of a post, which its completion returns.
  template <class T>
  static uint64_t CookieOf(T* object) {
    return reinterpret_cast<uintptr_t>(object);
  }
  template <class T>
  static T* FromCookie(uint64_t cookie) {
    return reinterpret_cast<T*>(static_cast<uintptr_t>(cookie));
  }

  // session.cc
  void OnCompletion(const dat::Completion& completion);
  void Moved(uint32_t count);
  void WatchMoves();
  void OnDisconnected(const absl::Status& why);
  void End(absl::Status why);

  // requests.cc
  void OnReceive(Receive& receive, size_t size_bytes);
  wire::RequestVerdict Check(std::span<const std::byte> message);
  bool extends(uint64_t extension) const {
    return (extensions_.load(std::memory_order_relaxed) & extension) != 0;
  }
  bool CheckStream(Call& call);
  void Enqueue(Call& call);
  void RunReady();
  void FlushAnswers();
  void Begin(Call& call);
  Pool* OwnPool(const Call& call);
  Pool* OwnPoolOfPath(const Call& call);
  void SetCaller(Call& call);
  // Returns true if the response to `request` goes into the Response Cache.
  static bool IsRemembered(const wire::RequestVerdict& request);

  // responses.cc
  uint16_t TargetNreq(const Call& call);
  void Complete(Call& call, wire::DafsStatus status, size_t response_bytes);
  void Remember(const Call& call, wire::DafsStatus status, std::span<const std::byte> response);
  bool PrepareReceives(Receive& receive);
  absl::Status AddReceive(size_t size_bytes);
  absl::Status PostReceive(Receive& receive);
  void DropReceive(Receive& receive);
  void OnSent(std::unique_ptr<Outgoing> outgoing);
  void Park(std::unique_ptr<Outgoing> outgoing);

  // server/procedures/response_cache.cc
  wire::DafsStatus FindResponses(const wire::SessionId& session_id, wire::ByteOrder order,
                                 std::shared_ptr<SessionCache>* cache) const;

  // channels.cc
  bool GrantsReadChannel(bool asked) const;
  void BecomeChannel(const wire::ConnectBindArgs& args, Session& owner);
  uint32_t OpenBackControl(const wire::ConnectBindArgs& args, uint32_t request_bytes);
  bool TakeDirectiveAnswer(Receive& receive);
  wire::DafsStatus MayBind(const wire::ConnectBindArgs& args, const Session& owner) const;
  wire::DafsStatus ElsewhereStatus() const;
  void Unbind();
  const char* ChannelName() const;

  // connect.cc
  wire::DafsStatus MayUse(wire::AuthType method) const;
  wire::DafsStatus Open(const wire::ClientConnectArgs& args);
  std::shared_ptr<Client> ConnectClient(const wire::ClientConnectArgs& args);
  wire::DafsStatus Confirm(wire::AuthType method);
  void SayInUse(const PeerAddress& holder);
  void Authenticated(wire::AuthType method);
  void SayRefused(const std::string& client_id_string, const char* kind, absl::string_view why);
  bool HasWrongPort() const;
  void SayNotAdmitted(const std::string& client_id_string);
  void Unopen();
  CacheOwner AsCacheOwner() const;

  Worker& worker_;
  const Shared shared_;
  dat::Domain& domain_;
  const dat::Region& slab_;
  const SessionTable::Place place_;
  const Peer peer_;
  const std::string peer_name_;

  // Negotiated by the connect exchange; session_id is zero before.
  wire::ClientConnectRes negotiated_;
  std::optional<wire::ByteOrder> order_;
  std::shared_ptr<Client> client_;
  std::shared_ptr<SessionCache> cache_;  // null without a Response Cache
  bool authenticated_ = false;
  bool trusted_ = false;
  // The extensions agreed on (wire::kExtension...). A thread of an export's pool may set them;
  // publishes nothing but itself.
  std::atomic<uint64_t> extensions_{0};
  wire::AuthType auth_type_ = wire::AuthType::kNone;
  Session* bound_to_ = nullptr;  // the session that this channel belongs to
  wire::ChannelUse bound_as_ = wire::ChannelUse::kRdmaRead;
  Session* read_channel_ = nullptr;  // the channels of this session
  Session* back_channel_ = nullptr;
  size_t channel_bytes_ = 0;  // reserved for the messages of a Back-control Channel
  std::unique_ptr<BackControl> back_control_;
  std::unique_ptr<PendingWork> pending_work_;

  wire::ChainState chain_state_;
  Chains chains_;
  Streams streams_;
  std::optional<Credit> credit_;  // set by the connect exchange
  uint16_t target_ = 1;           // target_nreq of the response being built

  std::vector<std::unique_ptr<Receive>> receives_;
  std::vector<std::unique_ptr<Receive>> dropped_;  // freed after the call stack has unwound
  DirectShare direct_share_;
  DirectShare hanging_share_{/*may_hang=*/true};
  SendBuffers send_buffers_;
  std::vector<std::unique_ptr<Outgoing>> parked_;  // unsent; kept until the transport has ended
  std::deque<Call*> ready_;
  bool running_ready_ = false;
  bool holds_answers_ = false;                      // responses wait to leave together
  absl::Time held_since_ = absl::InfiniteFuture();  // when the first of their requests began
  uint32_t executing_ = 0;                          // calls begun and not complete

  uint32_t rdma_credits_ = kRdmaCredits;
  std::deque<CreditWaiter*> credit_waiters_;

  std::unique_ptr<dat::Endpoint> endpoint_;
  const bool invalidates_;  // responses invalidate the memory that the request names
  bool polling_ = false;
  RecentStats recent_stats_;   // of the previous request
  bool ending_ = false;        // takes no further request
  bool disconnected_ = false;  // kDisconnected was seen
  bool forgotten_ = false;     // the worker was notified
  absl::Status end_reason_;
  uint32_t moving_ = 0;         // RDMA operations that wait for the peer, see Moving
  uint64_t moves_ = 0;          // changes whenever one completes
  uint64_t watched_moves_ = 0;  // moves_ when move_timer_ was set
  dat::Loop::TimerId move_timer_ = 0;
  dat::Loop::TimerId connect_timer_ = 0;
  dat::Loop::TimerId end_timer_ = 0;
};

}  // namespace dafs::server
