// The interface of a Direct Access Transport (DAT): send, receive, RDMA write and RDMA read over
// one reliable, ordered connection. {32-bit context, 64-bit target address} names registered
// memory. Spec: 2.3, appendix B; WIRE 11.1, 11.6. Providers: iwarp (RFC 5040/5041/5044 over TCP),
// verbs.
//
// Nothing here blocks unless its comment says so. A Domain, its Regions and its Endpoints belong to
// one thread. All work is posted, and Endpoint::Poll reports its completion. To sleep, call Arm and
// wait on the returned descriptor (runtime/loop/loop.h does).
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
#include "runtime/loop/wait_handle.h"
#include "wire/dat/address.h"
#include "wire/dat/tls.h"

namespace dafs::dat {

// A peer's rights to a region. The local owner may always read and write it.
enum class Access : uint8_t {
  kLocal = 0,        // nothing: send and receive buffers, sources and sinks of our own RDMA
  kRemoteRead = 1,   // the peer may RDMA-read it (DAFS: data of WRITE_DIRECT)
  kRemoteWrite = 2,  // the peer may RDMA-write it (DAFS: target of READ_DIRECT)
  kRemoteBoth = 3,
  // No access by the region's own context. A peer reaches it through memory windows (PostBind).
  kWindows = 4,
};

// Registered memory. The destructor deregisters it. The memory stays the caller's and must outlive
// the region. Destroy a region only when no posted work and no peer can use it any more.
class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  Access access() const { return access_; }
  // The RMR context (STag, R_Key) and the target address of memory()[0], as the peer uses them.
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

// A protection domain. Only its own endpoints can reach its regions. One per session, shared by all
// channels of the session. Outlives its regions and endpoints.
class Domain {
 public:
  virtual ~Domain() = default;
  // Pins and registers `memory`. Any alignment is allowed; page alignment is cheapest. Slow: never
  // call it on a data path. Errors: kResourceExhausted for a memory-lock or device limit; the
  // message has the remedy.
  virtual absl::StatusOr<std::unique_ptr<Region>> Register(std::span<std::byte> memory,
                                                           Access access) = 0;
  // Whether memory windows can be bound to regions of Access::kWindows. kUnimplemented: there are
  // no windows. kFailedPrecondition: there are, but they protect less or cost more than a caller
  // expects. The message has the reason; a caller that accepts it may still use windows.
  virtual absl::Status windows() const {
    return absl::UnimplementedError("this transport has no memory windows");
  }
};

// A piece of registered local memory, for the local side of posted work. `region` contains it.
struct Segment {
  std::byte* data = nullptr;
  uint32_t size_bytes = 0;
  const Region* region = nullptr;
};

// Memory of the peer, as the peer advertised it.
struct RemoteBuffer {
  uint64_t target_address = 0;
  uint32_t context = 0;
};

enum class Event : uint8_t {
  kConnected,     // the connection is up; peer_private_data() is valid
  kReceive,       // one posted receive holds a message of `size_bytes`
  kSend,          // the send with this cookie no longer uses its buffers
  kRdmaWrite,     // the buffers may be reused (this does not mean that the data has arrived)
  kRdmaRead,      // the data is in the local segments
  kInvalidated,   // the window has ended: no peer can reach memory through it any more
  kDisconnected,  // the last event of an endpoint; `status` has the reason (OK: orderly close by
                  // the peer)
};

struct Completion {
  Event event = Event::kDisconnected;
  uint64_t cookie = 0;      // the caller's, from the post
  uint32_t size_bytes = 0;  // kReceive: length of the message
  absl::Status status;  // not OK: the work failed or was flushed; the caller owns the buffers again
  std::optional<uint32_t> invalidated_context;  // kReceive: the sender invalidated this context
};

struct EndpointOptions {
  uint32_t max_receives = 32;   // receives posted at the same time, at most
  uint32_t max_sends = 32;      // sends + RDMA operations posted and not completed, at most
  uint32_t max_rdma_reads = 8;  // RDMA reads in flight; further reads wait inside the provider
  uint32_t max_segments = 4;    // segments of one post, at most; see Endpoint::max_segments()
  uint32_t max_windows = 0;     // memory windows bound or being ended, at most
};

// One end of a connection. States: made -> (Connect or Accept) -> connected -> disconnected.
//
// Ordering (appendix B): sends arrive in order. An RDMA write posted before a send is visible to
// the peer before that send's receive completes. RDMA reads complete in the order posted among
// themselves, but a send posted after a read does not wait for the read.
//
// A failed post or a fault of the peer ends the connection: all outstanding work is reported with
// an error, then kDisconnected. After kDisconnected the peer can no longer access any region
// through this endpoint. Destroying an endpoint closes it abruptly and discards its completions.
// After the destructor returns, the transport uses none of its buffers.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Call exactly one of these, once, after posting receives. `private_data` has at most 196 bytes
  // (the verbs provider checks a limit of its own, at least 48). Poll then reports kConnected or
  // kDisconnected.
  virtual absl::Status Connect(std::span<const std::byte> private_data) = 0;  // client's endpoint
  virtual absl::Status Accept(std::span<const std::byte> private_data) = 0;   // server's endpoint

