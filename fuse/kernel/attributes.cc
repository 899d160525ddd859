#include "fuse/kernel/attributes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace dafs::fuse {
namespace {

constexpr uint32_t kNobody = 65534;  // for an owner that is not a number

// Replaces attributes that a server may lack (WIRE 5.2, "Mandatory"). The mode forbids nothing,
// since the server decides anyway. A missing time is replaced by the most similar one.
constexpr uint32_t kAnyMode = 0777;

struct Times {
  wire::Time access, modify, metadata;
};

Times TimesOf(const wire::FileAttributes& a) {
  Times times;
  times.modify = a.has(wire::kFattrTimeModify) ? a.time_modify : a.time_metadata;
  times.metadata = a.has(wire::kFattrTimeMetadata) ? a.time_metadata : times.modify;
  times.access = a.has(wire::kFattrTimeAccess) ? a.time_access : times.modify;
  return times;
}

// st_blksize: the size of one transfer by stdio and cp. Each write(2) is a round trip, so this is
// more than a page. It is small enough for malloc not to use mmap(2).
constexpr uint32_t kPreferredBytes = 65536;

uint32_t IdFromText(std::string_view text) {
  uint32_t id = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() ? id : kNobody;
}

wire::SetTime ClientTime(uint64_t seconds, uint32_t nanoseconds) {
  wire::SetTime time;
  time.how = wire::TimeSetHow::kSetToClientTime;
  time.client_time.seconds = static_cast<int64_t>(seconds);
  time.client_time.nseconds = std::min(nanoseconds, 999'999'999u);
  return time;
}

}  // namespace

uint32_t FileTypeBits(wire::ObjectType type) {
  using enum wire::ObjectType;
  switch (type) {
    case kReg:
      return S_IFREG;
    case kDir:
      return S_IFDIR;
    case kBlk:
      return S_IFBLK;
    case kChr:
      return S_IFCHR;
    case kLnk:
      return S_IFLNK;
    case kSock:
      return S_IFSOCK;
    case kFifo:
      return S_IFIFO;
    default:
      return 0;
  }
}

wire::ObjectType TypeFromMode(uint32_t mode) {
  using enum wire::ObjectType;
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
      return kReg;
    case S_IFDIR:
      return kDir;
    case S_IFBLK:
      return kBlk;
    case S_IFCHR:
      return kChr;
    case S_IFLNK:
      return kLnk;
    case S_IFSOCK:
      return kSock;
    case S_IFIFO:
      return kFifo;
    default:
      return kInvalid;
  }
}

wire::SpecData DeviceFromKernel(uint32_t rdev) {
  wire::SpecData device;
  device.specdata1 = (rdev & 0xfff00) >> 8;
  device.specdata2 = (rdev & 0xff) | ((rdev >> 12) & 0xfff00);
  return device;
}

uint32_t DeviceToKernel(const wire::SpecData& device) {
  auto major = static_cast<uint32_t>(device.specdata1) & 0xfff;
  auto minor = static_cast<uint32_t>(device.specdata2) & 0xfffff;
  return (minor & 0xff) | (major << 8) | ((minor & ~0xffu) << 12);
}

fuse_attr KernelAttributes(const wire::FileAttributes& a, uint64_t nodeid) {
  fuse_attr out = {};
  out.ino = a.has(wire::kFattrFileId) ? a.file_id : nodeid;
  out.size = a.object_size;
  // POSIX counts blocks of 512 bytes. Without SPACE_USED the size is the best estimate.
  uint64_t used = a.has(wire::kFattrSpaceUsed) ? a.space_used : a.object_size;
  out.blocks = used / 512 + (used % 512 != 0);
  const Times times = TimesOf(a);
  out.atime = static_cast<uint64_t>(times.access.seconds);
  out.atimensec = times.access.nseconds;
  out.mtime = static_cast<uint64_t>(times.modify.seconds);
  out.mtimensec = times.modify.nseconds;
  out.ctime = static_cast<uint64_t>(times.metadata.seconds);
  out.ctimensec = times.metadata.nseconds;
  out.mode =
      FileTypeBits(a.object_type) | (a.has(wire::kFattrMode) ? a.mode & wire::kModeBits : kAnyMode);
  out.nlink = a.has(wire::kFattrNumLinks) ? a.num_links : 1;
  out.uid = IdFromText(a.owner);
  out.gid = IdFromText(a.owner_group);
  out.rdev = DeviceToKernel(a.raw_dev);
  out.blksize = kPreferredBytes;
  return out;
}

