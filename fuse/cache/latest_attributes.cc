#include "fuse/cache/latest_attributes.h"

#include <utility>

namespace dafs::fuse {

void LatestAttributes::KeepUnsent(wire::FileAttributes attributes, const Origin& origin) {
  if (latest_ != nullptr) {
    *latest_ = std::move(attributes);
  } else {
    latest_ = std::make_unique<wire::FileAttributes>(std::move(attributes));
  }
  origin_ = origin;
  unsent_ = true;
}

void LatestAttributes::DropUnsent() {
  if (!std::exchange(unsent_, false)) return;
  if (!KeptOnceSent()) latest_.reset();
}

wire::FileAttributes LatestAttributes::SendUnsent() {
  unsent_ = false;
  if (KeptOnceSent()) return *latest_;
  const std::unique_ptr<wire::FileAttributes> sent = std::move(latest_);
  return std::move(*sent);
}

void LatestAttributes::Learn(const wire::FileAttributes& attributes) {
  if (!unsent_) Sent(attributes);
}

void LatestAttributes::Sent(const wire::FileAttributes& attributes) {
  unsent_ = false;
  if (attributes.object_type == wire::ObjectType::kReg) {
    latest_.reset();
  } else if (latest_ != nullptr) {
    *latest_ = attributes;
  } else {
    latest_ = std::make_unique<wire::FileAttributes>(attributes);
  }
}

}  // namespace dafs::fuse
