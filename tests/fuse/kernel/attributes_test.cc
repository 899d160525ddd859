// Attributes as the kernel has them, and as the server has them.
#include "fuse/kernel/attributes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

TEST(KernelAttributes, SynchronousOpensRequestStableWrites) {
  EXPECT_EQ(StabilityFromFlags(O_RDWR | O_APPEND), wire::StableHow::kUnstable);
  EXPECT_EQ(StabilityFromFlags(O_RDWR | O_DSYNC), wire::StableHow::kDataSync);
  EXPECT_EQ(StabilityFromFlags(O_WRONLY | O_SYNC), wire::StableHow::kFileSync);
}

TEST(KernelAttributes, ConvertServerAttributesForStat) {
  wire::FileAttributes a;
  a.set(wire::kFattrObjectType | wire::kFattrMode | wire::kFattrNumLinks | wire::kFattrObjectSize |
        wire::kFattrFileId | wire::kFattrSpaceUsed);
  a.object_type = wire::ObjectType::kReg;
  a.mode = 04755;
  a.num_links = 3;
  a.object_size = uint64_t{5} << 32;
  a.file_id = 0x123456789abcdef0;
  a.space_used = 1025;
  a.set(wire::kFattrTimeModify);
  a.time_modify = {-5, 999'999'999};
  a.owner = "1000";
  a.owner_group = "somebody@example.org";
  fuse_attr out = KernelAttributes(a, 7);
  EXPECT_EQ(out.mode, S_IFREG | 04755u);
  EXPECT_EQ(out.nlink, 3u);
  EXPECT_EQ(out.size, uint64_t{5} << 32);
  EXPECT_EQ(out.ino, 0x123456789abcdef0u);
  EXPECT_EQ(out.blocks, 3u);
  EXPECT_EQ(static_cast<int64_t>(out.mtime), -5);
  EXPECT_EQ(out.mtimensec, 999'999'999u);
  EXPECT_EQ(out.uid, 1000u);
  EXPECT_EQ(out.gid, 65534u);
}

// The server supports only the mandatory attributes.
TEST(KernelAttributes, MissingAttributesGetDefaultValues) {
  wire::FileAttributes a;
  a.set(wire::kFattrMandatory);
  a.object_type = wire::ObjectType::kDir;
  a.object_size = 513;
  a.file_id = 3;
  fuse_attr out = KernelAttributes(a, 7);
  EXPECT_EQ(out.mode, S_IFDIR | 0777u);
  EXPECT_EQ(out.nlink, 1u);
  EXPECT_EQ(out.blocks, 2u);
  EXPECT_EQ(out.uid, 65534u);
  a.set(wire::kFattrTimeModify);
  a.time_modify = {77, 5};
  out = KernelAttributes(a, 7);
  EXPECT_EQ(out.atime, 77u);
  EXPECT_EQ(out.ctime, 77u);
  EXPECT_EQ(out.ctimensec, 5u);
  EXPECT_EQ(KernelStatx(a, 7).atime.seconds, 77);
}

TEST(KernelAttributes, TypesAndDevicesConvertBothWays) {
  for (uint32_t type : {0100000u, 0040000u, 0120000u, 0060000u, 0020000u, 0140000u, 0010000u}) {
    EXPECT_EQ(FileTypeBits(TypeFromMode(type | 0644)), type);
  }
  EXPECT_EQ(TypeFromMode(0030000), wire::ObjectType::kInvalid);
  // The kernel's new_encode_dev: minor bits 0-7, major in 8-19, the rest of the minor above.
  EXPECT_EQ(DeviceFromKernel(0x00000803).specdata1, 8u);
  EXPECT_EQ(DeviceFromKernel(0x00000803).specdata2, 3u);
  for (uint32_t rdev : {0x803u, 0xfffffu, 0xfff00000u, 0x12345678u}) {
    EXPECT_EQ(DeviceToKernel(DeviceFromKernel(rdev)), rdev);
  }
}

// Shows DAFS-6.1.4-06 (the client's part).
TEST(AttributesToSet, DistinguishesNowFromATimeAndSetsNothingElse) {
  fuse_setattr_in in = {};
  EXPECT_EQ(AttributesToSet(in).valid, 0u);
  in.valid = FATTR_ATIME | FATTR_ATIME_NOW | FATTR_MTIME | FATTR_MODE | FATTR_UID | FATTR_SIZE;
  in.mtime = 12;
  in.mtimensec = 34;
  in.mode = S_IFREG | 0640;
  in.uid = 77;
  in.size = 99;
  wire::FileAttributes set = AttributesToSet(in);
  EXPECT_EQ(set.valid, wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet | wire::kFattrMode |
                           wire::kFattrOwner | wire::kFattrObjectSize);
  EXPECT_EQ(set.time_access_set.how, wire::TimeSetHow::kSetToServerTime);
  EXPECT_EQ(set.time_modify_set.how, wire::TimeSetHow::kSetToClientTime);
  EXPECT_EQ(set.time_modify_set.client_time.seconds, 12);
  EXPECT_EQ(set.time_modify_set.client_time.nseconds, 34u);
  EXPECT_EQ(set.mode, 0640u);
  EXPECT_EQ(set.owner, "77");
  EXPECT_EQ(set.object_size, 99u);
}

// Shows DAFS-6.5.2-04 (the client's part); no mask of the kernel asks for `delete`.
TEST(AccessFromMask, HasTheBitsOfTheSpecification) {
  constexpr uint32_t kRead = 0x1, kLookup = 0x2, kModify = 0x4, kExtend = 0x8, kExecute = 0x20;
  EXPECT_EQ(AccessFromMask(R_OK, false), kRead);
  EXPECT_EQ(AccessFromMask(W_OK, false), kModify | kExtend);
  EXPECT_EQ(AccessFromMask(X_OK, false), kExecute);
  EXPECT_EQ(AccessFromMask(X_OK, true), kLookup);
  EXPECT_EQ(AccessFromMask(R_OK | W_OK | X_OK, true), kRead | kModify | kExtend | kLookup);
}

TEST(KernelAttributes, StatxReturnsTheBirthTimeIfItIsKnown) {
  wire::FileAttributes attributes;
  attributes.object_type = wire::ObjectType::kChr;
  attributes.mode = 0640;
  attributes.raw_dev = {4095, 1048575};
  attributes.time_create = {-5, 7};
  StatxAttributes stat = KernelStatx(attributes, 3);
  EXPECT_EQ(stat.mask, static_cast<uint32_t>(STATX_BASIC_STATS));
  EXPECT_EQ(stat.ino, 3u);
  EXPECT_EQ(stat.rdev_major, 4095u);
  EXPECT_EQ(stat.rdev_minor, 1048575u);
  attributes.set(wire::kFattrTimeCreate);
  stat = KernelStatx(attributes, 3);
  EXPECT_EQ(stat.mask, static_cast<uint32_t>(STATX_BASIC_STATS | STATX_BTIME));
  EXPECT_EQ(stat.btime.seconds, -5);
  EXPECT_EQ(stat.btime.nanoseconds, 7u);
}

}  // namespace
}  // namespace dafs::fuse
