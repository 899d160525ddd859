#include "fuse/kernel/acls/nfs4_acl.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

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

// Shows DAFS-6.1.4-07: 3 in the bytes of NFS is 4 in DAFS.
TEST(Nfs4AclTest, EncodesAsNfsXdr) {
  EXPECT_EQ(wire::kAceAllowed, 0u);
  EXPECT_EQ(wire::kAceDenied, 1u);
  EXPECT_EQ(wire::kAceAudit, 2u);
  EXPECT_EQ(wire::kAceAlarm, 4u);
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

}  // namespace
}  // namespace dafs::fuse
