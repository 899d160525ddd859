#include "client/files/shared/transfer_policy.h"

#include <algorithm>
#include <atomic>

#include "client/exchange/call.h"
#include "client/recovery/calls/data_calls.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"

namespace dafs::client {
namespace {

constexpr uint32_t kLeastAppend = 65536;  // MAX_APPEND is at least this, WIRE 5.3
constexpr uint32_t kLeastWrite = 1024;    // writes are made no smaller than this, WIRE 11.3

// The server's limit `reported`, or `otherwise` before it has reported one.
uint64_t LimitOf(const std::atomic<uint64_t>& reported, uint64_t otherwise) {
  const uint64_t most = reported.load(std::memory_order_relaxed);
  return most == 0 ? otherwise : most;
}

uint32_t LeastOf(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<uint32_t>(std::min({a, b, c}));
}

// Whether the server answered that it has no such direct request; records that in `lacks`.
bool LacksDirect(Way way, const CallBase& call, std::atomic<bool>& lacks) {
  if (way == Way::kInline || !call.answered || call.status != wire::DafsStatus::kNotSupp) {
    return false;
  }
  lacks.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace

uint32_t TransferPolicy::read_bytes() const {
  return LeastOf(LimitOf(client_.limits().max_read, UINT64_MAX), client_.options().read_bytes,
                 buffers_.large_bytes());
}

uint32_t TransferPolicy::write_bytes() const {
  return LeastOf(LimitOf(client_.limits().max_write, UINT64_MAX), client_.options().write_bytes,
                 buffers_.large_bytes());
}

uint32_t TransferPolicy::append_bytes() const {
  uint64_t most = LimitOf(client_.limits().max_append, kLeastAppend);
  if (NeedsInlineWrites()) most = std::min<uint64_t>(most, InlineWriteRoom());
  return LeastOf(most, client_.options().write_bytes, buffers_.large_bytes());
}

Transfer TransferPolicy::ForRead(uint32_t bytes, bool registered) const {
  const ClientOptions& options = client_.options();
  const uint32_t room = options.max_response_size - kReadInlineData;
  const bool must_inline =
      client_.limits().no_direct_reads.load(std::memory_order_relaxed) || !registered;
  if (must_inline || bytes <= std::min(options.inline_read_bytes, room)) {
    return {Way::kInline, std::min(bytes, room)};
  }
  return {Way::kDirect, bytes};
}

Transfer TransferPolicy::ForWrite(uint32_t bytes, bool registered) const {
  bytes = std::min(bytes, write_bytes());
  if (!registered || WayToWrite(bytes) == Way::kInline) {
    return {Way::kInline, std::min(bytes, InlineWriteRoom())};
  }
  return {Way::kDirect, bytes};
}

Way TransferPolicy::WayToWrite(uint32_t bytes) const {
  const bool small = bytes <= std::min(client_.options().inline_write_bytes, InlineWriteRoom());
  return small || NeedsInlineWrites() ? Way::kInline : Way::kDirect;
}

Way TransferPolicy::WayToList() const {
  return client_.limits().no_direct_readdir.load(std::memory_order_relaxed) ? Way::kInline
                                                                            : Way::kDirect;
}

uint32_t TransferPolicy::InlineWriteRoom() const {
  uint32_t message = client_.options().max_request_size;
  if (Session* session = session_keeper_.session())
    message = session->negotiated().max_request_size;
  return message - kWriteInlineData;
}

bool TransferPolicy::NeedsInlineWrites() const {
  if (client_.limits().no_direct_writes.load(std::memory_order_relaxed)) return true;
  Session* session = session_keeper_.session();
  return session != nullptr && session->must_write_inline();
}

bool TransferPolicy::LearnFromRead(Way way, const CallBase& call) {
  return LacksDirect(way, call, client_.limits().no_direct_reads);
}

bool TransferPolicy::LearnFromList(Way way, const CallBase& call) {
  return LacksDirect(way, call, client_.limits().no_direct_readdir);
}

bool TransferPolicy::LearnFromWrite(Way way, const CallBase& call) {
  if (LacksDirect(way, call, client_.limits().no_direct_writes)) return true;
  if (way == Way::kInline || !call.answered ||
      call.status != wire::DafsStatus::kRdmaReadChannelUnusable) {
    return false;
  }
  Session* session = session_keeper_.session();
  // A reply fetched from the Response Cache does not concern the present session.
  if (session != nullptr && session->negotiated().session_id == call.xid.session_id) {
    session->WriteInline();
  }
  return true;
}

bool TransferPolicy::LearnFromSize(const Transfer& transfer, wire::DafsStatus refused) {
  if (refused == wire::DafsStatus::kTooSmall) {
    return transfer.way == Way::kInline && InlineWriteRoom() < transfer.bytes;
  }
  if (refused != wire::DafsStatus::kWriteTooBig || transfer.bytes <= kLeastWrite) return false;
  client_.limits().max_write.store(transfer.bytes / 2, std::memory_order_relaxed);
  return true;
}

}  // namespace dafs::client
