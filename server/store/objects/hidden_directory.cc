#include "server/store/objects/hidden_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/system/identity.h"

namespace dafs::server {
namespace {

// A descriptor of the root of a file system. For a subvolume it is open only while this object
// exists.
class RootDescriptor {
 public:
  explicit RootDescriptor(const FileSystem& fs)
      : opened_(fs.outer != nullptr ? OpenRoot(fs) : UniqueFd()),
        fd_(fs.outer != nullptr ? opened_.get() : fs.root.get()) {}
  int get() const { return fd_; }

 private:
  const UniqueFd opened_;
  const int fd_;
};

}  // namespace

UniqueFd OpenHiddenDirectory(const FileSystem& fs) {
  ScopedOwnIdentity own;
  const RootDescriptor root(fs);
  mkdirat(root.get(), kOrphanDirectory, 0700);
  UniqueFd fd(
      openat(root.get(), kOrphanDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st;
  if (fd.valid() &&
      (fstat(fd.get(), &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0)) {
    fd.Close();
  }
  return fd;
}

}  // namespace dafs::server
