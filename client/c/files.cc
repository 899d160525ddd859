// Open files and locks of the C interface.
#include <algorithm>

#include "client/c/objects.h"

// The functions of C are outside of namespaces.
using namespace dafs;     // NOLINT(google-build-using-namespace)
using namespace dafs::c;  // NOLINT(google-build-using-namespace)
using client::FileLock;

namespace {

constexpr uint32_t kOpenFlags = (DAFS_SHARE_KEY << 1) - 1;
constexpr uint32_t kLockFlags = (DAFS_LOCK_REPAIR << 1) - 1;

int OptionsOf(const dafs_open_options& from, const char* call, client::FileOptions* into) {
  if ((from.flags & ~kOpenFlags) != 0) return Wrong(call, "an unknown flag");
  if (from.pattern > DAFS_DONT_NEED) return Wrong(call, "an unknown pattern");
  const auto has = [&](uint32_t flag) { return (from.flags & flag) != 0; };
  if (has(DAFS_EXCLUSIVE) && !has(DAFS_CREATE)) {
    return Wrong(call, "DAFS_EXCLUSIVE needs DAFS_CREATE");
  }
  into->write = has(DAFS_WRITE);
  into->create = has(DAFS_CREATE);
  into->exclusive = has(DAFS_EXCLUSIVE);
  into->truncate = has(DAFS_TRUNCATE);
  into->unlinked = has(DAFS_UNLINKED);
  into->share_deny =
      (has(DAFS_DENY_READ) ? wire::kShareRead : 0) | (has(DAFS_DENY_WRITE) ? wire::kShareWrite : 0);
  into->deny_delete = has(DAFS_DENY_DELETE);
  if (has(DAFS_SHARE_KEY)) into->share_key = from.share_key;
  if (from.mode != 0) into->mode = from.mode;
  into->pattern = static_cast<wire::AccessPattern>(from.pattern);
  return 0;
}

int LockOf(const dafs_range_lock* from, const char* call, FileLock* into, int32_t* wait_ms) {
  dafs_range_lock read;
  int error = 0;
  if (!ReadOptions(from, call, &read, &error)) return error;
  if ((read.flags & ~kLockFlags) != 0) return Wrong(call, "an unknown flag");
  if (read.wait_ms < -1) return Wrong(call, "wait_ms is less than -1");
  into->offset = read.offset;
  into->length = read.length != 0 ? read.length : wire::kLockToEnd;
  into->write = (read.flags & DAFS_LOCK_WRITE) != 0;
  into->options.persist = (read.flags & DAFS_LOCK_PERSIST) != 0;
  into->options.auto_recovery = (read.flags & DAFS_LOCK_AUTO_RECOVERY) != 0;
  into->options.repair = (read.flags & DAFS_LOCK_REPAIR) != 0;
  *wait_ms = read.wait_ms;
  return 0;
}

int64_t Transfer(dafs_file* file, void* memory, size_t size, uint64_t offset, bool write) {
  const char* const call = write ? "dafs_write" : "dafs_read";
  return On<File>(file, call, [&](File& f) -> int64_t {
    if (size > DAFS_MOST_BYTES) return Wrong(call, "more than DAFS_MOST_BYTES at once");
    if (size == 0) return 0;
    if (memory == nullptr) return Missing(call, "the memory");
    const client::MemorySegment segment{
        static_cast<std::byte*>(memory), static_cast<uint32_t>(size), {}};
    client::ExportSession& session = *f.session.session;
    const absl::StatusOr<uint64_t> count =
        write ? session.Write(*f.file, segment, offset) : session.Read(*f.file, segment, offset);
    return count.ok() ? static_cast<int64_t>(*count) : Fail(count.status());
  });
}

}  // namespace

extern "C" {

int dafs_open(dafs_session* session, const char* path, const dafs_open_options* options,
              dafs_file** file) {
  constexpr char kCall[] = "dafs_open";
  return static_cast<int>(On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (path == nullptr) return Missing(kCall, "path");
    if (file == nullptr) return Missing(kCall, "file");
    *file = nullptr;
    client::FileOptions wanted;
    dafs_open_options read = {};
    int error = 0;
    if (options != nullptr && !ReadOptions(options, kCall, &read, &error)) return error;
    if ((error = OptionsOf(read, kCall, &wanted)) != 0) return error;
    absl::StatusOr<std::unique_ptr<client::IoFile>> opened = s.session->OpenFile(path, wanted);
    if (!opened.ok()) return Fail(opened.status());
    auto made = std::make_unique<File>(File{s, *std::move(opened)});
    client::IoFile& io = *made->file;
    const uintptr_t handle = Adopt(s.files, std::move(made));
    if (handle == 0) {
      s.session->CloseFile(io).IgnoreError();
      return Fail(EMFILE, "dafs_open: too many handles");
    }
    *file = HandleOf<dafs_file>(handle);
    return 0;
  }));
}

int dafs_close(dafs_file* file) {
  return static_cast<int>(On<File>(file, "dafs_close", [&](File& f) -> int64_t {
    const bool busy = f.file->outstanding > 0;
    const absl::Status status = f.session.session->CloseFile(*f.file);
    if (!busy) {
      const auto handle = reinterpret_cast<uintptr_t>(file);
      std::unique_ptr<File> owned(&f);
      f.session.files.erase(handle);
      HandleTable::Get().Remove(handle);
    }
    return Done(status);
  }));
}

