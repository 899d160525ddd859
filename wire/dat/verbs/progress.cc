// The progress of a VerbsEndpoint: connection events, work completions, and its end.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/verbs/endpoint.h"
#include "wire/dat/verbs/errors.h"

namespace dafs::dat::verbs {
namespace {

// 0.64 ms (IBA table 45): the time after which the peer retries a send that found no receive. The
// connection manager leaves it at 0, which means 655 ms.
constexpr uint8_t kReceiverNotReadyTimer = 12;

// The most work completions taken from the device in one call.
constexpr int kBatch = 16;
// A check of the connection manager is a system call: make one in this many polls without sleep.
constexpr uint32_t kPollsBetweenEvents = 64;

}  // namespace

void VerbsEndpoint::Progress() {
  must_poll_ = false;
  if (state_ == State::kDead) return;
  if (!fault_.ok()) return End(fault_);
  const bool slept = std::exchange(armed_, false);
  // A completion or another event ended the sleep. After a completion, the connection manager can
  // wait: an event of its own would end the next sleep at once.
  const bool by_completion = slept && TakeCompletionEvent();
  if (state_ != State::kConnected || (slept && !by_completion) ||
      ++polls_since_events_ >= kPollsBetweenEvents) {
    DrainEvents();
    if (slept && !by_completion) Probe();
  }
  if (!polls_completions()) return;
  PollCompletions();
  if ((state_ != State::kConnected && state_ != State::kClosing) || !fault_.ok()) return;
  if (absl::Status status = queue_.Pump(); !status.ok()) return Break(std::move(status));
  if (state_ != State::kClosing) return;
  if (absl::Status status = queue_.Flush(); !status.ok()) return Break(std::move(status));
  if (queue_.idle()) End(absl::OkStatus());
}

bool VerbsEndpoint::TakeCompletionEvent() {
  // A request to notify makes at most one event. A second event, if any, ends the next sleep.
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(handles_.channel.get(), &cq, &context) != 0) return false;
  ibv_ack_cq_events(cq, 1);
  return true;
}

void VerbsEndpoint::DrainEvents() {
  polls_since_events_ = 0;
  while (state_ != State::kDead) {
    std::optional<ConnectionEvent> event = handles_.connection->NextEvent();
    if (!event.has_value()) break;
    HandleEvent(*event);
  }
  if (state_ == State::kBroken && break_wait_.IsOver()) End(break_wait_.why());
}

void VerbsEndpoint::Probe() {
  if (!probe_.HasExpired()) return;
  if (state_ != State::kConnected || !fault_.ok() || probe_.TakeHeard()) return;
  if (absl::Status status = queue_.Probe(); !status.ok()) Break(std::move(status));
}

void VerbsEndpoint::HandleEvent(ConnectionEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      if (state_ == State::kConnecting || state_ == State::kAccepting) Connected(&event);
      return;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
    case RDMA_CM_EVENT_ADDR_CHANGE: {
      absl::Status why =
          ConnectionEnded(event.type, event.status, peer_, domain_.limits().is_iwarp);
      if (why.ok() && !was_connected_) {
        why = absl::UnavailableError(absl::StrCat(
            "rdma ", peer_.ToString(), ": the peer closed before the connection was up"));
      }
      return End(std::move(why));
    }
    default:
      return;  // TIMEWAIT_EXIT, and multicast events
  }
}

void VerbsEndpoint::Connected(const ConnectionEvent* event) {
  state_ = State::kConnected;
  was_connected_ = true;
  if (event != nullptr && !origin_.is_server) {
    const std::span<const std::byte> data = event->private_data();
    origin_.private_data.assign(data.begin(), data.end());
    if (event->initiator_depth > 0) queue_.LimitReads(event->initiator_depth);
  }
  if (!domain_.limits().is_iwarp) {
    ibv_qp_attr attributes = {};
    attributes.min_rnr_timer = kReceiverNotReadyTimer;
    // If the device refuses, it keeps its own timer, which is only slower.
    (void)ibv_modify_qp(handles_.queue_pair->qp, &attributes, IBV_QP_MIN_RNR_TIMER);
  }
  if (!probe_.Start(handles_.epoll.get())) fault_ = CallFailed("timer of a connection", errno);
  Completion connected;
  connected.event = Event::kConnected;
  ready_.Push(std::move(connected));
}

size_t VerbsEndpoint::PollCompletions() {
  std::array<ibv_wc, kBatch> batch;
  const int count = ibv_poll_cq(handles_.completions.get(), kBatch, batch.data());
  if (count < 0) {
    if (fault_.ok() && state_ != State::kDead) fault_ = CallFailed("poll completion queue", errno);
    return 0;
  }
  for (int i = 0; i < count; ++i) HandleWork(batch[static_cast<size_t>(i)]);
  return static_cast<size_t>(count);
}