StatxAttributes KernelStatx(const wire::FileAttributes& a, uint64_t nodeid) {
  const fuse_attr attr = KernelAttributes(a, nodeid);
  const auto time = [](const wire::Time& t) { return StatxTime{t.seconds, t.nseconds, 0}; };
  StatxAttributes out = {};
  out.mask = STATX_BASIC_STATS;
  out.blksize = attr.blksize;
  out.nlink = attr.nlink;
  out.uid = attr.uid;
  out.gid = attr.gid;
  out.mode = static_cast<uint16_t>(attr.mode);
  out.ino = attr.ino;
  out.size = attr.size;
  out.blocks = attr.blocks;
  const Times times = TimesOf(a);
  out.atime = time(times.access);
  out.ctime = time(times.metadata);
  out.mtime = time(times.modify);
  out.rdev_major = static_cast<uint32_t>(a.raw_dev.specdata1);
  out.rdev_minor = static_cast<uint32_t>(a.raw_dev.specdata2);
  if (a.has(wire::kFattrTimeCreate)) {
    out.mask |= STATX_BTIME;
    out.btime = time(a.time_create);
  }
  return out;
}

wire::FileAttributes AttributesToSet(const fuse_setattr_in& in) {
  wire::FileAttributes set;
  if (in.valid & FATTR_MODE) {
    set.set(wire::kFattrMode);
    set.mode = in.mode & wire::kModeBits;
  }
  if (in.valid & FATTR_UID) {
    set.set(wire::kFattrOwner);
    set.owner = std::to_string(in.uid);
  }
  if (in.valid & FATTR_GID) {
    set.set(wire::kFattrOwnerGroup);
    set.owner_group = std::to_string(in.gid);
  }
  if (in.valid & FATTR_SIZE) {
    set.set(wire::kFattrObjectSize);
    set.object_size = in.size;
  }
  if (in.valid & FATTR_ATIME) {
    set.set(wire::kFattrTimeAccessSet);
    if (!(in.valid & FATTR_ATIME_NOW)) set.time_access_set = ClientTime(in.atime, in.atimensec);
  }
  if (in.valid & FATTR_MTIME) {
    set.set(wire::kFattrTimeModifySet);
    if (!(in.valid & FATTR_MTIME_NOW)) set.time_modify_set = ClientTime(in.mtime, in.mtimensec);
  }
  return set;
}

wire::FileAttributes NewFileAttributes(uint32_t mode) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrMode);
  attributes.mode = mode & wire::kModeBits;
  return attributes;
}

uint32_t AccessFromMask(uint32_t mask, bool directory) {
  uint32_t access = 0;
  if (mask & R_OK) access |= wire::kAccessRead;
  if (mask & W_OK) access |= wire::kAccessModify | wire::kAccessExtend;
  if (mask & X_OK) access |= directory ? wire::kAccessLookup : wire::kAccessExecute;
  return access;
}

wire::StableHow StabilityFromFlags(uint32_t flags) {
  if ((flags & O_SYNC) == O_SYNC) return wire::StableHow::kFileSync;  // includes O_DSYNC
  return flags & O_DSYNC ? wire::StableHow::kDataSync : wire::StableHow::kUnstable;
}

KernelTime Validity(absl::Duration duration) {
  duration = std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365));
  absl::Duration rest;
  int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &rest);
  return {static_cast<uint64_t>(seconds), static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest))};
}

}  // namespace dafs::fuse
