#include "server/store/access/exports/pseudo_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/clock.h"

namespace dafs::server {

using wire::DafsStatus;

PseudoTree::PseudoTree(const ExportSet& exports, const HandleMac& mac)
    : exports_(exports), mac_(mac) {
  Renew();
}

void PseudoTree::Renew() {
  // Never the same as before: it is the CHANGE of directories whose names have changed.
  const int64_t before = all_.empty() ? 0 : Get().root().made_ns;
  const int64_t now = std::max(absl::GetCurrentTimeNanos(), before + 1);
  all_.push_back(std::make_unique<const PseudoFs>(exports_, mac_, now));
  newest_.store(all_.back().get(), std::memory_order_release);
}

DafsStatus PseudoTree::AdmissionBelow(const Caller& caller, const PseudoNode& node) const {
  if (node.export_index >= 0) {
    return exports_[static_cast<size_t>(node.export_index)].Admission(caller.peer);
  }
  DafsStatus refusal = DafsStatus::kAcces;
  for (const auto& [name, child] : node.children) {
    const DafsStatus status = AdmissionBelow(caller, *child);
    if (status == DafsStatus::kOk) return status;
    if (status == DafsStatus::kWrongSec) refusal = status;  // has a remedy
  }
  return refusal;
}

DafsStatus PseudoTree::Find(const Caller& caller, const PseudoNode& directory,
                            std::string_view name, const PseudoNode** child) const {
  const auto it = directory.children.find(name);
  if (it == directory.children.end()) return DafsStatus::kNoEnt;
  *child = it->second;
  const DafsStatus admission = AdmissionBelow(caller, **child);
  if (admission != DafsStatus::kAcces) return admission;
  if (caller.hidden != nullptr) *caller.hidden = true;
  return DafsStatus::kNoEnt;
}

}  // namespace dafs::server