  // The posts. Errors: kResourceExhausted: more than the options allow (nothing was posted);
  // kUnavailable: disconnected; kInvalidArgument: a segment outside its region, or too many
  // segments. The transport owns the buffers until their completion. Receives may be posted before
  // Connect or Accept.
  virtual absl::Status PostReceive(uint64_t cookie, Segment into) = 0;
  struct SendOptions {
    // False: no kSend completion unless the send fails. The buffers are free after a later signaled
    // send has completed.
    bool signaled = true;
    std::optional<uint32_t> invalidate_context;  // Send with Invalidate: the peer's context
    // Another post follows at once. This one may wait for it, until Flush or Poll at the latest, so
    // that both leave together.
    bool more = false;
  };
  virtual absl::Status PostSend(uint64_t cookie, std::span<const Segment> from,
                                const SendOptions& options) = 0;
  // A write that is not signaled may wait like a send with `more`: the peer does not notice it
  // before a later send.
  virtual absl::Status PostRdmaWrite(uint64_t cookie, std::span<const Segment> from,
                                     RemoteBuffer to, bool signaled) = 0;
  // May wait like a send with `more`, so that several reads leave together.
  virtual absl::Status PostRdmaRead(uint64_t cookie, std::span<const Segment> into,
                                    RemoteBuffer from) = 0;

  // Binds a memory window: gives `part`, which lies in a region of Access::kWindows, a context of
  // its own. The context grants the peer of this endpoint exactly `access` (kRemoteRead or
  // kRemoteWrite). Like a post, it takes effect for everything posted after it, and may wait for
  // the next post. It has no completion.
  //
  // The window lasts until the peer invalidates it (PostSend with invalidate_context;
  // Completion::invalidated_context), until PostInvalidate completes, or until the endpoint ends,
  // whichever is first. The region must outlive it. Errors as for the other posts, with max_windows
  // as the limit; kUnimplemented: no windows here.
  virtual absl::StatusOr<RemoteBuffer> PostBind(const Segment& part, Access access) {
    (void)part, (void)access;
    return absl::UnimplementedError("this transport has no memory windows");
  }
  // Ends a window of ours; kInvalidated with `cookie` follows. kNotFound: the window does not exist
  // any more, so no peer can reach anything through it, and no completion follows.
  virtual absl::Status PostInvalidate(uint64_t cookie, uint32_t context) {
    (void)cookie, (void)context;
    return absl::NotFoundError("this transport has no memory windows");
  }
  // Whether sends can invalidate a context of the peer.
  virtual bool can_invalidate() const { return true; }

  // Releases posts that wait for a further post.
  virtual void Flush() {}

  // Makes progress, fills in up to `out.size()` completions and returns their number. Never blocks.
  virtual size_t Poll(std::span<Completion> out) = 0;

  // Prepares for sleep. The returned fd becomes ready when Poll may have work to do.
  virtual WaitHandle Arm() = 0;

  // Orderly close: posted work is sent first, then the connection ends. kDisconnected follows.
  virtual void Disconnect() = 0;
  // Ends the connection now. The next Poll reports kDisconnected.
  virtual void Abort(absl::Status why) = 0;

  // Private data of the peer. Valid after kConnected (client) or from the start (server).
  virtual std::span<const std::byte> peer_private_data() const = 0;
  virtual const Address& peer() const = 0;
  virtual uint32_t max_segments() const = 0;
  // The identity of the peer by TLS; null: the connection has no TLS. Valid as the private data.
  virtual std::shared_ptr<const TlsPeer> tls_peer() const { return nullptr; }
  // For logs and dafsctl: "iwarp over TCP, CRC32C off", "verbs device siw0 port 1".
  virtual std::string description() const = 0;
};

// A connection before its endpoint exists. The route (client) or the connection request (server) is
// known, and therefore the device; the caller chooses the domain. Destroying it abandons (client)
// or refuses (server) the connection.
class PendingEndpoint {
 public:
  virtual ~PendingEndpoint() = default;
  virtual absl::StatusOr<std::unique_ptr<Domain>> NewDomain() = 0;
  // Whether `domain` is on the same device, so that this connection can join the domain's session.
  virtual bool Fits(const Domain& domain) const = 0;
  // Call once. `domain` must outlive the endpoint.
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(Domain& domain,
                                                                   const EndpointOptions&) = 0;
  virtual std::span<const std::byte> peer_private_data() const = 0;  // empty on the client
  virtual const Address& peer() const = 0;
  virtual std::shared_ptr<const TlsPeer> tls_peer() const { return nullptr; }  // the server's
};

// Accepts connections. Belongs to one thread. A PendingEndpoint may move to another thread before
// CreateEndpoint is called there.
class Listener {
 public:
  virtual ~Listener() = default;
  // Returns the next connection request whose private data has arrived, or nullptr if there is none
  // now. Never blocks. Drops peers that do not complete their request in time, and bounds their
  // number.
  virtual absl::StatusOr<std::unique_ptr<PendingEndpoint>> Next() = 0;
  virtual WaitHandle Arm() = 0;
  virtual const Address& local() const = 0;  // with the chosen port if `local` had port 0
};

// A transport. Thread-safe.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual const char* name() const = 0;  // "tcp" or "rdma": the value of -o proto=
  // kUnavailable: no such device or address on this machine; the message has the remedy.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& local) = 0;
  // Finds the route and device to `peer`. `device` is as in -o rdmadev=; empty: by route. Blocks at
  // most `timeout`. Errors: kUnavailable (no route or no device), kDeadlineExceeded.
  virtual absl::StatusOr<std::unique_ptr<PendingEndpoint>> Resolve(const Address& peer,
                                                                   const std::string& device,
                                                                   absl::Duration timeout) = 0;
};

}  // namespace dafs::dat
