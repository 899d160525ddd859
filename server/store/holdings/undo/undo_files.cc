#include "server/store/holdings/undo/undo_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/hidden_directory.h"
#include "server/store/system/directory_entries.h"
#include "server/store/system/identity.h"

namespace dafs::server {
namespace {

constexpr char kUndoPrefix[] = ".undo-";
constexpr uint64_t kBlock = 4096;                   // of the file systems that share blocks
constexpr uint64_t kLargeHole = uint64_t{1} << 20;  // worth a row of the database
constexpr uint64_t kCopyMost = uint64_t{1} << 30;

// Copies the bytes at `offset` of one file to the same place of another. copy_file_range(2) shares
// whole blocks where it can.
int CopyPart(int from, int to, uint64_t offset, uint64_t length) {
  auto in = static_cast<off_t>(offset);
  auto out = in;
  while (length > 0) {
    const ssize_t n = copy_file_range(from, &in, to, &out, std::min(length, kCopyMost), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;  // the file has become shorter
    length -= static_cast<uint64_t>(n);
  }
  return 0;
}

// The same from `first` to `last`, in parts of which one has only whole blocks.
int CopyBytes(int from, int to, uint64_t first, uint64_t last) {
  const uint64_t end = last + 1;
  const uint64_t head = std::min(end, (first + kBlock - 1) / kBlock * kBlock);
  const uint64_t tail = std::max(head, end / kBlock * kBlock);
  if (int error = CopyPart(from, to, first, head - first); error != 0) return error;
  if (int error = CopyPart(from, to, head, tail - head); error != 0) return error;
  return CopyPart(from, to, tail, end - tail);
}

// Moves large holes of the file from *ranges to *holes.
void FindHoles(int fd, wire::LockRanges* ranges, wire::LockRanges* holes) {
  const std::vector<wire::LockRange> all = ranges->ranges();
  for (const wire::LockRange& range : all) {
    uint64_t at = range.first;
    while (at <= range.last && range.last - at >= kLargeHole) {
      const off_t hole = lseek(fd, static_cast<off_t>(at), SEEK_HOLE);
      if (hole < 0 || static_cast<uint64_t>(hole) > range.last) break;
      const off_t data = lseek(fd, hole, SEEK_DATA);
      const uint64_t end =
          data < 0 ? range.last + 1 : std::min(range.last + 1, static_cast<uint64_t>(data));
      if (end - static_cast<uint64_t>(hole) >= kLargeHole) {
        ranges->Clear(static_cast<uint64_t>(hole), end - 1);
        holes->Set({static_cast<uint64_t>(hole), end - 1, /*write=*/true});
      }
      at = std::max(end, at + 1);
    }
  }
}

}  // namespace

std::string UndoFiles::NameOf(int64_t id) const { return absl::StrCat(kUndoPrefix, tag_, "-", id); }

bool UndoFiles::Offers(const FileSystem& fs) const { return OpenHiddenDirectory(fs).valid(); }

int UndoFiles::Save(const FileSystem& fs, int64_t id, int fd, bool is_first,
                    wire::LockRanges* ranges, wire::LockRanges* holes) const {
  const ScopedOwnIdentity own;
  FindHoles(fd, ranges, holes);
  if (ranges->empty()) return 0;
  const UniqueFd directory = OpenHiddenDirectory(fs);
  if (!directory.valid()) return EACCES;
  const int create = is_first ? O_CREAT | O_TRUNC : 0;
  const UniqueFd undo(openat(directory.get(), NameOf(id).c_str(),
                             O_WRONLY | create | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!undo.valid()) return errno;
  for (const wire::LockRange& range : ranges->ranges()) {
    if (int error = CopyBytes(fd, undo.get(), range.first, range.last); error != 0) return error;
  }
  if (fdatasync(undo.get()) != 0) return errno;
  return is_first && fsync(directory.get()) != 0 ? errno : 0;
}

int UndoFiles::Restore(const FileSystem& fs, int64_t id, int fd,
                       const std::vector<wire::LockRange>& ranges) const {
  if (ranges.empty()) return 0;
  const ScopedOwnIdentity own;
  const UniqueFd directory = OpenHiddenDirectory(fs);
  if (!directory.valid()) return EACCES;
  const UniqueFd undo(
      openat(directory.get(), NameOf(id).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!undo.valid()) return errno;
  for (const wire::LockRange& range : ranges) {
    if (int error = CopyBytes(undo.get(), fd, range.first, range.last); error != 0) return error;
  }
  return 0;
}

void UndoFiles::Remove(const FileSystem& fs, int64_t id) const {
  const ScopedOwnIdentity own;
  const UniqueFd directory = OpenHiddenDirectory(fs);
  if (directory.valid()) unlinkat(directory.get(), NameOf(id).c_str(), 0);
}

void UndoFiles::Tidy(const FileSystem& fs, absl::FunctionRef<bool(int64_t id)> is_needed) const {
  if (fs.exported->read_only) return;
  const ScopedOwnIdentity own;
  const UniqueFd directory = OpenHiddenDirectory(fs);
  if (!directory.valid()) return;
  DirectoryEntries entries(directory);
  if (!entries.valid()) return;
  const std::string prefix = absl::StrCat(kUndoPrefix, tag_, "-");
  while (const char* name = entries.Next()) {
    absl::string_view number = name;
    int64_t id = 0;
    if (!absl::ConsumePrefix(&number, prefix) || !absl::SimpleAtoi(number, &id)) continue;
    if (!is_needed(id)) unlinkat(directory.get(), name, 0);
  }
}

}  // namespace dafs::server
