// The verbs provider: implements wire/dat/dat.h with librdmacm (connections) and libibverbs
// (everything else), for InfiniBand, RoCE and iWARP adapters and for the kernel's siw and rdma_rxe.
// Spec: WIRE 11.1, 11.2; appendices B and E.5 to E.9.
//
// Building, linking and making the provider needs no device. If something is missing, Listen and
// Resolve report it with the remedy. The provider is thread-safe; its objects follow the rules of
// wire/dat/dat.h.
//
// Make one provider in a program. Call its first Listen or Resolve after the last fork and before
// the calling thread changes its identity (setfsuid, capset). That call starts threads, and the
// kernel ties the files of the RDMA stack to the credentials that opened them. Threads that use
// endpoints may change their identity later; opener.h explains how.
//
// Differences of devices that a caller sees:
//   - peer_private_data: InfiniBand and RoCE pad it with zeros (to 56 bytes in a request, 196 in a
//     reply). A request carries at most 56 bytes there.
//   - While the link of an InfiniBand or RoCE device is down, peers do not learn of connections
//     that end here. They learn of it when the link is up again (wire/dat/verbs/connection.h has
//     the reason).
//   - A fault that the peer found (a refused key) ends an InfiniBand or RoCE connection with a work
//     completion that names it. iWARP writes and sends complete before the peer checks them: the
//     connection just ends, and kDisconnected may carry an OK status.
//   - siw checks contexts, bounds and the remote-write right, but a peer can RDMA-read any region
//     of the domain whose context it knows or guesses. siw does not report invalidated_context. It
//     opens its TCP connection inside Connect, which blocks while the peer's host does not answer.
//     It reports sends before earlier reads (wire/dat/verbs/send_queue.h). Memory
//     of an unsignaled send must stay unchanged until a later completion (wire/dat/verbs/device.h).
//   - Memory windows (type 2) are bound and ended by requests to the queue pair. siw has none.
//     rdma_rxe (Linux 6.1.192) has windows and enforces their right, their queue pair and their
//     end, but not their bounds: a peer can access the whole region that contains the window.
//     rdma_rxe reports remote invalidation by a flag of the kernel's (progress.cc). Ending a window
//     that is not bound (by the owner's request, or by the peer's second Send with Invalidate)
//     dereferences a null pointer in the kernel, which stops. Destroying a queue pair that still
//     has a bound window takes a minute. So Domain::windows() advises against windows there.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "wire/dat/dat.h"

namespace dafs::dat {

struct VerbsOptions {
  // Sends and RDMA writes up to this size are copied into the work request. The device may support
  // less, or none. The default suffices for the header and arguments of a small request.
  uint32_t inline_bytes = 256;
  // After a connection was idle this long, the provider posts an empty RDMA write. The peer's
  // device acknowledges it, or the peer counts as dead. Without it, a peer that vanished would stay
  // undetected.
  absl::Duration probe_every = absl::Seconds(10);
  // Connect from a reserved port, as IwarpOptions::reserved_port. The connection manager gives a
  // port to only one connection of the machine at a time.
  bool reserved_port = true;
  // Connection requests that the kernel queues for a listener before it refuses more.
  int backlog = 512;
};

std::unique_ptr<Provider> NewVerbsProvider(const VerbsOptions& options = {});

}  // namespace dafs::dat
