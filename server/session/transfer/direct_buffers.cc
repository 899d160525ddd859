#include "server/session/transfer/direct_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/check.h"

namespace dafs::server {

size_t DirectLease::size_bytes() const {
  size_t bytes = 0;
  for (std::span<std::byte> piece : pieces_) bytes += piece.size();
  return bytes;
}

void DirectLease::Release() {
  DirectBuffers* owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  owner->Return(*share_, pieces_);
  pieces_.clear();
}

absl::StatusOr<std::unique_ptr<DirectBuffers>> DirectBuffers::Create(size_t size_bytes,
                                                                     size_t max_transfer_bytes) {
  const size_t small_count = std::max<size_t>(size_bytes / 8 / kSmall, 4);
  const size_t large_least = 2 * ((max_transfer_bytes + kLarge - 1) / kLarge);
  const size_t large_count =
      std::max(size_bytes / 8 * 7 / kLarge, std::max<size_t>(large_least, 2));
  const size_t slab_bytes = small_count * kSmall + large_count * kLarge;
  // Populated now: a page fault on the data path costs more than the copy into the page.
  void* slab = mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (slab == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("direct buffers: cannot map ", slab_bytes, " bytes: errno ", errno));
  }
  return std::unique_ptr<DirectBuffers>(
      new DirectBuffers(static_cast<std::byte*>(slab), slab_bytes, small_count));
}

DirectBuffers::DirectBuffers(std::byte* slab, size_t slab_bytes, size_t small_count)
    : slab_(slab), slab_bytes_(slab_bytes), small_end_(slab + small_count * kSmall) {
  std::byte* at = slab;
  for (size_t i = 0; i < small_count; ++i, at += kSmall) small_.free.push_back(at);
  for (; at + kLarge <= slab + slab_bytes; at += kLarge) large_.free.push_back(at);
  for (Pieces* pieces : {&small_, &large_}) pieces->most_hanging = pieces->free.size() / 2;
}

DirectBuffers::~DirectBuffers() {
  DAFS_CHECK(small_.line.empty() && large_.line.empty(), "a transfer still waits for buffers");
  munmap(slab_, slab_bytes_);
}

// Returns true if the first transfer that waits in `share` would exceed the limit for transfers of
// exports that may hang.
bool DirectBuffers::WaitsForHanging(const Pieces& pieces, const DirectShare& share) {
  if (!share.may_hang_) return false;
  const size_t count = CountOf(pieces, (share.*pieces.part).waiting.first()->size_bytes_);
  return pieces.hanging + count > pieces.most_hanging;
}

// A session may hold as many pieces as it leaves free: half of them when it is alone, a third for
// each of two. A session that holds none gets the pieces for one transfer whenever enough are free.
bool DirectBuffers::TryTake(Pieces& pieces, DirectShare& share, size_t size_bytes,
                            DirectLease& lease) {
  size_t& held = (share.*pieces.part).held;
  const size_t count = CountOf(pieces, size_bytes);
  if (count > pieces.free.size()) return false;
  if (share.may_hang_ && pieces.hanging + count > pieces.most_hanging) return false;
  if (held > 0 && held + count > pieces.free.size() - count) return false;
  for (size_t left = size_bytes; left > 0; left -= std::min(left, pieces.size_bytes)) {
    lease.pieces_.push_back({pieces.free.back(), std::min(left, pieces.size_bytes)});
    pieces.free.pop_back();
  }
  held += count;
  if (share.may_hang_) pieces.hanging += count;
  lease.owner_ = this;
  lease.share_ = &share;
  return true;
}

// A transfer must not overtake earlier transfers of its session, nor sessions that wait and hold
// nothing. Sessions that wait for pieces that they hold themselves may be overtaken. Transfers that
// wait because of the limit for exports that may hang delay only each other.
bool DirectBuffers::TryTakeNow(Pieces& pieces, DirectShare& share, size_t size_bytes,
                               DirectLease& lease) {
  if (!(share.*pieces.part).waiting.empty()) return false;
  bool hanging_wait = false;
  for (DirectShare* other : pieces.line) {
    if ((other->*pieces.part).held > 0) continue;
    hanging_wait = hanging_wait || WaitsForHanging(pieces, *other);
    if (share.may_hang_ || !other->may_hang_ || !hanging_wait) return false;
  }
  return TryTake(pieces, share, size_bytes, lease);
}

// A small transfer may use a large piece if one is free now, but does not wait for one.
bool DirectBuffers::TryTakeNow(DirectAcquirer& acquirer) {
  const size_t size_bytes = acquirer.size_bytes_;
  if (size_bytes == 0) return true;
  Pieces& best = PiecesFor(size_bytes);
  if (TryTakeNow(best, acquirer.share_, size_bytes, acquirer.lease_)) return true;
  return &best == &small_ && TryTakeNow(large_, acquirer.share_, size_bytes, acquirer.lease_);
}

void DirectBuffers::Wait(DirectAcquirer& acquirer) {
  Pieces& pieces = PiecesFor(acquirer.size_bytes_);
  WaitQueue<DirectAcquirer>& waiting = (acquirer.share_.*pieces.part).waiting;
  if (waiting.empty()) pieces.line.push_back(&acquirer.share_);
  waiting.Add(acquirer);
}

void DirectBuffers::Return(DirectShare& share, std::span<const std::span<std::byte>> pieces) {
  if (pieces.empty()) return;
  Pieces& home = pieces.front().data() < small_end_ ? small_ : large_;
  for (std::span<std::byte> piece : pieces) home.free.push_back(piece.data());
  (share.*home.part).held -= pieces.size();
  if (share.may_hang_) home.hanging -= pieces.size();
  Serve(home);
}

// Serves one transfer of each session in turn. Skips a session that waits for pieces that it holds
// itself. Stops at a session that holds none, so that its turn comes however much it needs. If a
// share that may hang meets its limit, skips all shares that may hang.
void DirectBuffers::Serve(Pieces& pieces) {
  // A resumed waiter may return pieces and re-enter; one loop serves all.
  if (pieces.serving) return;
  pieces.serving = true;
  bool hanging_wait = false;
  for (size_t i = 0; i < pieces.line.size();) {
    DirectShare& share = *pieces.line[i];
    DirectShare::Part& part = share.*pieces.part;
    DirectAcquirer& next = *part.waiting.first();
    if (hanging_wait && share.may_hang_) {
      ++i;
      continue;
    }
    if (part.held == 0 && WaitsForHanging(pieces, share)) {
      hanging_wait = true;
      ++i;
      continue;
    }
    if (!TryTake(pieces, share, next.size_bytes_, next.lease_)) {
      if (part.held == 0) break;
      ++i;
      continue;
    }
    pieces.line.erase(pieces.line.begin() + static_cast<ptrdiff_t>(i));
    if (part.waiting.Next(next) != nullptr) pieces.line.push_back(&share);
    part.waiting.Wake(next, absl::OkStatus());
    hanging_wait = false;
    i = 0;
  }
  pieces.serving = false;
}

}  // namespace dafs::server
