// The Direct Access Transport (DAT) seam: send, receive, RDMA write and RDMA read over one
// reliable, ordered connection, with registered memory named by {32-bit context, 64-bit target
// address}. Spec: 2.3, appendix B; WIRE 11.1, 11.6. Providers: iwarp (RFC 5040/5041/5044 over TCP),
// verbs.
//
// Nothing here blocks unless it says so. A Domain, its Regions and its Endpoints belong to one
// thread. All work is posted and reported by Endpoint::Poll; to sleep, call Arm and wait on what
// it returns (runtime/loop.h does).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/dat/address.h"

namespace dafs::dat {

// What a peer may do to a region. A local owner may always read and write it.
enum class Access : uint8_t {
  kLocal = 0,        // nothing: send and receive buffers, sources and sinks of our own RDMA
  kRemoteRead = 1,   // the peer may RDMA-read it (DAFS: data of WRITE_DIRECT)
  kRemoteWrite = 2,  // the peer may RDMA-write it (DAFS: target of READ_DIRECT)
  kRemoteBoth = 3,
  // Nothing by the context of the region itself: a peer reaches it by memory windows (PostBind).
  kWindows = 4,
};

// Registered memory. Deregisters when destroyed; the memory itself stays the caller's and must
// outlive the region. Destroy only when no posted work and no peer can use it any more.
class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  Access access() const { return access_; }
  // The RMR context (STag, R_Key) and the target address of memory()[0], as a peer names them.
  uint32_t context() const { return context_; }
  uint64_t target_address() const { return target_address_; }
  uint64_t TargetAddressOf(const std::byte* at) const {
    return target_address_ + static_cast<uint64_t>(at - memory_.data());
  }

 protected:
  Region(std::span<std::byte> memory, Access access, uint32_t context, uint64_t target_address)
      : memory_(memory), access_(access), context_(context), target_address_(target_address) {}

 private:
  std::span<std::byte> memory_;
  Access access_;
  uint32_t context_;
  uint64_t target_address_;
};

// A protection domain: its regions can be reached through its endpoints only. One per session
// (all channels of a session share it). Outlives its regions and endpoints.
class Domain {
 public:
  virtual ~Domain() = default;
  // Pins and registers `memory` (any alignment; page-aligned is cheapest). Slow: never on a data
  // path. kResourceExhausted: a memory-lock or device limit, with the remedy in the message.
  virtual absl::StatusOr<std::unique_ptr<Region>> Register(std::span<std::byte> memory,
                                                           Access access) = 0;
  // Whether memory windows can be bound to regions of Access::kWindows here. kUnimplemented: there
  // are none. kFailedPrecondition: there are, but they do less or cost more than a caller would
  // think; who knows the reason, which is in the message, may use them nevertheless.
  virtual absl::Status windows() const {
    return absl::UnimplementedError("this transport has no memory windows");
  }
};

// A piece of local registered memory: the local side of posted work. `region` contains it.
struct Segment {
  std::byte* data = nullptr;
  uint32_t size_bytes = 0;
  const Region* region = nullptr;
};

// Memory of the peer, as it advertised it.
struct RemoteBuffer {
  uint64_t target_address = 0;
  uint32_t context = 0;
};

enum class Event : uint8_t {
  kConnected,     // the connection is up; private data of the peer is there
  kReceive,       // one posted receive was filled: `size_bytes` of one message
  kSend,          // the send with this cookie is done with its buffers
  kRdmaWrite,     // the buffers may be used again (says nothing about arrival)
  kRdmaRead,      // the data is in the local segments
  kInvalidated,   // the window is ended: no peer can reach memory by it any more
  kDisconnected,  // the last event of an endpoint; `status` says why (OK: orderly close by the
                  // peer)
};

struct Completion {
  Event event = Event::kDisconnected;
  uint64_t cookie = 0;      // the caller's, from the post
  uint32_t size_bytes = 0;  // kReceive: length of the message
  absl::Status status;  // not OK: the work failed or was flushed; buffers are the caller's again
  std::optional<uint32_t> invalidated_context;  // kReceive: the sender invalidated this context
};

struct EndpointOptions {
  uint32_t max_receives = 32;   // receives posted at once, at most
  uint32_t max_sends = 32;      // sends + RDMA operations posted and not completed, at most
  uint32_t max_rdma_reads = 8;  // RDMA reads in flight; further ones wait inside the provider
  uint32_t max_segments = 4;    // segments of one post, at most; see Endpoint::max_segments()
  uint32_t max_windows = 0;     // memory windows that are bound or being ended, at most
};

// What to wait on before sleeping. fd < 0: do not sleep, there is something to poll.
struct WaitHandle {
  int fd = -1;
  uint32_t events = 0;  // epoll(7) events
};

