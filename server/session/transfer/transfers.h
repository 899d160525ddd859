// Bounds the resources of one session's direct transfers: pieces of the worker's memory, and
// credits for RDMA operations. Grants both in order of arrival.
// Spec: 3.2.3.2; WIRE 10.1.
// Belongs to the session's thread. Outlives the session's posted work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "server/session/transfer/direct_buffers.h"
#include "server/session/transfer/rdma_credits.h"
#include "server/session/transfer/transfer_watch.h"
#include "wire/dat/dat.h"

namespace dafs::server {

class Transfers {
 public:
  // The number of RDMA operations that a session may have posted, besides its responses.
  static constexpr uint32_t kRdmaCredits = 64;

  // `slab` is the memory of `buffers`, registered in the session's domain. `limit` and `stalled`:
  // see TransferWatch.
  Transfers(Loop& loop, DirectBuffers& buffers, const dat::Region& slab, absl::Duration limit,
            absl::AnyInvocable<void(uint32_t outstanding)> stalled)
      : buffers_(buffers), slab_(slab), watch_(loop, limit, std::move(stalled)) {}

  // `DirectLease lease = co_await transfers.Acquire(n)`: see DirectBuffers::Acquire. Set `may_hang`
  // if the export of the file may hang: its file system is accessed while the memory is held.
  DirectAcquirer Acquire(size_t size_bytes, bool may_hang = false) {
    return buffers_.Acquire(may_hang ? hanging_share_ : share_, size_bytes);
  }
  const dat::Region& slab() const { return slab_; }
  RdmaCredits& credits() { return credits_; }
  TransferWatch& watch() { return watch_; }

 private:
  DirectBuffers& buffers_;
  const dat::Region& slab_;
  DirectShare share_;
  DirectShare hanging_share_{/*may_hang=*/true};
  RdmaCredits credits_{kRdmaCredits};
  TransferWatch watch_;
};

}  // namespace dafs::server
