// The slabs of the exported cache (server/store/holdings/exported_cache.h), registered for the RDMA
// reads of one client. Belongs to one reference channel, whose connection has a domain of its own:
// no other client can reach these regions, and this client reaches no other memory of the server.
// One thread, that of the channel.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/dat/dat.h"

namespace dafs::server {

class ExportedRegions {
 public:
  // `domain` is borrowed, and outlives this.
  explicit ExportedRegions(dat::Domain& domain) : domain_(domain) {}

  // The region of an export; null: none was added.
  const dat::Region* Find(size_t export_index) const {
    const auto it = regions_.find(export_index);
    return it != regions_.end() ? it->second.get() : nullptr;
  }
  // Registers `slab`, unless that has been done, which on a device takes some time. Errors as of
  // Domain::Register.
  absl::StatusOr<const dat::Region*> Add(size_t export_index, std::span<std::byte> slab) {
    std::unique_ptr<dat::Region>& region = regions_[export_index];
    if (region == nullptr) {
      auto registered = domain_.Register(slab, dat::Access::kRemoteRead);
      if (!registered.ok()) {
        regions_.erase(export_index);
        return registered.status();
      }
      region = *std::move(registered);
    }
    return region.get();
  }

 private:
  dat::Domain& domain_;
  absl::flat_hash_map<size_t, std::unique_ptr<dat::Region>> regions_;
};

}  // namespace dafs::server
