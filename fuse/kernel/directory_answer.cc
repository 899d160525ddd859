#include "fuse/kernel/directory_answer.h"

#include <cstring>

namespace dafs::fuse {
namespace {

size_t EntryBytes(std::string_view name, bool plus) {
  size_t fixed = plus ? FUSE_NAME_OFFSET_DIRENTPLUS : FUSE_NAME_OFFSET;
  return FUSE_DIRENT_ALIGN(fixed + name.size());
}

}  // namespace

bool DirectoryAnswer::Fits(std::string_view name, bool plus) const {
  return bytes_.size() + EntryBytes(name, plus) <= limit_;
}

void DirectoryAnswer::Append(const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), first, first + size);
}

void DirectoryAnswer::Add(std::string_view name, uint64_t ino, uint32_t type, uint64_t offset) {
  fuse_dirent entry = {};
  entry.ino = ino;
  entry.off = offset;
  entry.namelen = static_cast<uint32_t>(name.size());
  entry.type = type >> 12;  // DT_...
  Append(&entry, FUSE_NAME_OFFSET);
  Append(name.data(), name.size());
  bytes_.resize(FUSE_DIRENT_ALIGN(bytes_.size()));
}

void DirectoryAnswer::AddPlus(const fuse_entry_out& entry, std::string_view name, uint64_t ino,
                              uint32_t type, uint64_t offset) {
  Append(&entry, sizeof(entry));
  if (entry.nodeid != 0) counted_.push_back(entry.nodeid);
  Add(name, ino, type, offset);
}

}  // namespace dafs::fuse
