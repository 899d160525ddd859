// The transport headers of RPC-over-RDMA. Spec: RPCRDMA2 7.2 (version 2); RFC 8166, section 4
// (version 1). The structs have the fields of version 2; version 1 uses some of them.
// Values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/rpcrdma/xdr.h"

namespace dafs::rpcrdma {

inline constexpr uint32_t kVersion1 = 1, kVersion2 = 2;

// msg_type of RFC 5531: also the direction of a transport header.
enum class Direction : uint32_t { kCall = 0, kReply = 1 };

// rpcrdma2_proc. Version 1 has the first three, and kMessagePadded and kDone, which RFC 8166
// retired.
enum class Proc : uint32_t {
  kMessage = 0,    // RDMA2_MSG: the RPC message follows
  kNoMessage = 1,  // RDMA2_NOMSG: the RPC message is in a position-zero read or a reply chunk
  kError = 4,
  kOptional = 5,
  // Spec gap: 6.3 has these as operations 1 to 4 of RDMA2_OPTIONAL, and the XDR of 7.2 as
  // procedures. We use procedures, because a change of the XDR would be another version.
  kConnectionProperties = 6,
  kRequestProperties = 7,
  kRespondProperties = 8,
  kUpdateProperties = 9,
};

// rpcrdma2_segment: memory that its owner has registered. `handle` is the STag.
struct Segment {
  uint32_t handle = 0;
  uint32_t length = 0;
  uint64_t offset = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// `position` is the offset of the data in the XDR stream of the whole RPC message. Successive
// segments with one position are one read chunk.
struct ReadSegment {
  uint32_t position = 0;
  Segment target;
  friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
};

using WriteChunk = std::vector<Segment>;

struct ChunkLists {                        // rpcrdma2_chunk_lists
  Direction direction = Direction::kCall;  // version 2 only
  uint32_t invalidate = 0;                 // rdma_inv_handle; version 2 only
  std::vector<ReadSegment> reads;
  std::vector<WriteChunk> writes;
  std::optional<WriteChunk> reply;
  friend bool operator==(const ChunkLists&, const ChunkLists&) = default;
};

enum class ErrorCode : uint32_t {  // rpcrdma2_errcode; version 1 has the first two
  kVersion = 1,
  kBadXdr = 2,  // ERR_CHUNK in version 1
  kInvalidProcedure = 3,
  kReadChunks = 4,
  kWriteChunks = 5,
  kSegments = 6,
  kWriteResource = 7,
  kReplyResource = 8,
  kInvalidOption = 9,
  kSystem = 10,
};

struct ErrorBody {  // rpcrdma2_error
  ErrorCode code = ErrorCode::kSystem;
  uint32_t low = 0, high = 0;  // kVersion: the range of versions
  uint32_t most = 0;           // kReadChunks, kWriteChunks: chunks; kSegments: of a chunk
  uint32_t chunk_index = 0;    // kWriteResource: from 1; 0: unknown
  uint32_t length_needed = 0;  // kWriteResource, kReplyResource: bytes
  friend bool operator==(const ErrorBody&, const ErrorBody&) = default;
};

struct OptionalBody {  // rpcrdma2_optional
  Direction direction = Direction::kCall;
  uint32_t type = 0;
  Bytes info;
  friend bool operator==(const OptionalBody&, const OptionalBody&) = default;
};

struct PropertyValue {  // rpcrdma2_propval
  uint32_t which = 0;
  Bytes data = {};  // XDR of the property's type; empty: the default
  friend bool operator==(const PropertyValue&, const PropertyValue&) = default;
};
using PropertySet = std::vector<PropertyValue>;
// Bit N mod 32 of word N div 32 stands for element N of a PropertySet. Missing words are zero.
using PropertySubset = std::vector<uint32_t>;

// The bodies of kConnectionProperties, kRequestProperties, kRespondProperties and
// kUpdateProperties.
struct PropertiesBody {
  // rdma_start, rdma_want, rdma_other or rdma_now
  PropertySet values = {};
  PropertySubset no_change = {};            // kConnectionProperties
  PropertySubset done = {}, rejected = {};  // kRespondProperties
  friend bool operator==(const PropertiesBody&, const PropertiesBody&) = default;
};

struct Header {  // rpcrdma2_xprt_hdr
  uint32_t xid = 0;
  uint32_t version = kVersion2;
  uint32_t credits = 0;
  Proc proc = Proc::kMessage;
  // The one that `proc` selects; the others are empty.
  ChunkLists chunks;
  ErrorBody error;
  OptionalBody optional;
  PropertiesBody properties;
  friend bool operator==(const Header&, const Header&) = default;
};

// The bytes of the header, as its `version` says. A version other than 1 is laid out as 2.
Bytes EncodeHeader(const Header& header);

enum class HeaderFault : uint8_t {
  kNone,
  kTooShort,   // no header: nothing to answer
  kVersion,    // of another version than 1 and 2: only xid, version and credits are valid
  kProcedure,  // unknown procedure: also `proc` is valid
  kBadXdr,     // the body cannot be decoded
};

struct DecodedHeader {
  Header header;
  HeaderFault fault = HeaderFault::kNone;
  size_t size = 0;  // of the header in the message; the RPC message follows
};

// Decodes the header at the start of `message`, which may be any bytes.
DecodedHeader DecodeHeader(std::span<const std::byte> message);

// For logs: "RDMA2_ERR_SEGMENTS"; a number if it is unknown.
std::string ErrorName(ErrorCode code);

}  // namespace dafs::rpcrdma
