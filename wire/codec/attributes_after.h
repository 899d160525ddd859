// Attributes that a response carries after its result, so that no GETATTR follows the request.
// Private: kExtensionAttributesAfter. Spec: WIRE 9.8.
//
//   0 off -> attributes  current: of the filehandle that is current after the request; 0 = none
//   4 u32                current_promise: spec_cond bits
//   8 off -> attributes  other: of OtherFileHandle (wire/messages/chain.h); 0 = none
//  12 u32                other_promise
//
// It begins at ResponseHeader::attributes_at. Values; any thread; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// Which attributes a response carries: all of stat(2), and CHANGE.
inline constexpr uint64_t kAttributesAfter =
    kFattrObjectType | kFattrMode | kFattrNumLinks | kFattrChange | kFattrObjectSize |
    kFattrFileId | kFattrSpaceUsed | kFattrTimeAccess | kFattrTimeCreate | kFattrTimeMetadata |
    kFattrTimeModify | kFattrRawDev | kFattrOwner | kFattrOwnerGroup;

struct AttributesAfter {
  FileAttributes current;  // without included attributes: absent
  FileAttributes other;
  uint16_t current_promise = 0;  // kSpcondAttributes, kSpcondOnlyClients
  uint16_t other_promise = 0;
};

// Appends `after` to a response of `message_bytes` (a multiple of 8) in `out`, and completes its
// header. Returns the new response_len; the content of `out` beyond the message is unspecified.
// kFailedPrecondition: it does not fit, and the message is unchanged.
absl::StatusOr<size_t> AppendAttributes(const AttributesAfter& after, ByteOrder order,
                                        std::span<std::byte> out, size_t message_bytes,
                                        bool checksum);

// Reads what begins at `attributes_at` of `message`. kDataLoss: it is malformed.
absl::Status DecodeAttributes(std::span<const std::byte> message, uint32_t attributes_at,
                              ByteOrder order, AttributesAfter& after);

}  // namespace dafs::wire
