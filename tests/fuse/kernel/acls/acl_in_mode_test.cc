#include "fuse/kernel/acls/acl_in_mode.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/store/attributes/acl_mapping.h"
#include "wire/protocol/constants.h"

namespace dafs::fuse {
namespace {

using server::AclFromMode;
using server::AclTag;
using server::PosixAcl;

constexpr uint32_t kRw = wire::kAceReadData | wire::kAceWriteData | wire::kAceAppendData;

// An ACL that another server might return for mode 0640.
std::vector<wire::Ace> Foreign() {
  return {{wire::kAceAllowed, 0, kRw | wire::kAceReadAcl, "OWNER@"},
          {wire::kAceDenied, wire::kAceIdentifierGroup, wire::kAceWriteData, "GROUP@"},
          {wire::kAceAllowed, 0, wire::kAceReadData, "GROUP@"},
          {wire::kAceAllowed, 0, 0, "EVERYONE@"}};
}

TEST(AclInModeTest, AnAclThatDafsdMakesFromAModeMatchesOnlyThatMode) {
  for (const bool directory : {false, true}) {
    for (uint32_t mode = 0; mode < 01000; ++mode) {
      const std::vector<wire::Ace> acl = server::AcesFromPosix({AclFromMode(mode), {}}, directory);
      EXPECT_TRUE(IsAclInMode(acl, mode | 07000)) << std::oct << mode;
      for (uint32_t bit = 1; bit < 01000; bit <<= 1) {
        EXPECT_FALSE(IsAclInMode(acl, mode ^ bit)) << std::oct << mode << " and " << bit;
      }
    }
  }
}

// All kinds of ACL that a file system stores besides the mode. The mode has the mask for the group.
TEST(AclInModeTest, AnAclWithMoreThanAModeDoesNotMatch) {
  for (uint8_t group = 0; group < 8; ++group) {
    for (uint8_t mask = 0; mask < 8; ++mask) {
      PosixAcl acl = AclFromMode(0704);
      acl.entries[1].perm = group;
      acl.entries.insert(acl.entries.begin() + 2, {AclTag::kMask, mask, 0});
      const uint32_t mode = 0704 | uint32_t{mask} << 3;
      EXPECT_FALSE(IsAclInMode(server::AcesFromPosix({acl, {}}, false), mode)) << "only a mask";
      PosixAcl named = acl;
      named.entries.insert(named.entries.begin() + 1, {AclTag::kUser, group, 1000});
      EXPECT_FALSE(IsAclInMode(server::AcesFromPosix({named, {}}, false), mode)) << "a named user";
      named = acl;
      named.entries.insert(named.entries.begin() + 2, {AclTag::kGroup, group, 1000});
      EXPECT_FALSE(IsAclInMode(server::AcesFromPosix({named, {}}, false), mode)) << "a named group";
    }
  }
  EXPECT_FALSE(
      IsAclInMode(server::AcesFromPosix({AclFromMode(0755), AclFromMode(0755)}, true), 0755))
      << "a default ACL";
}

TEST(AclInModeTest, AnAclOfAnotherServerMatchesOnlyIfItGrantsExactlyTheMode) {
  EXPECT_TRUE(IsAclInMode(Foreign(), 0100640));
  EXPECT_FALSE(IsAclInMode({}, 0));
  const auto without = [](auto change) {
    std::vector<wire::Ace> acl = Foreign();
    change(acl);
    return IsAclInMode(acl, 0640);
  };
  EXPECT_FALSE(without([](auto& acl) { acl.pop_back(); }));
  EXPECT_FALSE(without([](auto& acl) { acl.push_back(acl.back()); }));
  EXPECT_FALSE(without([](auto& acl) { acl[1].who = "1000"; }));
  EXPECT_FALSE(without([](auto& acl) { acl[1].who = "GROUP@example"; }));
  EXPECT_FALSE(without([](auto& acl) { acl[2].type = wire::kAceAudit; }));
  EXPECT_FALSE(without([](auto& acl) { acl[2].flag = wire::kAceFileInherit; }));
  EXPECT_FALSE(without([](auto& acl) { acl[0].access_mask &= ~wire::kAceAppendData; }));
  EXPECT_FALSE(without([](auto& acl) { acl[0].access_mask |= wire::kAceExecute; }));
}

}  // namespace
}  // namespace dafs::fuse
