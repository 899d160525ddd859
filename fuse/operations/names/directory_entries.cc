#include "fuse/operations/names/directory_entries.h"

#include <optional>
#include <string_view>

#include "fuse/kernel/attributes.h"
#include "fuse/operations/names/directory_chunks.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kDotOffset = DirectoryChunks::kDotOffset;
constexpr uint64_t kDotDotOffset = DirectoryChunks::kDotDotOffset;
// An entry without these cannot be returned to the kernel as a node.
constexpr uint64_t kNeeded =
    wire::kFattrObjectType | wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrFilehandle;

bool IsEntryName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

}  // namespace

void DirectoryEntries::AddDots(DirectoryAnswer& answer, const DirectoryState& directory,
                               uint64_t offset, bool plus) {
  if (!answer.empty() || offset >= kDotDotOffset) return;
  std::optional<InodeView> self = state_.caches.inodes.Find(directory.nodeid);
  std::optional<InodeView> parent =
      state_.caches.inodes.Find(state_.caches.inodes.LatestDentryOf(directory.nodeid).parent);
  const auto number = [&](const InodeView& node) {
    return state_.caches.inodes.NumberIn(node.handle.fshandle, node.file_id);
  };
  uint64_t own = self ? number(*self) : directory.nodeid;
  uint64_t above = parent ? number(*parent) : own;
  constexpr uint32_t kDirectory = 0040000;
  auto add = [&](std::string_view name, uint64_t ino, uint64_t next) {
    if (!answer.Fits(name, plus)) return;
    if (plus) {
      answer.AddPlus(fuse_entry_out{}, name, ino, kDirectory, next);
    } else {
      answer.Add(name, ino, kDirectory, next);
    }
  };
  if (offset < kDotOffset) add(".", own, kDotOffset);
  add("..", above, kDotDotOffset);
}

bool DirectoryEntries::Add(const Call& call, DirectoryAnswer& answer,
                           const DirectoryState& directory, const DirectoryChunk& chunk,
                           const DirectoryChunk::Entry& entry, bool plus) {
  if (!IsEntryName(entry.name)) return true;
  if (!answer.Fits(entry.name, plus)) return false;
  const wire::FileAttributes& attributes = entry.attributes;
  // For an entry in another file system, the server returns the number only with the handle.
  const wire::FsHandle& fs = attributes.has(wire::kFattrFilehandle) ? attributes.filehandle.fshandle
                                                                    : directory.handle.fshandle;
  uint64_t ino = state_.caches.inodes.NumberIn(fs, attributes.file_id);
  // 0 would make readdir(3) skip the entry.
  if (!attributes.has(wire::kFattrFileId) || ino == 0) ino = ~uint64_t{0};
  if (plus) {
    AddNode(call, answer, directory, chunk, entry, ino);
  } else {
    answer.Add(entry.name, ino, FileTypeBits(attributes.object_type), entry.cookie);
  }
  return true;
}

// For READDIRPLUS. Without the node's attributes if they are not known, or older than what the
// kernel has.
void DirectoryEntries::AddNode(const Call& call, DirectoryAnswer& answer,
                               const DirectoryState& directory, const DirectoryChunk& chunk,
                               const DirectoryChunk::Entry& entry, uint64_t ino) {
  const wire::FileAttributes& attributes = entry.attributes;
  const uint32_t type = FileTypeBits(attributes.object_type);
  const uint64_t known = state_.caches.inodes.NodeOf(attributes.filehandle);
  const bool tell = attributes.has(kNeeded) && type != 0 &&
                    !state_.caches.attributes.ChangedSince(directory.nodeid, chunk.asked_at) &&
                    (known == 0 || (!state_.caches.attributes.NewsSince(known, chunk.asked_at) &&
                                    !state_.write_behind.Holds(known)));
  fuse_entry_out out = {};
  if (tell) {
    client::Node node{attributes.filehandle, {attributes, chunk.attributes_promise}, chunk.names};
    out = context_.entries.Entry(call, node, {directory.nodeid, entry.name}, chunk.asked_at);
    if (entry.acl_in_mode) {
      // The promise of the attributes, which arrived with the ACL, covers it too.
      const bool promised =
          state_.caches.rules.IsGood(chunk.attributes_promise, attributes.filehandle);
      const absl::Time asked = promised ? Loop::Now() : chunk.asked_at;
      state_.caches.absent_xattrs.Note(out.nodeid, AbsentXattr::kAccessAcl, asked);
      if (attributes.object_type == wire::ObjectType::kDir) {
        state_.caches.absent_xattrs.Note(out.nodeid, AbsentXattr::kDefaultAcl, asked);
      }
    }
  }
  answer.AddPlus(out, entry.name, ino, type, entry.cookie);
}

}  // namespace dafs::fuse
