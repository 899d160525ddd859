#include "server/store/objects/orphans.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/hidden_directory.h"
#include "server/store/system/directory_entries.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"

namespace dafs::server {
namespace {

// The name of a file in the orphan directory: its kernel handle, which is unique in the file
// system.
std::string NameOf(const Object& file) {
  const ObjectKey key = file.key();
  const std::span<const uint8_t> bytes = BytesOf(key);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

void Orphans::TakeUp(const FileSystem& fs) {
  UniqueFd fd = OpenHiddenDirectory(fs);  // may hang
  if (!fd.valid()) return;
  Note(PlaceOf(fs));
  absl::MutexLock lock(&mutex_);
  if (directories_.contains(PlaceOf(fs))) return;  // its files are known already
  DirectoryEntries entries(fd);
  if (!entries.valid()) return;
  Directory& directory = directories_[PlaceOf(fs)];
  directory.fs = &fs;
  directory.fd = std::move(fd);
  while (const char* name = entries.Next()) {
    if (name[0] != '.') left_ += directory.left.insert(name).second ? 1 : 0;
  }
  CloseIfEmpty(PlaceOf(fs));
}

void Orphans::Adopt(Object& file) {
  absl::MutexLock lock(&mutex_);
  auto it = directories_.find(PlaceOf(file.fs()));
  if (it == directories_.end() || it->second.left.erase(NameOf(file)) == 0) return;
  --left_;
  ++it->second.files;
  file.set_orphaned(true);
}

void Orphans::Leave(Object& file) {
  absl::MutexLock lock(&mutex_);
  auto it = directories_.find(PlaceOf(file.fs()));
  if (it == directories_.end() || !file.orphaned()) return;
  file.set_orphaned(false);
  --it->second.files;
  left_ += it->second.left.insert(NameOf(file)).second ? 1 : 0;
}

void Orphans::Sweep(absl::FunctionRef<bool(const FileSystem&)> ended) {
  ScopedPrivilege privilege;
  absl::MutexLock lock(&mutex_);
  std::vector<Place> known;
  for (const auto& [place, directory] : directories_) known.push_back(place);
  for (const Place& place : known) {
    Directory& directory = directories_[place];
    if (!ended(*directory.fs)) continue;
    for (const std::string& name : directory.left) unlinkat(directory.fd.get(), name.c_str(), 0);
    left_ -= directory.left.size();
    directory.left.clear();
    CloseIfEmpty(place);
  }
}

void Orphans::Forget(const FileSystem& fs) {
  absl::MutexLock lock(&mutex_);
  const auto it = directories_.find(PlaceOf(fs));
  if (it == directories_.end() || it->second.fs != &fs || it->second.files > 0) return;
  left_ -= it->second.left.size();
  directories_.erase(it);
}

void Orphans::CloseIfEmpty(const Place& place) {
  const auto it = directories_.find(place);
  if (it->second.files == 0 && it->second.left.empty()) directories_.erase(it);
}

void Orphans::Note(const Place& place) {
  absl::MutexLock lock(&there_mutex_);
  there_.insert(place);
  there_bits_.fetch_or(BitOf(place), std::memory_order_relaxed);
}

bool Orphans::IsIn(const FileSystem& fs, uint64_t inode) const {
  const Place place{fs.device, inode};
  if ((there_bits_.load(std::memory_order_relaxed) & BitOf(place)) == 0) return false;
  absl::MutexLock lock(&there_mutex_);
  return there_.contains(place);
}

Orphans::Directory* Orphans::OpenDirectory(const FileSystem& fs) {
  Directory& directory = directories_[PlaceOf(fs)];
  if (directory.fd.valid()) return &directory;
  ScopedOwnIdentity own;
  record_.Add(fs);
  directory.fs = &fs;
  directory.fd = OpenHiddenDirectory(fs);  // a program of the server may have removed it
  if (directory.fd.valid()) {
    Note(PlaceOf(fs));
    return &directory;
  }
  directories_.erase(PlaceOf(fs));
  return nullptr;
}

bool Orphans::LinkIn(Directory& directory, const Object& file) {
  ScopedPrivilege privilege;
  return linkat(AT_FDCWD, FdPath(file.path_fd()).c_str(), directory.fd.get(), NameOf(file).c_str(),
                AT_SYMLINK_FOLLOW) == 0;
}

bool Orphans::Link(Object& file) {
  absl::MutexLock lock(&mutex_);
  Directory* directory = OpenDirectory(file.fs());
  if (directory == nullptr || !LinkIn(*directory, file)) return false;
  ++directory->files;
  file.set_orphaned(true);
  return true;
}

bool Orphans::LinkLeft(Object& file) {
  absl::MutexLock lock(&mutex_);
  Directory* directory = OpenDirectory(file.fs());
  if (directory == nullptr || !LinkIn(*directory, file)) return false;
  left_ += directory->left.insert(NameOf(file)).second ? 1 : 0;
  return true;
}

void Orphans::Unlink(Object& file) {
  ScopedPrivilege privilege;
  absl::MutexLock lock(&mutex_);
  const Place place = PlaceOf(file.fs());
  auto it = directories_.find(place);
  if (it == directories_.end() || !file.orphaned()) return;
  unlinkat(it->second.fd.get(), NameOf(file).c_str(), 0);
  file.set_orphaned(false);
  --it->second.files;
  CloseIfEmpty(place);
}

}  // namespace dafs::server
