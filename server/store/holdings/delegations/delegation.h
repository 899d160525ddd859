// An open delegation, its recall, and what a request waits for. Values.
// Spec: 6.5.24, 6.6.3, 6.6.4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/store/objects/handle.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct Delegation {
  using Type = wire::OpenDelegationType;

  wire::ClientId client_id;
  wire::StateId state_id;
  ObjectKey key;
  Type type = Type::kRead;
  std::string fence_id = {};  // of the session that got it
};

// BC_RECALL is to be sent.
struct DelegationRecall : Delegation {
  std::string client_name;  // client_id_string
  bool has_holder = true;   // false: it awaits CLAIM_DELEGATE_PREV, so nothing can be sent
};

// An event that a request waits for.
struct AwaitedDelegation {
  wire::StateId state_id;
  bool answer = false;  // the answer to BC_GETATTR; otherwise the end of the delegation
};
using AwaitedDelegations = std::vector<AwaitedDelegation>;  // mostly empty: no buffer of its own

// The values of the holder of a write delegation, of those that it may have changed.
struct ReportedValues {
  std::optional<uint64_t> change;
  std::optional<uint64_t> size;
  std::optional<wire::Time> time_modify;
};

}  // namespace dafs::server
