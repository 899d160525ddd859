#include "client/exchange/attached.h"

#include <algorithm>
#include <utility>

#include "wire/messages/chain.h"

namespace dafs::client {
namespace {

using GetattrCall = Call<wire::GetattrInlineArgs>;

// Null: it is no GETATTR, or asks for other attributes than a response carries.
GetattrCall* AsAttachable(CallBase* call) {
  if (call->proc() != wire::Proc::kGetattrInline) return nullptr;
  auto* const getattr = static_cast<GetattrCall*>(call);
  return getattr->args.attr_request_bitmap == wire::kAttributesAfter ? getattr : nullptr;
}

bool Names(const wire::FileHandle* handle, const GetattrCall& getattr) {
  return handle != nullptr && *handle == getattr.args.filehandle;
}

// Attaches `getattr` to `carrier`. Returns false if its response cannot carry the result.
bool Attach(CallBase& carrier, GetattrCall& getattr) {
  const bool is_current = getattr.chf_fh || Names(carrier.used_filehandle(), getattr);
  const bool is_other = !getattr.chf_fh && Names(carrier.other_filehandle(), getattr);
  if (is_current && carrier.current_attributes == nullptr) {
    carrier.current_attributes = &getattr;
    return true;
  }
  if (!is_other || carrier.other_attributes != nullptr) return false;
  carrier.other_attributes = &getattr;
  return true;
}

void Take(GetattrCall* getattr, const CallBase& call, wire::FileAttributes attributes,
          uint16_t promise) {
  if (getattr == nullptr || attributes.included == 0) return;
  getattr->res.obj_attributes = std::move(attributes);
  getattr->answered = true;
  getattr->asked = call.asked;
  getattr->spec_cond = promise;
}

}  // namespace

AttachedChain::AttachedChain(std::span<CallBase* const> chain) {
  carrier_ = chain.size() - 1;
  while (carrier_ > 0 && AsAttachable(chain[carrier_]) != nullptr) --carrier_;
  count_ = carrier_ + 1;
  std::copy_n(chain.begin(), count_, sent_.begin());
  size_t next = count_;
  // A GETATTR that names its object makes that current for the next one.
  const auto others = chain.subspan(std::min(next + 1, chain.size()));
  const bool names_last =
      std::none_of(others.begin(), others.end(), [](const CallBase* call) { return call->chf_fh; });
  if (names_last && wire::MayCarryAttributes(chain[carrier_]->info())) {
    while (next < chain.size() && Attach(*chain[carrier_], *AsAttachable(chain[next]))) ++next;
  }
  for (; next < chain.size(); ++next) sent_[count_++] = chain[next];
}

void AttachedChain::Finish() {
  const bool broken = std::any_of(
      sent_.begin(), sent_.begin() + carrier_ + 1,
      [](const CallBase* call) { return call->answered && call->status != wire::DafsStatus::kOk; });
  if (!broken) return;
  for (GetattrCall* getattr :
       {sent_[carrier_]->current_attributes, sent_[carrier_]->other_attributes}) {
    if (getattr == nullptr) continue;
    getattr->answered = true;
    getattr->status = wire::DafsStatus::kChainBroken;
  }
}

uint16_t AttributeFlags(const CallBase& call) {
  unsigned flags = 0;
  if (call.current_attributes != nullptr) flags |= wire::kChfAttributes;
  if (call.other_attributes != nullptr) flags |= wire::kChfOtherAttributes;
  return static_cast<uint16_t>(flags);
}

void TakeAttributes(CallBase& call, wire::AttributesAfter carried) {
  Take(call.current_attributes, call, std::move(carried.current), carried.current_promise);
  Take(call.other_attributes, call, std::move(carried.other), carried.other_promise);
}

}  // namespace dafs::client
