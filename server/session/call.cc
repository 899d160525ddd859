#include "server/session/call.h"

#include <utility>

#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

std::span<std::byte> Call::out() const {
  std::span<std::byte> memory = request_.outgoing->buffer->memory();
  const uint32_t most = session_.terms().negotiated().max_response_size;
  return most == 0 || most > memory.size() ? memory : memory.first(most);
}

Pool& Call::pool() { return request_.own_pool != nullptr ? *request_.own_pool : session_.pool(); }

bool Call::checksums() const { return request_.verdict.checksum_due; }

uint32_t Call::inline_write_header_size() const {
  return session_.terms().negotiated().inline_write_header_size;
}

wire::ResponseHeader Call::ResponseHeader(DafsStatus status) {
  wire::ResponseHeader header =
      wire::ResponseTo(request_.verdict.header, status,
                       session_.requests().flow().Target(request_.header().desired_nreq));
  header.protocol_version = request_.verdict.response_version;
  if (status == DafsStatus::kOk && request_.modification && request_.modification->Keep()) {
    request_.promises |= wire::kSpcondNames;
  }
  header.spec_cond = session_.IsVoid() ? wire::kSpcondVoid : request_.promises;
  return header;
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
  // 9.3: of the statuses found before step 10, only INVAL (step 8) comes with a result of SETATTR.
  if (status == DafsStatus::kInval) return FinishError(status);
  wire::ResponseHeader header = ResponseHeader(status);
  Complete(status, wire::EncodeResponseHeaderOnly(header, order(), out(), checksums()));
}

void Call::Complete(DafsStatus status, size_t response_bytes) {
  session_.requests().Complete(request_, status, response_bytes);
}

}  // namespace dafs::server
