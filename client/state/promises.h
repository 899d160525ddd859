// The server's promises to announce changes (WIRE 9.6). A response may carry a promise about its
// contents; until the server has announced a change, the response may be cached without asking
// again. This class decides whether a promise still holds. client/status/lease_keeper.h asks the
// server for promises and ends them; PromiseObserver drops what was cached under them.
//
// Thread-safe; nothing blocks, except AwaitAnswer. sequence, IsGood, offered and active take no
// lock: workers call them for each response.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/latency.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Comes with a response about an object: its attributes, or the names of the directory. A value.
struct Promise {
  uint64_t asked = 0;         // Promises::sequence() before the request was sent; 0: no promise
  bool only_clients = false;  // without it, programs on the server may change it unannounced

  explicit operator bool() const { return asked != 0; }
  friend bool operator==(const Promise&, const Promise&) = default;
};

// Drops what is cached under promises. Called on the thread of the control session; must not block.
// Each function gets `dropped`, to be called once, on any thread, when no program of this machine
// can see the old value any more. It may be called before the function returns, and after the
// control session has ended. The server's change waits for it.
class PromiseObserver {
 public:
  virtual ~PromiseObserver() = default;

  // `object` is about to change: `what` has wire::kChangedNames, wire::kChangedAttributes or both.
  // `name`, if not empty, is the only name that changes. IsGood is already false for all earlier
  // answers. The client may not know the object.
  virtual void OnChanged(const wire::FileHandle& object, uint32_t what, const std::string& name,
                         absl::AnyInvocable<void()> dropped) = 0;
  // All promises have ended. New ones are requested after `dropped`. Also called once before the
  // first request for promises, to drop what was cached by time.
  virtual void OnVoid(absl::AnyInvocable<void()> dropped) = 0;
};

class Promises {
 public:
  // How well the client can cache. kTimed: without promises. kBounded: promises, but programs of
  // the server may change files unannounced. kExact: clients only change files.
  enum class Caching : uint8_t { kTimed, kBounded, kExact };
  struct Counts {
    uint64_t voids = 0;       // how often all promises ended at once, while there were some
    LatencyHistogram breaks;  // announced changes: from the announcement to the client's answer
  };

  Promises() = default;
  Promises(const Promises&) = delete;
  Promises& operator=(const Promises&) = delete;

  // Greater than zero. Sample it before a request is sent, also when it is sent again.
  uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }
  // Increments it, and returns the new value: no request that was sent before has it.
  uint64_t Advance() { return sequence_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  // Returns the promise that a response gives: `kind` is wire::kSpcondNames or
  // wire::kSpcondAttributes. `asked`: the sequence of its request.
  static Promise Given(uint64_t asked, uint16_t spec_cond, uint16_t kind);
  // Whether the response that came with `promise` still holds. `object`: whose attributes they are,
  // or the directory of the names. In rare cases returns false although it holds.
  // A thread that caches the response first records that it does, where PromiseObserver finds it,
  // and then calls this.
  bool IsGood(const Promise& promise, const wire::FileHandle& object) const {
    return promise.asked >= good_since_.load(std::memory_order_acquire) &&
           promise.asked >= ChangedAt(object).load(std::memory_order_acquire);
  }
  // Whether the server gives promises: what comes without one must not be cached. Otherwise the
  // client caches by time. Stays true between End and Begin.
  bool offered() const { return offered_.load(std::memory_order_acquire); }
  // Whether promises can be good now: between Begin and End.
  bool active() const { return good_since_.load(std::memory_order_acquire) != kNever; }
  // Whether the server could announce changes, and recall delegations, ever since a request with
  // this `asked`. `heard`: when a request was sent that was answered. A server that cannot reach
  // the client revokes nothing before half of its recall time after that.
  bool Reachable(uint64_t asked, absl::Time heard, absl::Time now) const {
    return asked >= begun_at_.load(std::memory_order_acquire) &&
           absl::ToInt64Nanoseconds(now - heard) < patience_.load(std::memory_order_relaxed);
  }

  // `object` is about to change. Responses to requests sent before this call are no longer good; in
  // rare cases (equal hashes) neither are those about other objects. Call before the observer
  // searches its caches.
  void Changed(const wire::FileHandle& object);
  // The same for all objects. The server continues to give promises.
  void ChangedAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the control session. Ask: PROMISES is about to be sent. Begin: the server has granted it,
  // and waits `recall` for each answer. Returns false, with no effect, if the server has voided the
  // promises since Ask. Refuse: the server gives no promises. Answers to requests sent before Begin
  // are not good.
  void Ask() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Begin(absl::Duration recall) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refuse() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until the server has granted or refused promises for the first time, or for `most`.
  void AwaitAnswer(absl::Duration most) const ABSL_LOCKS_EXCLUDED(mutex_);
  // No promise is good from now on: the server cannot announce changes.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // The recall time of the latest Begin.
  absl::Duration recall() const ABSL_LOCKS_EXCLUDED(mutex_);

  // For each response with a `spec_cond`, before it is delivered. On wire::kSpcondVoid calls Void.
  void Heard(uint16_t spec_cond) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has ended all promises: does what End does, and calls the function given to OnVoid,
  // unless that was called since Ask.
  void Void() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the function; null: none. It is called under the mutex, on any thread: it may only post to
  // a loop.
  void OnVoid(absl::AnyInvocable<void()> voided) ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts announced changes that were answered `took` after they arrived.
  void NoteBreaks(uint64_t count, absl::Duration took) ABSL_LOCKS_EXCLUDED(mutex_);
  Caching caching() const;
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Objects with equal hashes share an entry: a change of one ends promises about all.
  static constexpr size_t kEntries = 4096;  // 32 KiB
  static constexpr uint64_t kNever = UINT64_MAX;

  static size_t IndexOf(const wire::FileHandle& object);
  const std::atomic<uint64_t>& ChangedAt(const wire::FileHandle& object) const {
    return changed_at_[IndexOf(object)];
  }
  void EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Counts changes. A response whose `asked` is lower than the entry of its object in changed_at_,
  // or than good_since_, may be older than a change.
  std::atomic<uint64_t> sequence_{1};
  std::atomic<uint64_t> good_since_{kNever};  // kNever: not active
  std::atomic<uint64_t> begun_at_{kNever};    // of the latest Begin; kNever: not active
  std::atomic<int64_t> patience_{0};          // half of recall_, in ns; published by begun_at_
  std::atomic<bool> offered_{false};
  std::atomic<bool> only_clients_{false};  // of the latest promise; only for reports
  std::array<std::atomic<uint64_t>, kEntries> changed_at_{};

  mutable absl::Mutex mutex_;
  bool voided_ ABSL_GUARDED_BY(mutex_) = false;    // since Ask
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;  // Begin or Refuse was called
  absl::Duration recall_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void()> on_void_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
