// The request and the response header, 40 bytes each. Spec: WIRE section 3; draft 6.1.2, 6.1.3.
// Values. The encoder (wire/codec/codec.h) writes header_magic, the lengths and message_checksum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

inline constexpr uint32_t kRequestMagic = 0x44414653;
inline constexpr uint32_t kResponseMagic = 0x44414652;
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kHeaderSize = 40;

// chain_flags, DAFS_CHF_x. Spec: WIRE 8.1; draft 4.3.2.
inline constexpr uint16_t kChfForw = 0x01;
inline constexpr uint16_t kChfBack = 0x02;
inline constexpr uint16_t kChfSave = 0x04;
inline constexpr uint16_t kChfFh = 0x08;
inline constexpr uint16_t kChfStateId = 0x10;
inline constexpr uint16_t kChfAll = 0x1f;
// Private, with kExtensionAttributesAfter: the response also carries attributes
// (wire/codec/attributes_after.h) of the filehandle that is current after the request, and of the
// other object that the request names.
inline constexpr uint16_t kChfAttributes = 0x100;
inline constexpr uint16_t kChfOtherAttributes = 0x200;
inline constexpr uint16_t kChfAnyAttributes = kChfAttributes | kChfOtherAttributes;

// spec_cond, DAFS_SPCOND_x. Spec: WIRE 3.2.
inline constexpr uint16_t kSpcondLmoved = 0x0001;
inline constexpr uint16_t kSpcondFailover = 0x0002;
// Private: promises (wire/messages/promises.h). Only in responses to a client that was granted
// some.
inline constexpr uint16_t kSpcondNames = 0x0100;
inline constexpr uint16_t kSpcondAttributes = 0x0200;
inline constexpr uint16_t kSpcondOnlyClients = 0x0400;
inline constexpr uint16_t kSpcondVoid = 0x0800;

struct RequestHeader {  // 6.1.2
  static constexpr size_t kWireSize = 40;
  static constexpr size_t kWireAlign = 8;

  uint32_t protocol_version = kProtocolVersion;
  uint16_t desired_nreq = 0;
  uint16_t chain_flags = 0;
  uint16_t stream_id = 0;
  uint16_t seq_number = 0;
  Analyzer analyzer;
  Checksum message_checksum;  // filled in by the encoder
  CredHandle cred_handle;
  Proc procedure = Proc::kNull;  // filled in by the encoder from the argument type
  uint32_t request_len = 0;      // filled in by the encoder

  friend bool operator==(const RequestHeader&, const RequestHeader&) = default;
};

struct ResponseHeader {  // 6.1.3
  static constexpr size_t kWireSize = 40;
  static constexpr size_t kWireAlign = 8;

  uint32_t protocol_version = kProtocolVersion;
  uint16_t target_nreq = 1;
  uint16_t spec_cond = 0;
  uint16_t stream_id = 0;
  uint16_t seq_number = 0;
  Analyzer analyzer;
  Checksum message_checksum;  // filled in by the encoder
  DafsStatus status = DafsStatus::kOk;
  uint32_t response_len = 0;  // filled in by the encoder
  // Message offset of the attributes after the request; 0: none. Private, otherwise reserved.
  uint32_t attributes_at = 0;

  friend bool operator==(const ResponseHeader&, const ResponseHeader&) = default;
};

// The header of the response to `request`, with its stream_id, seq_number and analyzer.
inline ResponseHeader ResponseTo(const RequestHeader& request, DafsStatus status,
                                 uint16_t target_nreq) {
  ResponseHeader h;
  h.target_nreq = target_nreq;
  h.stream_id = request.stream_id;
  h.seq_number = request.seq_number;
  h.analyzer = request.analyzer;
  h.status = status;
  return h;
}

}  // namespace dafs::wire
