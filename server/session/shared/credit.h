// The server's half of flow control: how many requests each session may have outstanding (Nreq),
// and the memory for them.
// Spec: 3.2.6.4.2 (the server sets Nreq; raises it at once, lowers it by one per response); WIRE
// 11.5.
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
  // Takes `bytes` even beyond the limit: every session has its first credit (Nreq >= 1 always).
  void Reserve(size_t bytes) { used_bytes_ += bytes; }
  void Release(size_t bytes) { used_bytes_ -= bytes; }

  void SessionOpened() { ++sessions_; }
  void SessionClosed() { --sessions_; }

  // Returns true if memory is short; sessions above their share then return some.
  bool tight() const { return used_bytes_ > limit_bytes_ / 8 * 7; }
  // The equal share of one session.
  size_t share_bytes() const;
  size_t used_bytes() const { return used_bytes_; }

 private:
  const size_t limit_bytes_;
  // Publish nothing but themselves: a reader needs the amount, not the memory that it counts.
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> sessions_{0};
};

// The Nreq of one session. One thread.
class Credit {
 public:
  // `bytes_each` is the cost of a credit: a request buffer and a response buffer. `most` is the
  // server's limit.
  Credit(CreditBudget& budget, size_t bytes_each, uint32_t most);
  ~Credit();
  Credit(const Credit&) = delete;
  Credit& operator=(const Credit&) = delete;

  // The first grant: 1 to `wanted`, as memory allows.
  uint32_t Open(uint32_t wanted);

  // Lowers the grant of Open to `nreq`, the number of receives that could be created.
  void Limit(uint32_t nreq);

  // Returns the target_nreq for the next response. `desired_nreq` is that of its request (0: no
  // preference). Reserves the memory for a higher number. Never 0.
  uint16_t Target(uint16_t desired_nreq);

  // The response that carries `target` is about to be sent. From now on nreq() is the number of
  // requests that the client may have outstanding after it has read the response. Returns true if
  // the request's receive must be posted again, false if its buffer must be freed.
  bool ResponseSent(uint16_t target);

  uint32_t nreq() const { return nreq_; }

 private:
  CreditBudget& budget_;
  const size_t bytes_each_;
  const uint32_t most_;
  uint32_t nreq_ = 0;
  uint32_t target_ = 0;  // memory is reserved for max(nreq_, target_)
};

}  // namespace dafs::server
