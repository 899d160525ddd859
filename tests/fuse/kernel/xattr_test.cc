// Parts of the code for extended attributes that need neither kernel nor server.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuse/cache/absent_xattrs.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/inode_table.h"
#include "fuse/kernel/default_acl.h"
#include "fuse/kernel/labels.h"
#include "fuse/kernel/nfs4_acl.h"
#include "wire/protocol/constants.h"

namespace dafs::fuse {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// Encoded by hand after RFC 7530 6.2.1 and RFC 4506: A::OWNER@:r, and an alarm for group 7.
const std::string kGolden(
    "\0\0\0\2"
    "\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\6OWNER@\0\0"
    "\0\0\0\3\0\0\0\x50\0\0\0\2\0\0\0\1"
    "7\0\0\0",
    48);
const std::vector<wire::Ace> kAcl = {
    {wire::kAceAllowed, 0, wire::kAceReadData, "OWNER@"},
    {wire::kAceAlarm, wire::kAceIdentifierGroup | wire::kAceSuccessfulAccess, wire::kAceWriteData,
     "7"}};

TEST(KernelLabelsTest, SelinuxIsDetectedByItsFileSystem) {
  const std::string path = testing::TempDir() + "dafs-filesystems";
  const auto listing = [&](const std::string& content) {
    std::ofstream(path) << content;
    return KernelHasSelinux(path);
  };
  EXPECT_FALSE(listing("nodev\tsysfs\nnodev\tnoselinuxfs\n\text4\n"));
  EXPECT_TRUE(listing("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
  std::filesystem::remove(path);
  EXPECT_FALSE(KernelHasSelinux(path)) << "no list";
}

TEST(Nfs4AclTest, EncodesAsNfsXdr) {
  EXPECT_EQ(EncodeNfs4Acl(kAcl), kGolden);
  EXPECT_EQ(DecodeNfs4Acl(Bytes(kGolden)), kAcl);
  EXPECT_EQ(EncodeNfs4Acl({}), std::string(4, '\0'));
}

TEST(Nfs4AclTest, RefusesMalformedAcls) {
  for (size_t size = 0; size < kGolden.size(); ++size) {
    EXPECT_FALSE(DecodeNfs4Acl(Bytes(kGolden).first(size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeNfs4Acl(Bytes(kGolden + "x")).has_value());
  std::string many = kGolden;
  many[2] = 4;  // 1026 entries
  EXPECT_FALSE(DecodeNfs4Acl(Bytes(many)).has_value());
  std::string endless = kGolden;
  endless[16] = '\x7f';  // the length of the first entry's principal
  EXPECT_FALSE(DecodeNfs4Acl(Bytes(endless)).has_value());
}

// u::rwx, u:1000:rwx, g::r-x, o::r--; and the same with the mask -w-.
TEST(DefaultAclTest, RemovesRightsFromTheMode) {
  const std::string header("\2\0\0\0", 4);
  const std::string owner("\1\0\7\0\xff\xff\xff\xff", 8), user("\2\0\7\0\xe8\3\0\0", 8);
  const std::string group("\4\0\5\0\xff\xff\xff\xff", 8), mask("\x10\0\2\0\xff\xff\xff\xff", 8);
  const std::string other("\x20\0\4\0\xff\xff\xff\xff", 8);
  EXPECT_EQ(ModeUnderAcl(010777, header + owner + group + other), 010754u);
  EXPECT_EQ(ModeUnderAcl(010666, header + owner + user + group + mask + other), 010624u);
  EXPECT_EQ(ModeUnderAcl(010777, ""), 010000u);
  EXPECT_EQ(ModeUnderAcl(010777, header + owner.substr(0, 7)), 010000u);
}

class AbsentTest : public ::testing::Test {
 protected:
  AbsentTest() {
    handle_.fileid.bytes[0] = 1;
    node_ = table_.Remember(handle_, File(1), {kRootNode, "file"});
  }
  static wire::FileAttributes File(uint64_t change) {
    wire::FileAttributes attributes;
    attributes.set(wire::kFattrObjectType | wire::kFattrChange);
    attributes.object_type = wire::ObjectType::kReg;
    attributes.change = change;
    return attributes;
  }
  bool Known(absl::Duration after) const {
    return absent_.Known(node_, Absent::kCapability, start_ + after);
  }
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  InodeTable table_;
  AttributeCache attributes_{table_, CacheTimes()};
  AbsentXattrs absent_{table_, CacheTimes()};
  wire::FileHandle handle_;
  uint64_t node_ = 0;
};

TEST_F(AbsentTest, IsCachedForTheLeastCacheTime) {
  EXPECT_FALSE(Known(absl::ZeroDuration()));
  absent_.Note(node_, Absent::kCapability, start_);
  EXPECT_TRUE(Known(absl::Milliseconds(2999)));
  EXPECT_FALSE(Known(absl::Seconds(3)));
  EXPECT_FALSE(absent_.Known(node_, Absent::kAccessAcl, start_));
  EXPECT_FALSE(absent_.Known(node_ + 16, Absent::kCapability, start_));
}

TEST_F(AbsentTest, IsCachedWhileChangeStaysTheSame) {
  attributes_.Sent(node_, File(7), start_);
  absent_.Note(node_, Absent::kCapability, start_ + absl::Seconds(1));
  attributes_.Sent(node_, File(7), start_ + absl::Seconds(50));
  EXPECT_TRUE(Known(absl::Hours(1)));
  attributes_.Sent(node_, File(8), start_ + absl::Seconds(60));
  EXPECT_FALSE(Known(absl::Seconds(60)));
}

// The file may have changed after the server replied that the attribute is absent.
TEST_F(AbsentTest, AChangeSentAfterTheRequestDoesNotExtendTheTime) {
  attributes_.Sent(node_, File(8), start_ + absl::Seconds(1));
  absent_.Note(node_, Absent::kCapability, start_);
  EXPECT_TRUE(Known(absl::Seconds(2)));
  EXPECT_FALSE(Known(absl::Seconds(3)));
}

TEST_F(AbsentTest, SettingAnAttributeEndsItForOutstandingRequestsToo) {
  absent_.Note(node_, Absent::kCapability, start_);
  absent_.Forget(node_, start_ + absl::Seconds(1));
  EXPECT_FALSE(Known(absl::Seconds(1)));
  absent_.Note(node_, Absent::kCapability, start_ + absl::Milliseconds(500));
  EXPECT_FALSE(Known(absl::Seconds(1)));
  absent_.Note(node_, Absent::kCapability, start_ + absl::Seconds(2));
  EXPECT_TRUE(Known(absl::Seconds(2)));
}

}  // namespace
}  // namespace dafs::fuse
