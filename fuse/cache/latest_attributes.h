// The latest attributes of one node that the server has returned. They are kept for the kernel's
// next request until they are sent. Those of a directory, link or device are kept after that, too.
//
// Not thread-safe: InodeTable keeps it under a shard's mutex.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "client/state/node.h"

namespace dafs::fuse {

class LatestAttributes {
 public:
  // How attributes arrived that were not sent to the kernel.
  struct Origin {
    absl::Time at = absl::InfinitePast();  // before they were requested
    uint64_t removals = 0;                 // of names until then
  };
  // Keeps `attributes` for the kernel's next request.
  void KeepUnsent(client::Attributes attributes, const Origin& origin);
  // Attributes that were not sent are no longer current.
  void DropUnsent();
  // Returns the attributes that were not sent; they are sent now. Call only if unsent().
  client::Attributes SendUnsent();
  // Attributes arrived that are not for the kernel's next request. Ignored if others are, because
  // those are newer.
  void Learn(const client::Attributes& attributes);
  // Other attributes are sent.
  void Sent(const client::Attributes& attributes);

  bool unsent() const { return unsent_; }
  // The origin of the attributes that were not sent.
  const Origin& origin() const { return origin_; }
  // Null: none are kept, as for a regular file whose attributes were sent.
  const client::Attributes* get() const { return latest_.get(); }

 private:
  bool KeptOnceSent() const { return latest_->object_type != wire::ObjectType::kReg; }

  std::unique_ptr<client::Attributes> latest_;
  Origin origin_;
  bool unsent_ = false;
};

}  // namespace dafs::fuse