void VerbsEndpoint::HandleWork(const ibv_wc& work) {
  const bool is_receive = (work.wr_id & SendQueue::kReceiveBit) != 0;
  absl::Status status;
  probe_.Heard();
  if (work.status != IBV_WC_SUCCESS) {
    status = WorkFailed(is_receive ? "receive" : "send or RDMA", work.status, peer_);
  }
  if (is_receive) {
    HandleReceive(work, status);
  } else {
    queue_.Complete(work.wr_id, status);
  }
  if (status.ok()) return;
  if (work.status == IBV_WC_WR_FLUSH_ERR) {
    return Break(absl::UnavailableError(
        absl::StrCat("rdma ", peer_.ToString(), ": the device ended the connection")));
  }
  // The queue pair failed, or the peer did not answer: the link may be going down.
  if (!domain_.limits().is_iwarp &&
      (work.status == IBV_WC_LOC_QP_OP_ERR || work.status == IBV_WC_RETRY_EXC_ERR)) {
    handles_.connection->Distrust();
  }
  if (cause_.ok()) cause_ = status;
  if (state_ != State::kDead && fault_.ok()) fault_ = status;
}

bool VerbsEndpoint::Invalidated(const ibv_wc& work) const {
  // rdma_rxe passes the kernel's own flags to the program. The kernel's flag for "with invalidate"
  // has the value of IBV_WC_IP_CSUM_OK here, which applies to datagrams only (kernel,
  // rdma/ib_verbs.h).
  constexpr unsigned kOfKernel = 1 << 2;
  static_assert(kOfKernel == IBV_WC_IP_CSUM_OK);
  const unsigned mask = IBV_WC_WITH_INV | (domain_.limits().is_rxe ? kOfKernel : 0);
  return (work.wc_flags & mask) != 0;
}

void VerbsEndpoint::HandleReceive(const ibv_wc& work, const absl::Status& status) {
  if (receives_.empty()) return;  // the device reported a receive twice
  if (status.ok() && state_ == State::kAccepting) {
    // This message overtook the last message of the connection set-up.
    handles_.connection->Call(
        [this] { return rdma_notify(handles_.connection->id(), IBV_EVENT_COMM_EST); });
    Connected(nullptr);
  }
  Completion completion;
  completion.event = Event::kReceive;
  completion.cookie = receives_.Pop();
  completion.size_bytes = status.ok() ? work.byte_len : 0;
  completion.status = status;
  if (status.ok() && Invalidated(work)) {
    completion.invalidated_context = work.invalidated_rkey;
    windows_.PeerEnded(work.invalidated_rkey);
  }
  ready_.Push(std::move(completion));
}

void VerbsEndpoint::Break(absl::Status why) {
  if (state_ == State::kBroken || state_ == State::kDead) return;
  state_ = State::kBroken;
  if (!break_wait_.Start(handles_.epoll.get(), std::move(why))) fault_ = break_wait_.why();
}

void VerbsEndpoint::End(absl::Status why) {
  if (state_ == State::kDead) return;
  const bool was_made = state_ == State::kMade;
  state_ = State::kDead;
  if (cause_.ok()) cause_ = std::move(why);

  ibv_qp* queue_pair = handles_.queue_pair->qp;
  if (!cause_.ok()) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    (void)ibv_modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  }
  // Fails if the peer or the device ended the connection first. Then there is nothing to take down.
  rdma_cm_id* id = handles_.connection->id();
  if (!handles_.connection->reachable()) {
    // The connection id's destruction will notify the peer; it waits until the port is up.
  } else if (!was_made) {
    handles_.connection->Call([id] { return rdma_disconnect(id); });
  } else if (origin_.is_server) {
    handles_.connection->Call([id] { return rdma_reject(id, nullptr, 0); });
  }
  // Take the completions so far. Then destroy the queue pair, so that the device stops using
  // buffers. Then take the completions that the device flushed. The loops end, because nothing more
  // is posted.
  while (PollCompletions() > 0) {
  }
  epoll_ctl(handles_.epoll.get(), EPOLL_CTL_DEL, handles_.connection->fd(), nullptr);
  epoll_ctl(handles_.epoll.get(), EPOLL_CTL_DEL, handles_.channel->fd, nullptr);
  break_wait_.Stop();
  probe_.Stop();
  windows_.Clear();
  handles_.queue_pair.reset();
  while (PollCompletions() > 0) {
  }

  if (!was_connected_ && !domain_.limits().is_iwarp) {
    // Destroying the id withdraws a half-made InfiniBand connection and notifies the peer.
    handles_.connection.reset();
  }

  const absl::Status flushed =
      cause_.ok() ? absl::UnavailableError(
                        absl::StrCat("rdma ", peer_.ToString(), ": flushed, connection closed"))
                  : absl::UnavailableError(
                        absl::StrCat("rdma ", peer_.ToString(), ": flushed: ", cause_.message()));
  while (!receives_.empty()) {
    Completion completion;
    completion.event = Event::kReceive;
    completion.cookie = receives_.Pop();
    completion.status = flushed;
    ready_.Push(std::move(completion));
  }
  queue_.Abandon(flushed);
  Completion last;
  last.event = Event::kDisconnected;
  last.status = cause_;
  ready_.Push(std::move(last));
}

}  // namespace dafs::dat::verbs
