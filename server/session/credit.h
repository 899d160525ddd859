// The server's half of flow control: how many requests each session may have outstanding (Nreq),
// and the memory that stands behind them.
// Spec: 3.2.6.4.2 (Nreq is the server's, raised at once and lowered by one per response);
// WIRE 11.5.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dafs::server {

// The memory for requests and responses of all sessions. Thread-safe; nothing blocks.
class CreditBudget {
 public:
  explicit CreditBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Takes `bytes` if that leaves the sum within the limit.
  bool TryReserve(size_t bytes);
  // Takes `bytes` in any case: every session has its first credit (Nreq >= 1 at all times).
  void Reserve(size_t bytes) { used_bytes_ += bytes; }
  void Release(size_t bytes) { used_bytes_ -= bytes; }

  void SessionOpened() { ++sessions_; }
  void SessionClosed() { --sessions_; }

  // Whether memory is short, so that sessions above their share give some back.
  bool tight() const { return used_bytes_ > limit_bytes_ / 8 * 7; }
  // The equal share of one session.
  size_t share_bytes() const;
  size_t used_bytes() const { return used_bytes_; }

 private:
  const size_t limit_bytes_;
  // Counters that publish nothing: who reads them wants an amount, not the memory behind it.
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> sessions_{0};
};

// The number of one session. One thread.
class Credit {
 public:
  // `bytes_each`: what a credit costs, a request and a response buffer. `most`: the server's limit.
  Credit(CreditBudget& budget, size_t bytes_each, uint32_t most);
  ~Credit();
  Credit(const Credit&) = delete;
  Credit& operator=(const Credit&) = delete;

  // The first grant: 1 .. `wanted`, as far as memory goes.
  uint32_t Open(uint32_t wanted);

  // Only `nreq` receives could be made of what Open granted.
  void Limit(uint32_t nreq);

  // What the next response shall say, given the desired_nreq of the request it answers (0: no
  // wish). Memory for a higher number is taken here already. Never 0.
  uint16_t Target(uint16_t desired_nreq);

  // The response that says `target` is about to go out: from now on nreq() is what the client may
  // have outstanding when it has seen it. True if the request's receive must be posted again,
  // false if its buffer is to be given up.
  bool ResponseSent(uint16_t target);

  uint32_t nreq() const { return nreq_; }

 private:
  CreditBudget& budget_;
  const size_t bytes_each_;
  const uint32_t most_;
  uint32_t nreq_ = 0;
  uint32_t target_ = 0;  // memory is taken for max(nreq_, target_)
};

}  // namespace dafs::server
