// The read-only file system above the exports: only the directories that lead to them.
// Spec: 4.1.4 (one name space, own FSHandle); 6.5.12, 6.5.21, 6.5.22.
// Immutable once built; usable from any thread; nothing blocks. Its handles are persistent: a
// directory keeps its handle over restarts as long as it leads to an export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/store/objects/export.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

struct PseudoNode {
  std::string path;  // "/", "/b"; for an export, its name
  const PseudoNode* parent = nullptr;
  int export_index = -1;  // set for a leaf, which stands for the root of an export
  uint64_t file_id = 0;
  wire::FileHandle handle;  // for a directory of the pseudo file system
  std::map<std::string, PseudoNode*, std::less<>> children;
};

class PseudoFs {
 public:
  // `exports` have passed CheckExports.
  PseudoFs(const std::vector<Export>& exports, const HandleMac& mac);

  // The root of the name space; a leaf if the only export is "/".
  const PseudoNode& root() const { return *nodes_.front(); }

  // The leaf that stands for an export.
  const PseudoNode& Leaf(size_t export_index) const { return *leaves_[export_index]; }

  // The directory with this handle; null if it no longer exists.
  const PseudoNode* Find(const wire::FileHandle& handle) const;

  const wire::FsHandle& fshandle() const { return fshandle_; }

 private:
  PseudoNode* AddNode(std::string path, const PseudoNode* parent, const HandleMac& mac);

  wire::FsHandle fshandle_;
  std::vector<std::unique_ptr<PseudoNode>> nodes_;
  std::vector<const PseudoNode*> leaves_;
  absl::flat_hash_map<wire::FileHandle, const PseudoNode*> by_handle_;
};

}  // namespace dafs::server
