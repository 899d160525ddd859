// The read-only file system above the exports: only the directories that lead to them.
// Spec: 4.1.4 (one name space, own FSHandle); 6.5.12, 6.5.21, 6.5.22.
// Immutable once built: a reload that changes the names builds another one. Usable from any thread;
// nothing blocks. Its handles are persistent: a directory keeps its handle over restarts and
// reloads as long as it leads to an export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

struct PseudoNode {
  std::string path;  // "/", "/b"; for an export, its name
  const PseudoNode* parent = nullptr;
  int export_index = -1;  // set for a leaf, which stands for the root of an export
  uint64_t file_id = 0;
  wire::FileHandle handle;  // for a directory of the pseudo file system
  std::map<std::string, PseudoNode*, std::less<>> children;
  int64_t made_ns = 0;  // since the epoch: its times and CHANGE
};

class PseudoFs {
 public:
  // The served ones of `exports` have passed CheckExports. `made_ns`: now, since the epoch.
  PseudoFs(const ExportSet& exports, const HandleMac& mac, int64_t made_ns);

  // The root of the name space; a leaf if the only export is "/".
  const PseudoNode& root() const { return *nodes_.front(); }

  // The leaf that stands for an export; null for one that is not served.
  const PseudoNode* Leaf(size_t export_index) const {
    return export_index < leaves_.size() ? leaves_[export_index] : nullptr;
  }

  // The directory with this handle; null if it no longer exists.
  const PseudoNode* Find(const wire::FileHandle& handle) const;

  const wire::FsHandle& fshandle() const { return fshandle_; }

 private:
  PseudoNode* AddNode(std::string path, const PseudoNode* parent, const HandleMac& mac);

  const int64_t made_ns_;
  wire::FsHandle fshandle_;
  std::vector<std::unique_ptr<PseudoNode>> nodes_;
  std::vector<const PseudoNode*> leaves_;
  absl::flat_hash_map<wire::FileHandle, const PseudoNode*> by_handle_;
};

}  // namespace dafs::server
