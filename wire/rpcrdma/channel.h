// One endpoint with its message buffers: sends and receives whole messages, and moves chunks. Does
// not interpret headers. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/rpcrdma/header.h"

namespace dafs::rpcrdma {

// Memory of equal parts, registered as one region.
class Slab {
 public:
  static absl::StatusOr<Slab> Create(dat::Domain& domain, size_t parts, uint32_t part_bytes,
                                     dat::Access access);
  // `size_bytes` of part `index`, from its byte `offset`.
  dat::Segment Part(size_t index, uint32_t size_bytes, uint32_t offset = 0) const {
    return {memory_.get() + index * part_bytes_ + offset, size_bytes, region_.get()};
  }
  uint32_t part_bytes() const { return part_bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  uint32_t part_bytes_ = 0;
  std::unique_ptr<dat::Region> region_;  // destroyed before the memory
};

class Channel {
 public:
  struct Sizes {
    uint32_t receives = 0;         // posted at the same time
    uint32_t sends = 0;            // messages not yet sent
    uint32_t message_bytes = 0;    // of each of these
    uint32_t rdma_operations = 0;  // reads and writes at the same time
    uint32_t windows = 0;
  };
  // Creates the endpoint and posts the receives. `pending` may be destroyed then.
  static absl::StatusOr<std::unique_ptr<Channel>> Create(dat::PendingEndpoint& pending,
                                                         const Sizes& sizes);

  // Receives events and messages. Its functions may post to the channel, and may not destroy it.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void OnConnected() = 0;
    // `message` is valid during the call. `invalidated`: the peer invalidated this context.
    virtual void OnMessage(std::span<const std::byte> message,
                           std::optional<uint32_t> invalidated) = 0;
    // No other call follows.
    virtual void OnDisconnected(const absl::Status& why) = 0;
  };
  // Returns whether there was any work.
  bool Poll(Receiver& receiver);

  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // Copies `header` and then `payload`, and sends them as one message; with `invalidate` by Send
  // with Invalidate. Calls `sent`, if not null, when this and all earlier writes no longer use
  // their memory. kResourceExhausted: too many messages wait for the peer.
  absl::Status Send(std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::optional<uint32_t> invalidate = std::nullopt, Done sent = nullptr);
  // Reads `from` into `into`, which is at least as long and stays until `done`.
  absl::Status Read(dat::Segment into, const Segment& from, Done done);
  // Writes `from`, which must stay until a later Send calls `sent`.
  absl::Status Write(const dat::Segment& from, const Segment& to);
  // Ends a window. `done` is called when no peer can use it, perhaps before this returns.
  absl::Status EndWindow(uint32_t context, Done done);

  // Destroys the endpoint: the transport uses no memory any more. Call nothing else after it.
  void Close() { endpoint_.reset(); }

  dat::Domain& domain() { return *domain_; }
  dat::Endpoint& endpoint() { return *endpoint_; }
  uint32_t message_bytes() const { return sizes_.message_bytes; }

 private:
  explicit Channel(const Sizes& sizes) : sizes_(sizes) {}
  absl::Status PostReceive(size_t index);
  uint64_t Remember(Done done);
  void Finish(const dat::Completion& completion);
  void Handle(const dat::Completion& completion, Receiver& receiver);

  const Sizes sizes_;
  std::unique_ptr<dat::Domain> domain_;
  std::optional<Slab> received_, sent_;
  std::vector<size_t> free_sends_;
  std::vector<Done> on_sent_;                       // of each send buffer
  absl::flat_hash_map<uint64_t, Done> operations_;  // reads and windows, by cookie
  uint64_t next_operation_ = 0;
  std::unique_ptr<dat::Endpoint> endpoint_;  // destroyed first: it uses the memory
};

}  // namespace dafs::rpcrdma
