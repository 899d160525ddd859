// The responder of one direction: takes calls, reads their read chunks, runs the handler, writes
// results into the chunks that the requester provided, and replies. Spec: RPCRDMA2 7.2.1 to 7.2.4;
// RFC 8166, 3.4, 3.5 and 5. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "wire/rpcrdma/call.h"
#include "wire/rpcrdma/link.h"
#include "wire/rpcrdma/read_chunks.h"

namespace dafs::rpcrdma {

class Responder {
 public:
  // `link` outlives it. The channel exists. Without a handler every call gets RDMA2_ERR_SYSTEM.
  static absl::StatusOr<std::unique_ptr<Responder>> Create(Link& link, Handler handler);

  // A call. `payload` is the RPC message after `header`, or a part of it.
  void OnCall(const Header& header, std::span<const std::byte> payload);

  // Answers the message of `header` with an error. Version 1 has two codes only; all others become
  // its ERR_CHUNK there.
  void Refuse(const Header& header, ErrorBody error);

  uint64_t answered() const { return answered_; }
  uint64_t refused() const { return refused_; }

 private:
  struct Slot {
    size_t index = 0;
    Header header;
    Request request;
    Bytes inline_part;              // of the message, while chunks are read
    ReadPlan plan;                  // of the message
    size_t reads = 0;               // posted and not done, and one while they are posted
    absl::Status failed;            // a read
    std::vector<ReadChunk> chunks;  // after the position-zero chunk
    bool reads_message = false;     // the position-zero chunk is being read
    size_t message_bytes = 0;       // of that chunk
    size_t written = 0;             // bytes of the slot's memory that hold results
  };

  explicit Responder(Link& link, Handler handler) : link_(link), handler_(std::move(handler)) {}

  // Whether the call is within our limits. Otherwise it has been refused.
  bool CheckLimits(const Header& header, const std::vector<ReadChunk>& chunks);
  void StartReads(Slot& slot);
  void Read(Slot& slot, dat::Segment into, const Segment& from);
  void OnRead(Slot& slot, const absl::Status& status);
  void AfterReads(Slot& slot);
  void ReadPieces(Slot& slot);
  void Answer(Slot& slot, std::span<const std::byte> message);
  // Writes into `chunk` and sets its lengths to what they hold.
  absl::Status WriteInto(Slot& slot, WriteChunk& chunk, std::span<const std::byte> data);
  // Places the results that have chunks; the reply's message has the others.
  std::optional<ErrorBody> PlaceResults(Slot& slot, const Response& response, Header& reply,
                                        Bytes* message);
  void SendReply(Slot& slot, Header reply, const Bytes& message);
  std::optional<uint32_t> HandleToInvalidate(const Header& call) const;
  void Free(Slot& slot) { free_.push_back(slot.index); }
  uint32_t Grant(uint32_t asked) const;

  Link& link_;
  Handler handler_;
  // Of slot N: the inline part or position-zero chunk, the whole message, and what is written.
  std::optional<Slab> heads_, messages_, results_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<size_t> free_;
  uint64_t answered_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace dafs::rpcrdma
