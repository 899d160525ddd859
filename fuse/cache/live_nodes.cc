#include "fuse/cache/live_nodes.h"

#include <cstring>
#include <span>

#include "fuse/cache/record/live_kinds.h"

namespace dafs::fuse {
namespace {

constexpr auto kNode = static_cast<uint8_t>(LiveKind::kNode);

// As in memory: both programs run on this machine. A change needs a new HandoverRecord::kVersion.
struct Body {
  wire::FileHandle handle;
  uint64_t file_id = 0;
  wire::ObjectType type = wire::ObjectType::kInvalid;
};

}  // namespace

void LiveNodes::Put(uint64_t nodeid, Inode& inode) {
  if (record_ == nullptr) return;
  std::byte bytes[sizeof(Body)] = {};
  Body body = {.handle = inode.handle, .file_id = inode.file_id, .type = inode.type};
  std::memcpy(bytes, static_cast<void*>(&body), sizeof(body));
  inode.live_slot = record_->Put(kNode, nodeid, bytes, inode.lookups, inode.live_slot);
}

std::vector<LiveNodes::Node> LiveNodes::Of(std::span<const LiveRecord::Item> items) {
  std::vector<Node> nodes;
  for (const LiveRecord::Item& item : items) {
    Body body;
    if (item.kind != kNode || item.body.size() != sizeof(body)) continue;
    std::memcpy(static_cast<void*>(&body), item.body.data(), sizeof(body));
    nodes.push_back({item.key, body.handle, body.type, body.file_id, item.count});
  }
  return nodes;
}

}  // namespace dafs::fuse
