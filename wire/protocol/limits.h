// The bounds that senders must keep and receivers check. Spec: WIRE section 7 (R48).
#pragma once

#include <cstdint>

#include "wire/protocol/status.h"

namespace dafs::wire {

// The maximum bytes of a string, and the status for a longer one.
struct Bound {
  uint32_t max_bytes;
  DafsStatus beyond;
};

// Whether an offset of 0 or a zero-length item is an error (DAFSERR_INVAL). Spec: WIRE 2.5.
enum class Presence : uint8_t { kOptional, kRequired };
inline constexpr Presence kRequired = Presence::kRequired;

inline constexpr Bound kNameBound = {1024, DafsStatus::kNameTooLong};
inline constexpr Bound kLinkDataBound = {65535, DafsStatus::kNameTooLong};
inline constexpr Bound kOwnerBound = {1024, DafsStatus::kInval};  // lock owner, client_id_string
inline constexpr Bound kFenceIdBound = {1024, DafsStatus::kInval};
inline constexpr Bound kAuthBound = {1024, DafsStatus::kInval};  // auth_id, password, cred name
inline constexpr Bound kServerNameBound = {1024, DafsStatus::kInval};
inline constexpr Bound kClusterIdBound = {255, DafsStatus::kInval};
inline constexpr Bound kGssBound = {65535, DafsStatus::kInval};  // GSS token, GSS name
inline constexpr Bound kOidBound = {255, DafsStatus::kInval};
inline constexpr Bound kWhoBound = {1024, DafsStatus::kInval};  // owner, owner_group, who, mime

inline constexpr uint32_t kPathComponentsMax = 1024;
inline constexpr uint32_t kFenceIdsMax = 1024;
inline constexpr uint32_t kGroupsMax = 1024;
inline constexpr uint32_t kAclMax = 1024;
inline constexpr uint32_t kFailoverLocationsMax = 64;
inline constexpr uint32_t kLocationsMax = 64;
inline constexpr uint32_t kBuffersMax = 256;  // in one array of dafs_direct_op_buffer_type
inline constexpr uint32_t kChunksMax = 256;
inline constexpr uint32_t kBatchMax = 256;  // requests of BATCH_SUBMIT, completions of a message
inline constexpr uint32_t kSecInfoMax = 64;
inline constexpr uint32_t kBoundedBySize = 0xffffffff;  // entries of READDIR

}  // namespace dafs::wire
