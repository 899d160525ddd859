#include "server/store/access/exports/export_threads.h"

namespace dafs::server {

std::optional<size_t> ExportThreads::ExportThatMayHang(const wire::FileHandle& directory,
                                                       std::span<const std::string> path) const {
  const PseudoNode* node = pseudo_.Get().Find(directory);
  for (const std::string& name : path) {
    if (node == nullptr) return std::nullopt;
    const auto it = node->children.find(name);
    if (it == node->children.end()) return std::nullopt;
    node = it->second;
    if (node->export_index < 0) continue;
    const auto index = static_cast<size_t>(node->export_index);
    return mounts_.MayHang(index) ? std::optional<size_t>(index) : std::nullopt;
  }
  return std::nullopt;
}

void ExportThreads::Run(size_t export_index, absl::AnyInvocable<void()> work) const {
  if (!HandsOver(export_index)) return work();
  run_(export_index, std::move(work));
}

}  // namespace dafs::server
