#include "fuse/cache/latest_attributes.h"

#include <utility>

namespace dafs::fuse {

void LatestAttributes::KeepUnsent(client::Attributes attributes, const Origin& origin) {
  if (latest_ != nullptr) {
    *latest_ = std::move(attributes);
  } else {
    latest_ = std::make_unique<client::Attributes>(std::move(attributes));
  }
  origin_ = origin;
  unsent_ = true;
}

void LatestAttributes::DropUnsent() {
  if (!std::exchange(unsent_, false)) return;
  if (!KeptOnceSent()) latest_.reset();
}

client::Attributes LatestAttributes::SendUnsent() {
  unsent_ = false;
  if (KeptOnceSent()) return *latest_;
  const std::unique_ptr<client::Attributes> sent = std::move(latest_);
  return std::move(*sent);
}

void LatestAttributes::Learn(const client::Attributes& attributes) {
  if (!unsent_) Sent(attributes);
}

void LatestAttributes::Sent(const client::Attributes& attributes) {
  unsent_ = false;
  if (attributes.object_type == wire::ObjectType::kReg) {
    latest_.reset();
  } else if (latest_ != nullptr) {
    *latest_ = attributes;
  } else {
    latest_ = std::make_unique<client::Attributes>(attributes);
  }
}

}  // namespace dafs::fuse