int64_t dafs_read(dafs_file* file, void* into, size_t size, uint64_t offset) {
  return Transfer(file, into, size, offset, false);
}

int64_t dafs_write(dafs_file* file, const void* from, size_t size, uint64_t offset) {
  return Transfer(file, const_cast<void*>(from), size, offset, true);
}

int64_t dafs_append(dafs_file* file, const void* from, size_t size) {
  constexpr char kCall[] = "dafs_append";
  return On<File>(file, kCall, [&](File& f) -> int64_t {
    if (size > DAFS_MOST_BYTES)
      return Fail(EFBIG, "dafs_append: more than DAFS_MOST_BYTES at once");
    if (from == nullptr && size > 0) return Missing(kCall, "the memory");
    const absl::StatusOr<uint64_t> offset =
        f.session.session->Append(*f.file, {static_cast<const std::byte*>(from), size});
    return offset.ok() ? static_cast<int64_t>(*offset) : Fail(offset.status());
  });
}

int dafs_truncate(dafs_file* file, uint64_t size) {
  return static_cast<int>(On<File>(file, "dafs_truncate", [&](File& f) -> int64_t {
    return Done(f.session.session->Truncate(*f.file, size));
  }));
}

int dafs_commit(dafs_file* file) {
  return static_cast<int>(On<File>(file, "dafs_commit", [&](File& f) -> int64_t {
    return Done(f.session.session->Commit(*f.file));
  }));
}

int dafs_hint(dafs_file* file, uint64_t offset, uint32_t size, enum dafs_pattern pattern) {
  constexpr char kCall[] = "dafs_hint";
  return static_cast<int>(On<File>(file, kCall, [&](File& f) -> int64_t {
    const uint32_t wanted = NumberOf(pattern);
    if (wanted > DAFS_DONT_NEED) return Wrong(kCall, "an unknown pattern");
    return Done(f.session.session->CacheHint(*f.file, offset, size,
                                             static_cast<wire::AccessPattern>(wanted), 0));
  }));
}

int dafs_fstat(dafs_file* file, dafs_attributes* attributes) {
  constexpr char kCall[] = "dafs_fstat";
  return static_cast<int>(On<File>(file, kCall, [&](File& f) -> int64_t {
    const absl::StatusOr<wire::FileAttributes> found = f.session.session->Stat(*f.file);
    if (!found.ok()) return Fail(found.status());
    int error = 0;
    return WriteResult(ToC(*found), kCall, attributes, &error) ? 0 : error;
  }));
}

int dafs_lock(dafs_file* file, const dafs_range_lock* lock) {
  constexpr char kCall[] = "dafs_lock";
  return static_cast<int>(On<File>(file, kCall, [&](File& f) -> int64_t {
    FileLock wanted;
    int32_t wait_ms = 0;
    if (const int error = LockOf(lock, kCall, &wanted, &wait_ms); error != 0) return error;
    const absl::StatusOr<client::LockOutcome> outcome = f.session.session->locks().Lock(
        *f.file, wanted, wait_ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(wait_ms));
    if (!outcome.ok()) return Fail(outcome.status());
    if (*outcome == client::LockOutcome::kGranted) return 0;
    const std::string name =
        f.session.library->client().options().server_name + ": lock " + f.file->name;
    if (*outcome == client::LockOutcome::kDeadlock) {
      return Fail(EDEADLK, name + ": its owner would wait for itself");
    }
    return Fail(EAGAIN, name + ": another owner holds the range");
  }));
}

int dafs_lock_test(dafs_file* file, dafs_range_lock* lock) {
  constexpr char kCall[] = "dafs_lock_test";
  return static_cast<int>(On<File>(file, kCall, [&](File& f) -> int64_t {
    FileLock wanted;
    int32_t wait_ms = 0;
    if (int error = LockOf(lock, kCall, &wanted, &wait_ms); error != 0) return error;
    const auto conflict = f.session.session->locks().Test(*f.file, wanted);
    if (!conflict.ok()) return Fail(conflict.status());
    if (!conflict->has_value()) return 0;
    dafs_range_lock found = {};
    const wire::LockRange& range = (*conflict)->range;
    found.flags = range.write ? uint32_t{DAFS_LOCK_WRITE} : 0;
    found.offset = range.first;
    const uint64_t length = wire::LengthOf(range);
    found.length = length == wire::kLockToEnd ? 0 : length;
    int error = 0;
    return WriteResult(found, kCall, lock, &error) ? 1 : error;
  }));
}

int dafs_unlock(dafs_file* file, uint64_t offset, uint64_t length) {
  return static_cast<int>(On<File>(file, "dafs_unlock", [&](File& f) -> int64_t {
    return Done(f.session.session->locks().Unlock(*f.file, offset,
                                                  length != 0 ? length : wire::kLockToEnd));
  }));
}

int dafs_abort(dafs_file* file, const dafs_range_lock* lock) {
  constexpr char kCall[] = "dafs_abort";
  return static_cast<int>(On<File>(file, kCall, [&](File& f) -> int64_t {
    FileLock wanted;
    int32_t wait_ms = 0;
    if (const int error = LockOf(lock, kCall, &wanted, &wait_ms); error != 0) return error;
    return Done(f.session.session->locks().Abort(*f.file, wanted));
  }));
}

}  // extern "C"
