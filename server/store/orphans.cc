#include "server/store/orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "server/store/identity.h"

namespace dafs::server {
namespace {

// The name of a file in the directory: its kernel handle, which no other file of the file system
// has.
std::string NameOf(const Object& file) {
  const ObjectKey key = file.key();
  const std::span<const uint8_t> bytes = BytesOf(key);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Opens the directory if it is one that only we can have made.
Fd OpenOurs(const FileSystem& fs) {
  Fd fd(openat(fs.root.get(), kOrphanDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st;
  if (fd.ok() && (fstat(fd.get(), &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0)) {
    fd.Reset();
  }
  return fd;
}

}  // namespace

void Orphans::Clean(const FileSystem& fs) {
  ScopedPrivilege privilege;
  Fd fd = OpenOurs(fs);
  if (!fd.ok()) return;
  const int listing = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  std::unique_ptr<DIR, int (*)(DIR*)> dir(fdopendir(listing), &closedir);
  if (dir == nullptr) {
    if (listing >= 0) close(listing);
    return;
  }
  while (const dirent* entry = readdir(dir.get())) unlinkat(fd.get(), entry->d_name, 0);
  unlinkat(fs.root.get(), kOrphanDirectory, AT_REMOVEDIR);
}

Orphans::Directory* Orphans::OpenDirectory(const FileSystem& fs) {
  Directory& directory = directories_[&fs];
  if (directory.fd.ok()) return &directory;
  ScopedOwnIdentity own;
  mkdirat(fs.root.get(), kOrphanDirectory, 0700);
  directory.fd = OpenOurs(fs);
  if (directory.fd.ok()) return &directory;
  directories_.erase(&fs);
  return nullptr;
}

bool Orphans::Link(Object& file) {
  absl::MutexLock lock(&mutex_);
  Directory* directory = OpenDirectory(file.fs());
  if (directory == nullptr) return false;
  ScopedPrivilege privilege;
  if (linkat(AT_FDCWD, FdPath(file.path_fd()).c_str(), directory->fd.get(), NameOf(file).c_str(),
             AT_SYMLINK_FOLLOW) != 0) {
    return false;
  }
  ++directory->files;
  file.set_orphaned(true);
  return true;
}

void Orphans::Unlink(Object& file) {
  ScopedPrivilege privilege;
  absl::MutexLock lock(&mutex_);
  auto it = directories_.find(&file.fs());
  if (it == directories_.end() || !file.orphaned()) return;
  unlinkat(it->second.fd.get(), NameOf(file).c_str(), 0);
  file.set_orphaned(false);
  if (--it->second.files > 0) return;
  unlinkat(file.fs().root.get(), kOrphanDirectory, AT_REMOVEDIR);
  directories_.erase(it);
}

}  // namespace dafs::server
