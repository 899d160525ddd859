#include "server/store/objects/pseudo_fs.h"

#include "absl/strings/str_cat.h"
#include "runtime/text.h"

namespace dafs::server {

PseudoFs::PseudoFs(const ExportSet& exports, const HandleMac& mac, int64_t made_ns)
    : made_ns_(made_ns), leaves_(exports.size()) {
  const auto id = mac.Identify("pseudo");
  std::memcpy(fshandle_.bytes.data(), id.data(), id.size());
  PseudoNode* root = AddNode("/", nullptr, mac);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Export& exported = exports[i];
    if (exported.removed) continue;
    PseudoNode* node = root;
    for (std::string_view part : exported.Components()) {
      PseudoNode*& child = node->children[std::string(part)];
      if (child == nullptr) {
        const std::string& above = node->path;
        child = AddNode(absl::StrCat(above == "/" ? "" : above, "/", Text(part)), node, mac);
      }
      node = child;
    }
    node->export_index = static_cast<int>(i);
    leaves_[i] = node;
  }
}

PseudoNode* PseudoFs::AddNode(std::string path, const PseudoNode* parent, const HandleMac& mac) {
  auto node = std::make_unique<PseudoNode>();
  const auto id = mac.Identify(absl::StrCat("pseudo\n", path));
  std::memcpy(&node->file_id, id.data(), sizeof node->file_id);
  node->handle = mac.Seal(MakeKey(fshandle_, HandleKind::kPseudo, 0, id));
  node->path = std::move(path);
  node->parent = parent;
  node->made_ns = made_ns_;
  by_handle_[node->handle] = node.get();
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

const PseudoNode* PseudoFs::Find(const wire::FileHandle& handle) const {
  auto it = by_handle_.find(handle);
  return it == by_handle_.end() || it->second->export_index >= 0 ? nullptr : it->second;
}

}  // namespace dafs::server
