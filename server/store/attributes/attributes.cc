#include "server/store/attributes/attributes.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/attributes/acl.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/statx.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

wire::Time ToTime(const statx_timestamp& t) { return {t.tv_sec, t.tv_nsec}; }

// Converts one of the _SET attributes for utimensat(2). False: nseconds out of range (R87).
bool ToTimespec(bool valid, const wire::SetTime& time, timespec* out) {
  out->tv_sec = 0;
  if (!valid) {
    out->tv_nsec = UTIME_OMIT;
  } else if (time.how == wire::TimeSetHow::kSetToServerTime) {
    out->tv_nsec = UTIME_NOW;
  } else {
    if (time.client_time.nseconds > 999'999'999) return false;
    out->tv_sec = time.client_time.seconds;
    out->tv_nsec = time.client_time.nseconds;
  }
  return true;
}

}  // namespace

bool ParseId(const std::string& text, uint32_t* id) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  return absl::SimpleAtoi(text, id) && *id != ~0u;
}

wire::ObjectType ObjectTypeOf(mode_t type) {
  switch (type & S_IFMT) {
    case S_IFREG:
      return wire::ObjectType::kReg;
    case S_IFDIR:
      return wire::ObjectType::kDir;
    case S_IFBLK:
      return wire::ObjectType::kBlk;
    case S_IFCHR:
      return wire::ObjectType::kChr;
    case S_IFLNK:
      return wire::ObjectType::kLnk;
    case S_IFSOCK:
      return wire::ObjectType::kSock;
    case S_IFIFO:
      return wire::ObjectType::kFifo;
    default:
      return wire::ObjectType::kInvalid;
  }
}

uint64_t CtimeNs(const struct statx& stx) {
  return static_cast<uint64_t>(stx.stx_ctime.tv_sec) * 1'000'000'000 + stx.stx_ctime.tv_nsec;
}

void FillAttributes(const struct statx& stx, uint64_t bitmap, uint64_t change,
                    const wire::FileHandle& filehandle, bool hidden_link,
                    wire::FileAttributes* attributes) {
  wire::FileAttributes& a = *attributes;
  a.included = bitmap & wire::kFattrAll;
  a.valid = a.included & kFattrReadable & ~(wire::kFattrNamedAttr | wire::kFattrAcl);
  if ((stx.stx_mask & STATX_BTIME) == 0) a.valid &= ~wire::kFattrTimeCreate;
  a.object_type = ObjectTypeOf(stx.stx_mode);
  a.mode = stx.stx_mode & wire::kModeBits;
  // Some file systems do not count subdirectories: the link count is always 1.
  const bool counted = !S_ISDIR(stx.stx_mode) || stx.stx_nlink > 2;
  a.num_links = stx.stx_nlink - (hidden_link && counted && stx.stx_nlink > 0 ? 1 : 0);
  a.change = change;
  a.object_size = stx.stx_size;
  a.file_id = stx.stx_ino;
  a.space_used = stx.stx_blocks * 512;
  a.time_access = ToTime(stx.stx_atime);
  if (a.has(wire::kFattrTimeCreate)) a.time_create = ToTime(stx.stx_btime);
  a.time_delta = {0, 1};
  a.time_metadata = ToTime(stx.stx_ctime);
  a.time_modify = ToTime(stx.stx_mtime);
  a.raw_dev = {stx.stx_rdev_major, stx.stx_rdev_minor};
  if (a.has(wire::kFattrFilehandle)) a.filehandle = filehandle;
  if (a.has(wire::kFattrOwner)) a.owner = absl::StrCat(stx.stx_uid);
  if (a.has(wire::kFattrOwnerGroup)) a.owner_group = absl::StrCat(stx.stx_gid);
}

DafsStatus CheckSettable(const wire::FileAttributes& attributes) {
  if ((attributes.valid & ~kFattrWritable) != 0) return DafsStatus::kInval;
  uint32_t id = 0;
  if (attributes.has(wire::kFattrOwner) && !ParseId(attributes.owner, &id)) {
    return DafsStatus::kInval;
  }
  if (attributes.has(wire::kFattrOwnerGroup) && !ParseId(attributes.owner_group, &id)) {
    return DafsStatus::kInval;
  }
  if (attributes.has(wire::kFattrMode) && (attributes.mode & ~wire::kModeBits) != 0) {
    return DafsStatus::kInval;
  }
  timespec ts;
  if (!ToTimespec(attributes.has(wire::kFattrTimeAccessSet), attributes.time_access_set, &ts) ||
      !ToTimespec(attributes.has(wire::kFattrTimeModifySet), attributes.time_modify_set, &ts)) {
    return DafsStatus::kInval;
  }
  return DafsStatus::kOk;
}

DafsStatus ApplyAttributes(Object& file, const wire::FileAttributes& attributes, int size_fd,
                           uint64_t* set) {
  *set = 0;
  if (DafsStatus status = CheckSettable(attributes); status != DafsStatus::kOk) return status;
  const FdPath path(file.path_fd());
  if (attributes.has(wire::kFattrObjectSize)) {
    if (!file.is_regular()) return DafsStatus::kInval;
    if (attributes.object_size > INT64_MAX) return DafsStatus::kFbig;
    const auto size = static_cast<off_t>(attributes.object_size);
    if ((size_fd >= 0 ? ftruncate(size_fd, size) : truncate(path.c_str(), size)) != 0) {
      return StatusFromErrno();
    }
    *set |= wire::kFattrObjectSize;
  }
  constexpr uint64_t kOwners = wire::kFattrOwner | wire::kFattrOwnerGroup;
  if ((attributes.valid & kOwners) != 0) {
    uint32_t uid = ~0u;  // no change
    uint32_t gid = ~0u;
    if (attributes.has(wire::kFattrOwner)) ParseId(attributes.owner, &uid);
    if (attributes.has(wire::kFattrOwnerGroup)) ParseId(attributes.owner_group, &gid);
    if (fchownat(file.path_fd(), "", uid, gid, AT_EMPTY_PATH) != 0) return StatusFromErrno();
    *set |= attributes.valid & kOwners;
  }
  if (attributes.has(wire::kFattrMode)) {
    if (file.type() == S_IFLNK) return DafsStatus::kInval;  // links have no mode of their own
    if (chmod(path.c_str(), attributes.mode) != 0) return StatusFromErrno();
    *set |= wire::kFattrMode;
  }
  if (attributes.has(wire::kFattrAcl)) {
    const DafsStatus status = SetAcl(file, attributes.acl);
    // 6.5.35: INVAL, as for any attribute that cannot be set: the file system cannot express the
    // ACL.
    if (status == DafsStatus::kNotSupp) return DafsStatus::kInval;
    if (status != DafsStatus::kOk) return status;
    *set |= wire::kFattrAcl;
  }
  constexpr uint64_t kTimes = wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet;
  if ((attributes.valid & kTimes) != 0) {
    timespec times[2];
    ToTimespec(attributes.has(wire::kFattrTimeAccessSet), attributes.time_access_set, &times[0]);
    ToTimespec(attributes.has(wire::kFattrTimeModifySet), attributes.time_modify_set, &times[1]);
    if (utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return StatusFromErrno();
    *set |= attributes.valid & kTimes;
  }
  return DafsStatus::kOk;
}

}  // namespace dafs::server
