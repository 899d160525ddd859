#include "server/session/call.h"

#include <utility>

#include "server/session/own_pool.h"
#include "server/session/session.h"
#include "server/session/shared/pool.h"
#include "server/store/procedures/attribute_procedures.h"
#include "wire/protocol/broken_lock.h"
#include "wire/protocol/fenced.h"

namespace dafs::server {

using wire::DafsStatus;

std::span<std::byte> Call::out() const {
  std::span<std::byte> memory = request_.outgoing->buffer->memory();
  const uint32_t most = session_.terms().negotiated().max_response_size;
  return most == 0 || most > memory.size() ? memory : memory.first(most);
}

Pool& Call::pool() { return PoolFor(session_.shared(), request_.own_pool); }

bool Call::checksums() const { return request_.verdict.checksum_due; }

uint32_t Call::inline_write_header_size() const {
  return session_.terms().negotiated().inline_write_header_size;
}

wire::ResponseHeader Call::ResponseHeader(DafsStatus status) {
  wire::ResponseHeader header =
      wire::ResponseTo(request_.verdict.header, status,
                       session_.requests().flow().Target(request_.header().desired_nreq));
  header.protocol_version = request_.verdict.response_version;
  EndModification(status);
  header.spec_cond = session_.IsVoid() ? wire::kSpcondVoid : request_.promises;
  if (session_.identity().known() && session_.identity().client().locations().changed()) {
    header.spec_cond |= wire::kSpcondFailover;
  }
  if (status == DafsStatus::kAcces && request_.fenced_off && session_.terms().has_extensions()) {
    header.spec_cond |= wire::kSpcondFenced;
  }
  if (status == DafsStatus::kStaleStateId && request_.lock_broken &&
      session_.terms().has_extensions()) {
    header.spec_cond |= wire::kSpcondBrokenLock;
  }
  return header;
}

void Call::EndModification(DafsStatus status) {
  if (!request_.modification) return;
  if (status == DafsStatus::kOk && request_.modification->Keep()) {
    request_.promises |= wire::kSpcondNames;
  }
  request_.modification.reset();
}

bool Call::WantsAttributes(DafsStatus status) const {
  return status == DafsStatus::kOk && !request_.after.has_value() &&
         (header().chain_flags & wire::kChfAnyAttributes) != 0;
}

void Call::ReadAttributes(const wire::FileHandle& current, const wire::FileHandle* other) {
  EndModification(DafsStatus::kOk);
  wire::AttributesAfter& after = request_.after.emplace();
  const uint16_t flags = header().chain_flags;
  if ((flags & wire::kChfAttributes) != 0) {
    ReadAttributes(current, &after.current, &after.current_promise);
  }
  if ((flags & wire::kChfOtherAttributes) != 0 && other != nullptr) {
    ReadAttributes(*other, &after.other, &after.other_promise);
  }
}

// As a GETATTR would. If that fails, must wait for the holder of a delegation, or needs the pool of
// another export, the client sends a GETATTR.
void Call::ReadAttributes(const wire::FileHandle& file, wire::FileAttributes* attributes,
                          uint16_t* promise) {
  // GET_ROOT_HANDLE names no export, so it runs on the worker even if the root may hang.
  const Pool* const pool = OwnPool(session_.shared(), file.fshandle);
  if (pool != nullptr && pool != request_.own_pool) return;
  Caller& caller = request_.caller;
  AwaitedDelegations awaited;
  caller.awaited = &awaited;
  uint16_t* const promises = caller.promises;
  if (promises != nullptr) caller.promises = promise;
  DafsStatus status =
      session_.store().attributes().Getattr(caller, file, wire::kAttributesAfter, attributes);
  if (status == DafsStatus::kOk) status = NameOwners(session_.shared().ids, *attributes, promise);
  caller.promises = promises;
  caller.awaited = nullptr;
  if (status != DafsStatus::kOk) *attributes = {};
}

DafsStatus Call::NumberOwnersIn(wire::FileAttributes& attributes) const {
  return NumberOwners(session_.shared().ids, attributes);
}

size_t Call::AppendAttributes(size_t response_bytes) {
  wire::AttributesAfter& after = *request_.after;
  if (session_.IsVoid()) after.current_promise = after.other_promise = 0;
  const absl::StatusOr<size_t> size =
      wire::AppendAttributes(after, order(), out(), response_bytes, checksums());
  if (!size.ok()) return response_bytes;  // no room: the client sends a GETATTR
  request_.attributes_bytes = *size - response_bytes;
  return *size;
}

void Call::OnPool(absl::AnyInvocable<void()> work) {
  request_.on_pool = true;
  request_.own_pool->Submit(std::move(work));
}

void Call::OnLoop(absl::AnyInvocable<void()> work) {
  session_.loop().Post([this, work = std::move(work)]() mutable {
    request_.on_pool = false;
    work();
  });
}

void Call::FinishError(DafsStatus status) {
  if (request_.on_pool) return OnLoop([this, status] { FinishError(status); });
  wire::EncodeOptions options;
  options.checksum = checksums();
  wire::ResponseHeader header = ResponseHeader(status);
  absl::StatusOr<size_t> size =
      wire::EncodeErrorResponse(header, request_.verdict.header.procedure, order(), out(), options);
  Complete(status, size.ok() ? *size : 0);
}

void Call::FinishStored(DafsStatus status, size_t response_bytes) {
  wire::WriteResponseHeader(ResponseHeader(status), order(), out(), response_bytes, checksums());
  Complete(status, response_bytes);
}

void Call::FinishUnexecuted(DafsStatus status) {
  // Otherwise a client that asks after the loss of the response would take this for the result.
  // Without an entry it learns that the request was not executed, and may issue it again.
  NotRemembered();
  // 9.3: of the statuses found before step 10, only INVAL (step 8) comes with a result of SETATTR.
  if (status == DafsStatus::kInval) return FinishError(status);
  wire::ResponseHeader header = ResponseHeader(status);
  Complete(status, wire::EncodeResponseHeaderOnly(header, order(), out(), checksums()));
}

void Call::Complete(DafsStatus status, size_t response_bytes) {
  session_.requests().Complete(request_, status, response_bytes);
}

}  // namespace dafs::server
