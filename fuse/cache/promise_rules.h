// How long the kernel may keep an answer of the server, by the promise that came with it
// (docs/caching.md).
//
// Thread-safe; takes no lock. An answer is first recorded where the handler of announced changes
// looks for it (AttributeCache, DirectoryNames), and then checked here. So either the check fails,
// or the handler finds the answer.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "client/state/promises.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

enum class Keeping : uint8_t {
  kByTime,    // for the cache times (nfs(5))
  kNot,       // not at all: the server announces changes, but has not promised to for this answer
  kPromised,  // for PromiseRules::kPromisedFor
};

class PromiseRules {
 public:
  // A promise holds until a change is announced. This limit only bounds the harm of a mistake.
  static constexpr absl::Duration kPromisedFor = absl::Minutes(10);

  PromiseRules() = default;
  PromiseRules(const PromiseRules&) = delete;
  PromiseRules& operator=(const PromiseRules&) = delete;

  // The mount takes promises. `promises` must outlive the workers. Until this is called, everything
  // is kept by time.
  void Use(const client::Promises& promises) {
    promises_.store(&promises, std::memory_order_release);
  }

  // Whether the server gives promises. If so, an answer without one must not be kept.
  bool offered() const {
    const client::Promises* promises = promises_.load(std::memory_order_acquire);
    return promises != nullptr && promises->offered();
  }
  // Whether an answer about `object` that came with `promise` still holds. False without promises.
  bool IsGood(const client::Promise& promise, const wire::FileHandle& object) const {
    const client::Promises* promises = promises_.load(std::memory_order_acquire);
    return promises != nullptr && promise && promises->IsGood(promise, object);
  }
  // From now on the kernel may keep nothing (true), or as before: another program is about to
  // continue the mount, and will not know what the kernel keeps.
  void KeepNothing(bool nothing) { nothing_.store(nothing, std::memory_order_release); }
  Keeping Of(const client::Promise& promise, const wire::FileHandle& object) const {
    if (nothing_.load(std::memory_order_relaxed)) return Keeping::kNot;
    if (!offered()) return Keeping::kByTime;
    if (!IsGood(promise, object)) return Keeping::kNot;
    return promise.only_clients ? Keeping::kPromised : Keeping::kByTime;
  }

 private:
  std::atomic<const client::Promises*> promises_{nullptr};
  std::atomic<bool> nothing_{false};
};

}  // namespace dafs::fuse
