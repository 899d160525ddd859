#include "server/session/connection/chain.h"

#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

std::shared_ptr<Chain> Chains::ChainOf(uint16_t chain_flags) {
  const bool forw = (chain_flags & wire::kChfForw) != 0;
  const bool back = (chain_flags & wire::kChfBack) != 0;
  std::shared_ptr<Chain> chain;
  if (back && open_ != nullptr) {
    chain = open_;
  } else if (forw) {
    chain = std::make_shared<Chain>();
  }
  open_ = forw ? chain : nullptr;
  return chain;
}

DafsStatus StatusInChain(DafsStatus status, const Chain* chain) {
  if (chain == nullptr || !chain->broken) return status;
  switch (status) {
    case DafsStatus::kOk:
    case DafsStatus::kInval:    // step 8
    case DafsStatus::kNoCreds:  // step 9
      return DafsStatus::kChainBroken;
    default:
      return status;  // steps 2 to 7
  }
}

}  // namespace dafs::server
