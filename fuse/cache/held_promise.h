// The promise about the attributes of one node that the mount has, and since when without a break.
// Answers about the node's ACL and extended attributes since then still hold.
//
// Not thread-safe: InodeTable keeps it under a shard's mutex.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "client/state/promises.h"
#include "fuse/cache/promise_rules.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class HeldPromise {
 public:
  // `promise`, which may be none, came with attributes of `object` that arrived before `now`.
  void Got(const client::Promise& promise, absl::Time now, const PromiseRules& rules,
           const wire::FileHandle& object) {
    if (!promise || !rules.IsGood(promise, object)) return;
    if (!rules.IsGood(promise_, object)) since_ns_ = absl::ToUnixNanos(now);
    promise_ = promise;
  }
  // Whether a promise has held from `when` until now.
  bool HeldSince(absl::Time when, const PromiseRules& rules, const wire::FileHandle& object) const {
    return since_ns_ <= absl::ToUnixNanos(when) && rules.IsGood(promise_, object);
  }
  bool only_clients() const { return promise_.only_clients; }

 private:
  client::Promise promise_;
  int64_t since_ns_ = INT64_MAX;  // of absl::ToUnixNanos
};

}  // namespace dafs::fuse
