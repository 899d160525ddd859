#include "client/files/transfer_policy.h"

#include <algorithm>
#include <atomic>

#include "client/recovery/data_calls.h"
#include "client/session/call.h"
#include "client/session/connection.h"
#include "client/session/session.h"

namespace dafs::client {
namespace {

constexpr uint32_t kLeastAppend = 65536;  // MAX_APPEND is at least this, WIRE 5.3

// The server's limit `reported`, or `otherwise` before it has reported one.
uint64_t LimitOf(const std::atomic<uint64_t>& reported, uint64_t otherwise) {
  const uint64_t most = reported.load(std::memory_order_relaxed);
  return most == 0 ? otherwise : most;
}

uint32_t LeastOf(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<uint32_t>(std::min({a, b, c}));
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

uint32_t TransferPolicy::InlineWriteRoom() const {
  uint32_t message = client_.options().max_request_size;
  if (Session* session = connection_.session()) message = session->negotiated().max_request_size;
  return message - kWriteInlineData;
}

bool TransferPolicy::NeedsInlineWrites() const {
  if (client_.limits().no_direct_writes.load(std::memory_order_relaxed)) return true;
  Session* session = connection_.session();
  return session != nullptr && session->must_write_inline();
}

bool TransferPolicy::RefusedAsDirect(const CallBase& call) {
  if (!call.answered) return false;
  if (call.status == wire::DafsStatus::kNotSupp) {
    client_.limits().no_direct_writes.store(true, std::memory_order_relaxed);
    return true;
  }
  if (call.status != wire::DafsStatus::kRdmaReadChannelUnusable) return false;
  Session* session = connection_.session();
  // A reply fetched from the Response Cache does not concern the present session.
  if (session != nullptr && session->negotiated().session_id == call.xid.session_id) {
    session->WriteInline();
  }
  return true;
}

}  // namespace dafs::client
