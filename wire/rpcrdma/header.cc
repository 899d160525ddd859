#include "wire/rpcrdma/header.h"

#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {
namespace {

// The least bytes of one element on the wire.
constexpr size_t kSegmentBytes = 16, kPropertyBytes = 8, kWordBytes = 4;

void Code(auto& xdr, auto& segment) { xdr(segment.handle, segment.length, segment.offset); }

void CodeChunk(auto& xdr, auto& chunk) {
  XdrArray(xdr, chunk, kSegmentBytes, [&](auto& segment) { Code(xdr, segment); });
}

template <class Xdr>
void CheckDirection(Xdr& xdr, Direction direction) {
  if constexpr (Xdr::kDecodes) {
    if (direction != Direction::kCall && direction != Direction::kReply) xdr.Fail();
  }
}

void CodeChunks(auto& xdr, auto& chunks, uint32_t version) {
  if (version != kVersion1) {
    xdr(chunks.direction, chunks.invalidate);
    CheckDirection(xdr, chunks.direction);
  }
  XdrList(xdr, chunks.reads, [&](auto& read) {
    xdr(read.position);
    Code(xdr, read.target);
  });
  XdrList(xdr, chunks.writes, [&](auto& chunk) { CodeChunk(xdr, chunk); });
  XdrOptional(xdr, chunks.reply, [&](auto& chunk) { CodeChunk(xdr, chunk); });
}

template <class Xdr>
void CodeError(Xdr& xdr, auto& error) {
  xdr(error.code);
  switch (error.code) {
    case ErrorCode::kVersion:
      return xdr(error.low, error.high);
    case ErrorCode::kReadChunks:
    case ErrorCode::kWriteChunks:
    case ErrorCode::kSegments:
      return xdr(error.most);
    case ErrorCode::kWriteResource:
      return xdr(error.chunk_index, error.length_needed);
    case ErrorCode::kReplyResource:
      return xdr(error.length_needed);
    case ErrorCode::kBadXdr:
    case ErrorCode::kInvalidProcedure:
    case ErrorCode::kInvalidOption:
    case ErrorCode::kSystem:
      return;
  }
  if constexpr (Xdr::kDecodes) xdr.Fail();
}

void CodeOptional(auto& xdr, auto& optional) {
  xdr(optional.direction, optional.type, optional.info);
  CheckDirection(xdr, optional.direction);
}

void CodeSet(auto& xdr, auto& set) {
  XdrArray(xdr, set, kPropertyBytes, [&](auto& value) { xdr(value.which, value.data); });
}

void CodeSubset(auto& xdr, auto& subset) {
  XdrArray(xdr, subset, kWordBytes, [&](auto& word) { xdr(word); });
}

void CodeProperties(auto& xdr, auto& properties, Proc proc) {
  if (proc == Proc::kRespondProperties) {
    CodeSubset(xdr, properties.done);
    CodeSubset(xdr, properties.rejected);
  }
  CodeSet(xdr, properties.values);
  if (proc == Proc::kConnectionProperties) CodeSubset(xdr, properties.no_change);
}

// Returns false if the version does not have the procedure.
bool CodeBody(auto& xdr, auto& header) {
  const bool first = header.version == kVersion1;
  switch (header.proc) {
    case Proc::kMessage:
    case Proc::kNoMessage:
      CodeChunks(xdr, header.chunks, header.version);
      return true;
    case Proc::kError:
      CodeError(xdr, header.error);
      return true;
    case Proc::kOptional:
      if (!first) CodeOptional(xdr, header.optional);
      return !first;
    case Proc::kConnectionProperties:
    case Proc::kRequestProperties:
    case Proc::kRespondProperties:
    case Proc::kUpdateProperties:
      if (!first) CodeProperties(xdr, header.properties, header.proc);
      return !first;
  }
  return false;
}

}  // namespace

Bytes EncodeHeader(const Header& header) {
  Bytes bytes;
  XdrEncoder xdr(bytes);
  xdr(header.xid, header.version, header.credits, header.proc);
  CodeBody(xdr, header);
  return bytes;
}

DecodedHeader DecodeHeader(std::span<const std::byte> message) {
  DecodedHeader decoded;
  Header& header = decoded.header;
  XdrDecoder xdr(message);
  xdr(header.xid, header.version, header.credits, header.proc);
  if (!xdr.ok()) {
    decoded.fault = HeaderFault::kTooShort;
  } else if (header.version != kVersion1 && header.version != kVersion2) {
    decoded.fault = HeaderFault::kVersion;
  } else if (!CodeBody(xdr, header)) {
    decoded.fault = HeaderFault::kProcedure;
  } else if (!xdr.ok()) {
    decoded.fault = HeaderFault::kBadXdr;
  }
  decoded.size = xdr.position();
  return decoded;
}

std::string ErrorName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kVersion:
      return "RDMA2_ERR_VERS";
    case ErrorCode::kBadXdr:
      return "RDMA2_ERR_BAD_XDR";
    case ErrorCode::kInvalidProcedure:
      return "RDMA2_ERR_INVAL_PROC";
    case ErrorCode::kReadChunks:
      return "RDMA2_ERR_READ_CHUNKS";
    case ErrorCode::kWriteChunks:
      return "RDMA2_ERR_WRITE_CHUNKS";
    case ErrorCode::kSegments:
      return "RDMA2_ERR_SEGMENTS";
    case ErrorCode::kWriteResource:
      return "RDMA2_ERR_WRITE_RESOURCE";
    case ErrorCode::kReplyResource:
      return "RDMA2_ERR_REPLY_RESOURCE";
    case ErrorCode::kInvalidOption:
      return "RDMA2_ERR_INVAL_OPTION";
    case ErrorCode::kSystem:
      return "RDMA2_ERR_SYSTEM";
  }
  return absl::StrCat("error ", static_cast<uint32_t>(code));
}

}  // namespace dafs::rpcrdma
