// Caches which nodes lack the extended attributes that programs request often and that few files
// have.
//
// AbsentXattrCache is thread-safe; nothing blocks. AbsentXattrsOfNode is not: InodeTable keeps it
// under a shard's mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

class InodeTable;

enum class AbsentXattr : uint8_t { kCapability, kSelinux, kAccessAcl, kDefaultAcl };

// The absences of one node.
class AbsentXattrsOfNode {
 public:
  // A value of CHANGE that was sent to the kernel, if any.
  struct Version {
    bool sent = false;
    uint64_t change = 0;
  };
  // When it was noted; InfinitePast if it was not, or no longer counts.
  absl::Time asked(AbsentXattr attribute) const {
    const absl::Time asked = asked_[static_cast<size_t>(attribute)];
    return asked < from_ ? absl::InfinitePast() : asked;
  }
  // The server said so in its reply to a request sent at `asked`. `before`: sent until then.
  void Note(AbsentXattr attribute, absl::Time asked, const Version& before);
  // Whether a reply counts at `now`: for `least`, and beyond that while `current` is the version
  // that was noted.
  bool Known(AbsentXattr attribute, absl::Time now, absl::Duration least,
             const Version& current) const;
  // Replies to requests sent before `now` no longer count.
  void Forget(absl::Time now) { from_ = now; }

 private:
  static constexpr size_t kAttributes = 4;
  std::array<absl::Time, kAttributes> asked_ = {absl::InfinitePast(), absl::InfinitePast(),
                                                absl::InfinitePast(), absl::InfinitePast()};
  std::array<uint64_t, kAttributes> change_ = {};
  std::array<bool, kAttributes> has_change_ = {};
  absl::Time from_ = absl::InfinitePast();  // replies to earlier requests do not count
};

class AbsentXattrCache {
 public:
  // All must outlive it.
  AbsentXattrCache(InodeTable& inodes, const CacheTimes& times, const PromiseRules& rules)
      : inodes_(inodes), times_(times), rules_(rules) {}
  AbsentXattrCache(const AbsentXattrCache&) = delete;
  AbsentXattrCache& operator=(const AbsentXattrCache&) = delete;

  // The node does not have the attribute. The server said so in its reply to a request sent at
  // `asked`, or the node was created then.
  void Note(uint64_t nodeid, AbsentXattr attribute, absl::Time asked);
  // Whether that is still valid at `now`. It is valid for the least cache time in any case, and
  // beyond that while no change is visible (CHANGE is the value sent to the kernel before the
  // request). Changes by this mount end it at once. Changes by other clients end it when the kernel
  // receives the new attributes. With a server that gives promises, it is valid while the promise
  // of the node's attributes holds; if programs of the server may change it unannounced, then only
  // within these limits too.
  bool Known(uint64_t nodeid, AbsentXattr attribute, absl::Time now) const;
  // This mount has set extended attributes of the node. Replies to requests sent before `now` no
  // longer count.
  void Forget(uint64_t nodeid, absl::Time now);

 private:
  InodeTable& inodes_;
  const CacheTimes times_;
  const PromiseRules& rules_;
};

}  // namespace dafs::fuse
