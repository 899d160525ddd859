#include "server/store/system/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

absl::Status Failed(const char* what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE || error == ENOMEM
             ? absl::ResourceExhaustedError(text)
             : absl::FailedPreconditionError(text);
}

absl::StatusOr<std::byte*> Map(int fd, size_t size, const std::string& path) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Failed("map", path, errno);
  return static_cast<std::byte*>(at);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Create(const std::string& path, size_t size_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Failed("create", path, errno);
  // A store into a hole of a full file system would raise SIGBUS instead of an error.
  if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes)); error != 0) {
    unlink(path.c_str());
    return Failed("allocate", path, error);
  }
  absl::StatusOr<std::byte*> data = Map(fd.get(), size_bytes, path);
  if (!data.ok()) {
    unlink(path.c_str());
    return data.status();
  }
  return MappedFile(path, *data, size_bytes);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, size_t size_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() && errno == ENOENT) return absl::NotFoundError(path);
  if (!fd.valid()) return Failed("open", path, errno);
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return Failed("stat", path, errno);
  const auto size = static_cast<size_t>(st.st_size);
  if (!S_ISREG(st.st_mode) || size == 0 || (size_bytes != 0 && size != size_bytes)) {
    return absl::DataLossError(absl::StrCat(path, ": not a file of ",
                                            size_bytes != 0 ? size_bytes : 1, " bytes",
                                            size_bytes != 0 ? "" : " or more", ", but of ", size));
  }
  absl::StatusOr<std::byte*> data = Map(fd.get(), size, path);
  if (!data.ok()) return data.status();
  return MappedFile(path, *data, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool MappedFile::Sync(std::span<const std::byte> part) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - data_);
  const size_t before = offset % page;
  return msync(data_ + offset - before, before + part.size(), MS_SYNC) == 0;
}

bool MappedFile::SyncName() const {
  const UniqueFd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const UniqueFd directory(
      open(path_.substr(0, path_.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file.valid() && directory.valid() && fsync(file.get()) == 0 && fsync(directory.get()) == 0;
}

void MappedFile::Unlink() { unlink(path_.c_str()); }

absl::Status CannotStartWithout(const absl::Status& opening, std::string_view if_removed) {
  return absl::Status(
      opening.code(),
      absl::StrCat(opening.message(),
                   "; start again when it can be opened, or remove it: ", Text(if_removed)));
}

}  // namespace dafs::server
