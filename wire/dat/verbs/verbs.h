// The verbs provider: the DAT seam on librdmacm (connections) and libibverbs (everything else), for
// InfiniBand, RoCE and iWARP adapters and for the kernel's siw and rdma_rxe.
// Spec: WIRE 11.1, 11.2; appendices B and E.5 to E.9.
//
// Needs no device to be built, linked or made: what is missing is said, with the remedy, by Listen
// and Resolve. The provider is thread-safe; what it makes follows the rules of wire/dat/dat.h.
//
// Make one provider in a program. Its first Listen or Resolve comes after the last fork and before
// the calling thread takes another identity (setfsuid, capset): it starts threads, and the kernel
// ties the files of the RDMA stack to the credentials that opened them. Threads that use endpoints
// may change theirs later; opener.h says how.
//
// Where devices differ, and what a caller sees of it:
//   - peer_private_data: InfiniBand and RoCE pad it with zeros (to 56 bytes in a request, 196 in a
//     reply); a request carries at most 56 bytes there.
//   - While the link of an InfiniBand or RoCE device is down, peers are not told of connections
//     that end here; they are when it is up again (wire/dat/verbs/connection.h says why).
//   - A fault that the peer found (a refused key) ends an InfiniBand or RoCE connection with a work
//     completion that names it. iWARP writes and sends are complete before the peer looks at them:
//     there the connection just ends, and kDisconnected may carry an OK status.
//   - siw checks contexts, bounds and the remote-write right, but lets a peer RDMA-read any region
//     of the domain whose context it knows or guesses. It does not report invalidated_context, and
//     opens its TCP connection inside Connect, which blocks while the peer's host does not answer.
//     It reports sends before the reads posted ahead of them (wire/dat/verbs/send_queue.h), and
//     sends memory by reference where it is not asked to report that (wire/dat/verbs/device.h).
//   - Memory windows (type 2) are bound and ended by requests to the queue pair. siw has none.
//     rdma_rxe (Linux 6.1.192) has, and keeps to a window's right, its queue pair and its end, but
//     not to its bounds: a peer reaches the whole region behind it. It reports remote invalidation
//     by a flag of the kernel's (progress.cc). To end a window that is not bound (by the
//     owner's request, or by the peer's second Send with Invalidate) is a null pointer to its
//     kernel, which stops; and it waits a minute for a window that is bound when its queue pair
//     goes. So Domain::windows() advises against them there.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "wire/dat/dat.h"

namespace dafs::dat {

struct VerbsOptions {
  // Sends and RDMA writes up to this size are copied into the work request where the device can;
  // it may offer less, or nothing. Enough for the header and arguments of a small request.
  uint32_t inline_bytes = 256;
  // A connection that was quiet for so long is tried with an RDMA write of nothing, which the
  // peer's device acknowledges or is found dead by: else nobody would notice that a peer has
  // vanished.
  absl::Duration probe_every = absl::Seconds(10);
  // Connect from a reserved port, as IwarpOptions::reserved_port. The connection manager lends a
  // port to one connection of the machine at a time.
  bool reserved_port = true;
  // Connection requests the kernel keeps for a listener before it refuses more.
  int backlog = 512;
};

std::unique_ptr<Provider> NewVerbsProvider(const VerbsOptions& options = {});

}  // namespace dafs::dat
