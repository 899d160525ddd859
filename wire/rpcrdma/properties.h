// Transport properties: each end of a connection announces its receive buffers and its readiness
// for calls in the reverse direction. Spec: RPCRDMA2 6.1 to 6.4. Values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "wire/rpcrdma/header.h"

namespace dafs::rpcrdma {

// 3.3: every receiver of version 2 has buffers of at least this size.
inline constexpr uint32_t kDefaultInline = 4096;

inline constexpr uint32_t kReceiveSizeProperty = 1;  // RDMA2_PROPID_RBSIZ
inline constexpr uint32_t kBackwardProperty = 2;     // RDMA2_PROPID_BRS
// 6.4.2: from here on, codes are for experiments.
inline constexpr uint32_t kFirstExperimentalProperty = 4294967040;

enum class BackwardSupport : uint32_t {  // rpcrdma2_bkreqsup
  kNone = 0,
  kInline = 1,   // messages without chunks
  kGeneral = 2,  // as in the forward direction
};

struct Properties {
  uint32_t receive_size = kDefaultInline;  // bytes; of every posted receive, at least
  BackwardSupport backward = BackwardSupport::kInline;
  friend bool operator==(const Properties&, const Properties&) = default;
};

PropertyValue ReceiveSizeValue(uint32_t bytes);
PropertyValue BackwardValue(BackwardSupport support);

bool IsKnownProperty(uint32_t which);

// kDataLoss: a known property whose data is not of its type. The sender gets RDMA2_ERR_BAD_XDR.
absl::Status CheckProperties(const PropertySet& set);

// Takes over a value that CheckProperties has accepted. Unknown properties change nothing. A
// receive size below the default is raised to it, since every receiver supports that one.
void ApplyProperty(const PropertyValue& value, Properties& properties);

bool InSubset(const PropertySubset& subset, size_t index);
void AddToSubset(PropertySubset& subset, size_t index);

// The outcome of one requested change.
enum class Change : uint8_t { kDone, kRejected, kOther };

// Judges a response to a request for `wanted`, one result for each element. `other` gets the value
// of each kOther. Items of the response that were not requested are ignored. A property that the
// response does not name, or names in more than one way, counts as rejected (6.3.3).
std::vector<Change> JudgeResponse(const PropertySet& wanted, const PropertiesBody& response,
                                  PropertySet* other);

}  // namespace dafs::rpcrdma