// One end of a connection. States: made -> (Connect or Accept) -> connected -> disconnected.
// Ordering (appendix B): sends arrive in order; an RDMA write posted before a send is visible
// to the peer before that send's receive completes; RDMA reads complete in the order posted among
// themselves but a send posted after a read does not wait for it. A failed post or a fault of the
// peer ends the connection: all outstanding work is reported with an error, then kDisconnected.
// After kDisconnected the peer can no longer touch any region through this endpoint. Destroying an
// endpoint closes it abruptly and discards its completions; on return the transport uses none of
// its buffers.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Exactly one of these, once, after receives were posted. `private_data`: at most 196 bytes
  // (verbs limit is the provider's to check: at least 48). kConnected or kDisconnected follows from
  // Poll.
  virtual absl::Status Connect(std::span<const std::byte> private_data) = 0;  // client's endpoint
  virtual absl::Status Accept(std::span<const std::byte> private_data) = 0;   // server's endpoint

  // Posts. kResourceExhausted: more than the options allow (nothing posted); kUnavailable:
  // disconnected; kInvalidArgument: a segment outside its region, too many segments. Buffers belong
  // to the transport until their completion. Receives may be posted before Connect or Accept.
  virtual absl::Status PostReceive(uint64_t cookie, Segment into) = 0;
  struct SendOptions {
    bool signaled = true;  // false: no kSend completion unless it fails; buffers are free once a
                           // later signaled send completed
    std::optional<uint32_t> invalidate_context;  // Send with Invalidate: the peer's context
    bool more = false;  // another post follows at once: this one may wait for it, until Flush
                        // or Poll at the latest, and leave with it
  };
  virtual absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                                const SendOptions& options) = 0;
  // One that is not signaled may wait as a send with `more` does: the peer knows nothing of it
  // before a send behind it.
  virtual absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from,
                                     RemoteBuffer to, bool signaled) = 0;
  // May wait as a send with `more` does, so that several leave together.
  virtual absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                                    RemoteBuffer from) = 0;

  // Memory windows: a context of its own for `part`, which lies in a region of Access::kWindows,
  // with `access` (kRemoteRead or kRemoteWrite) and no more, for the peer of this endpoint.
  // Posted: it holds for what is posted behind it, which it may wait for, and has no completion. It
  // lasts until the peer invalidates it (PostSend with invalidate_context;
  // Completion::invalidated_context), until PostInvalidate is done, or to the end of the endpoint,
  // whichever is first; the region outlasts it. Errors as of the other posts, with max_windows;
  // kUnimplemented: no windows here.
  virtual absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) {
    (void)part, (void)access;
    return absl::UnimplementedError("this transport has no memory windows");
  }
  // Ends a window of ours: kInvalidated with `cookie` follows. kNotFound: there is no such window
  // any more; no peer can reach anything by it, and nothing follows.
  virtual absl::Status PostInvalidate(uint64_t cookie, uint32_t context) {
    (void)cookie, (void)context;
    return absl::NotFoundError("this transport has no memory windows");
  }
  // Whether sends can invalidate a context of the peer.
  virtual bool can_invalidate() const { return true; }

  // No further post follows those that wait for one.
  virtual void Flush() {}

  // Makes progress and fills up to `out.size()` completions; returns how many. Never blocks.
  virtual size_t Poll(std::span<Completion> out) = 0;

  // Prepares for sleep: the returned fd becomes ready when Poll may have something to do.
  virtual WaitHandle Arm() = 0;

  // Orderly close: what was posted goes out first, then the connection ends; kDisconnected follows.
  virtual void Disconnect() = 0;
  // Ends the connection now. kDisconnected follows from the next Poll.
  virtual void Abort(absl::Status why) = 0;

  // Private data of the peer, valid after kConnected (client) or from the start (server).
  virtual std::span<const std::byte> peer_private_data() const = 0;
  virtual const Address& peer() const = 0;
  virtual uint32_t max_segments() const = 0;
  // "iwarp over TCP, CRC32C off", "verbs device siw0 port 1": for logs and dafsctl.
  virtual std::string description() const = 0;
};

// An endpoint in the making: the route (client) or the connection request (server) is known, so
// the device is; the caller chooses the domain. Dropping it refuses or forgets the connection.
class PendingEndpoint {
 public:
  virtual ~PendingEndpoint() = default;
  virtual absl::StatusOr<std::unique_ptr<Domain>> NewDomain() = 0;
  // Whether `domain` is of the same device, so that this connection can join its session's.
  virtual bool Fits(const Domain& domain) const = 0;
  // Once. `domain` outlives the endpoint.
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(Domain& domain,
                                                                   const EndpointOptions&) = 0;
  virtual std::span<const std::byte> peer_private_data() const = 0;  // empty for the client's
  virtual const Address& peer() const = 0;
};

// Accepts connections. Belongs to one thread; a PendingEndpoint may be moved to another thread
// before CreateEndpoint is called there.
class Listener {
 public:
  virtual ~Listener() = default;
  // The next connection request whose private data has arrived, or nullptr when there is none
  // now. Never blocks. Peers that do not finish their request in time are dropped (bounded).
  virtual absl::StatusOr<std::unique_ptr<PendingEndpoint>> Next() = 0;
  virtual WaitHandle Arm() = 0;
  virtual const Address& local() const = 0;  // with the port chosen when 0 was asked
};

// A transport. Thread-safe.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual const char* name() const = 0;  // "tcp", "rdma": the value of -o proto=
  // kUnavailable: no such device or address here, with what to do.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& local) = 0;
  // Finds route and device to `peer`; `device` (empty: by route) as in -o rdmadev=.
  // Blocks at most `timeout`. kUnavailable: no route or no device; kDeadlineExceeded.
  virtual absl::StatusOr<std::unique_ptr<PendingEndpoint>> Resolve(const Address& peer,
                                                                   const std::string& device,
                                                                   absl::Duration timeout) = 0;
};

}  // namespace dafs::dat
