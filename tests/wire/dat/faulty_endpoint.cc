#include "tests/wire/dat/faulty_endpoint.h"

namespace dafs::dat {
namespace {

absl::Status Injected() { return absl::UnavailableError("injected fault: the connection is cut"); }

}  // namespace

bool FaultyEndpoint::IsDue(FaultOperations operation) {
  if ((plan_.operations & operation) == 0 || left_ == 0) return false;
  --left_;
  return left_ == 0;
}

template <typename Post>
absl::Status FaultyEndpoint::Break(Event event, uint64_t cookie, Post post) {
  fired_ = true;
  switch (plan_.kind) {
    case FaultKind::kPostFails:
      inner().Abort(Injected());
      return Injected();
    case FaultKind::kCutBefore: {
      // The endpoint inside is dead and refuses the post, so its completion is made here.
      inner().Abort(Injected());
      lost_pending_ = true;
      lost_event_ = event;
      lost_cookie_ = cookie;
      return absl::OkStatus();
    }
    case FaultKind::kCutAfter: {
      absl::Status status = post();
      if (!status.ok()) return status;
      // Posted work is sent before the connection ends.
      inner().Disconnect();
      return absl::OkStatus();
    }
    case FaultKind::kLoseCompletion: {
      absl::Status status = post();
      if (!status.ok()) return status;
      lost_pending_ = true;
      lost_event_ = event;
      lost_cookie_ = cookie;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status FaultyEndpoint::PostReceive(uint64_t cookie, Segment into) {
  const auto post = [&] { return inner().PostReceive(cookie, into); };
  return IsDue(kFaultReceive) ? Break(Event::kReceive, cookie, post) : post();
}

absl::Status FaultyEndpoint::PostSend(uint64_t cookie, std::span<const Segment> from,
                                      const SendOptions& options) {
  if (!IsDue(kFaultSend)) return inner().PostSend(cookie, from, options);
  SendOptions signaled = options;
  // Request the completion, so that it can be lost.
  if (plan_.kind == FaultKind::kLoseCompletion) signaled.signaled = true;
  return Break(Event::kSend, cookie, [&] { return inner().PostSend(cookie, from, signaled); });
}

absl::Status FaultyEndpoint::PostRdmaWrite(uint64_t cookie, std::span<const Segment> from,
                                           RemoteBuffer to, bool signaled) {
  if (!IsDue(kFaultRdmaWrite)) return inner().PostRdmaWrite(cookie, from, to, signaled);
  const bool seen = signaled || plan_.kind == FaultKind::kLoseCompletion;
  return Break(Event::kRdmaWrite, cookie,
               [&] { return inner().PostRdmaWrite(cookie, from, to, seen); });
}

absl::Status FaultyEndpoint::PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                                          RemoteBuffer from) {
  const auto post = [&] { return inner().PostRdmaRead(cookie, into, from); };
  return IsDue(kFaultRdmaRead) ? Break(Event::kRdmaRead, cookie, post) : post();
}

size_t FaultyEndpoint::Poll(std::span<Completion> out) {
  size_t count = 0;
  if (plan_.kind == FaultKind::kCutBefore && lost_pending_ && !out.empty()) {
    lost_pending_ = false;
    out[0] = {};
    out[0].event = lost_event_;
    out[0].cookie = lost_cookie_;
    out[0].status = Injected();
    count = 1;
  }
  count += inner().Poll(out.subspan(count));
  if (plan_.kind != FaultKind::kLoseCompletion || !lost_pending_) return count;
  for (size_t i = 0; i < count; ++i) {
    if (out[i].event != lost_event_ || out[i].cookie != lost_cookie_) continue;
    lost_pending_ = false;
    inner().Abort(Injected());
    if (out[i].status.ok()) out[i].status = Injected();
    out[i].size_bytes = 0;
    // After an error everything fails (B.4), also the later completions of this batch.
    for (size_t later = i + 1; later < count; ++later) {
      if (out[later].status.ok()) out[later].status = Injected();
    }
    break;
  }
  return count;
}

}  // namespace dafs::dat
