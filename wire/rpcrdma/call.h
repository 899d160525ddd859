// One RPC, as a requester gives it to a connection and a responder's handler sees it. An argument
// or result that may travel apart from its message (a DDP-eligible data item, RFC 8166, 3.4) is
// named by its position: its offset in the XDR stream of the whole message. Values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/dat/dat.h"
#include "wire/rpcrdma/xdr.h"

namespace dafs::rpcrdma {

struct Call {
  // The RPC call with its XID, without the data of `arguments` and their padding.
  Bytes message;
  struct Argument {
    uint32_t position = 0;  // ascending
    // In a region of the connection's domain: kRemoteRead, or kWindows. With kWindows, the peer
    // may invalidate the window (a dynamic registration); otherwise it may not.
    dat::Segment data;
  };
  std::vector<Argument> arguments = {};
  // Memory for results, in regions of kRemoteWrite or kWindows. All memory is borrowed until the
  // call ends.
  std::vector<dat::Segment> results = {};
  // The size of the largest reply, without results that arrive in `results`.
  uint32_t max_reply_bytes = 512;
  // From the start of the call. After it the connection ends: only then may the peer no longer use
  // the memory.
  absl::Duration timeout = absl::Seconds(30);
};

struct Reply {
  Bytes message;  // the RPC reply; without the results that were placed
  // For each of Call::results, the bytes that were placed in it. Empty: the responder takes no
  // write chunks, so the results are in `message`.
  std::vector<uint32_t> placed;
};

// The call as a handler sees it. `message` is the whole RPC call and valid until the handler
// returns.
struct Request {
  std::span<const std::byte> message;
  // Whether the call arrived with a position-zero read chunk, or others. For tests and statistics.
  bool was_long = false;
  size_t read_chunks = 0;
  size_t write_chunks = 0;
};

struct Response {
  Bytes message;  // the RPC reply, without the data of `results` and their padding
  struct Result {
    uint32_t position = 0;  // ascending
    Bytes data;
  };
  // Result N goes into write chunk N of the call, or into the message if there is none.
  std::vector<Result> results = {};
};

// Answers a call at once. An error becomes RDMA2_ERR_SYSTEM, which ends the transaction.
using Handler = absl::AnyInvocable<absl::StatusOr<Response>(const Request&)>;

// `message` with each item of {position, data} at its position, padded (RFC 4506, 4.10). `apart`
// bytes, with padding, come before these items in the whole message and are not in `message`. An
// item whose position is after its end is appended.
template <class Item>
Bytes WithItems(std::span<const std::byte> message, std::span<const Item> items, size_t apart,
                const auto& bytes_of) {
  Bytes whole;
  size_t taken = 0;
  for (const Item& item : items) {
    const size_t done = whole.size() + apart;
    const size_t before = item.position > done ? item.position - done : 0;
    const auto part = message.subspan(taken, std::min(message.size() - taken, before));
    Append(whole, part);
    taken += part.size();
    Append(whole, bytes_of(item));
    whole.resize(XdrPadded(whole.size()));
  }
  Append(whole, message.subspan(taken));
  return whole;
}

}  // namespace dafs::rpcrdma
