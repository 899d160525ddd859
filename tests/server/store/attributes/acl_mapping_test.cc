// The conversion of NFSv4 ACLs to POSIX ACLs and back. Spec: 4.4.3, draft-ietf-nfsv4-acl-mapping.
#include "server/store/attributes/acl_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "wire/protocol/constants.h"

namespace dafs::server {
namespace {

using wire::Ace;
using wire::DafsStatus;

// "u::rw- u:7:r-- g::r-- m::rw- o::---"
PosixAcl Acl(const std::string& text) {
  PosixAcl acl;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    PosixAcl::Entry entry;
    const bool named = !parts[1].empty();
    if (named) entry.id = static_cast<uint32_t>(std::stoul(parts[1]));
    if (parts[0] == "u") entry.tag = named ? AclTag::kUser : AclTag::kUserObj;
    if (parts[0] == "g") entry.tag = named ? AclTag::kGroup : AclTag::kGroupObj;
    if (parts[0] == "m") entry.tag = AclTag::kMask;
    if (parts[0] == "o") entry.tag = AclTag::kOther;
    if (parts[2][0] == 'r') entry.perm |= kAclRead;
    if (parts[2][1] == 'w') entry.perm |= kAclWrite;
    if (parts[2][2] == 'x') entry.perm |= kAclExecute;
    acl.entries.push_back(entry);
  }
  return acl;
}

// "A::OWNER@:rwaxtTnNcCy" as nfs4_acl(5) writes it.
Ace Parse(const std::string& text) {
  constexpr std::string_view kLetters = "rwanNxDtTdcCoy";
  constexpr uint32_t kBits[] = {
      wire::kAceReadData,       wire::kAceWriteData,       wire::kAceAppendData,
      wire::kAceReadNamedAttrs, wire::kAceWriteNamedAttrs, wire::kAceExecute,
      wire::kAceDeleteChild,    wire::kAceReadAttributes,  wire::kAceWriteAttributes,
      wire::kAceDelete,         wire::kAceReadAcl,         wire::kAceWriteAcl,
      wire::kAceWriteOwner,     wire::kAceSynchronize};
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Ace ace;
  ace.type = parts[0] == "A"   ? wire::kAceAllowed
             : parts[0] == "D" ? wire::kAceDenied
             : parts[0] == "U" ? wire::kAceAudit
                               : wire::kAceAlarm;
  for (char c : parts[1]) {
    if (c == 'f') ace.flag |= wire::kAceFileInherit;
    if (c == 'd') ace.flag |= wire::kAceDirectoryInherit;
    if (c == 'n') ace.flag |= wire::kAceNoPropagateInherit;
    if (c == 'i') ace.flag |= wire::kAceInheritOnly;
    if (c == 'g') ace.flag |= wire::kAceIdentifierGroup;
    if (c == 'S') ace.flag |= wire::kAceSuccessfulAccess;
  }
  ace.who = parts[2];
  for (char c : parts[3]) ace.access_mask |= kBits[kLetters.find(c)];
  return ace;
}

std::vector<Ace> Aces(const std::string& text) {
  std::vector<Ace> aces;
  for (absl::string_view word : absl::StrSplit(text, ' ')) aces.push_back(Parse(std::string(word)));
  return aces;
}

DafsStatus Map(const std::string& aces, PosixAcls* acls, bool directory = false,
               uint32_t owner = 4242) {
  return PosixFromAces(Aces(aces), directory, owner, acls);
}
PosixAcl Access(const std::string& aces, bool directory = false) {
  PosixAcls acls;
  const DafsStatus status = Map(aces, &acls, directory);
  EXPECT_EQ(wire::Name(status), "DAFS_STATUS_OK") << aces;
  return acls.access;
}
std::string_view Refusal(const std::string& aces, bool directory = false, uint32_t owner = 4242) {
  PosixAcls acls;
  return wire::Name(Map(aces, &acls, directory, owner));
}

// The expected entries are derived by hand from the rules of the mapping draft.
TEST(AclMappingTest, ModeBecomesThreeAllowEntries) {
  EXPECT_EQ(AcesFromPosix({AclFromMode(0640), {}}, false),
            Aces("A::OWNER@:rnwaNtcyTC A:g:GROUP@:rntcy A::EVERYONE@:tcy"));
  EXPECT_EQ(AcesFromPosix({AclFromMode(0755), {}}, true),
            Aces("A::OWNER@:rnwaNDxtcyTC A:g:GROUP@:rnxtcy A::EVERYONE@:rnxtcy"));
}

// Shows DAFS-4.4.3-11: a right on a directory has the bit of the right on a file.
TEST(AclMappingTest, RightsHaveTheBitsOfTheSpecification) {
  const std::pair<uint32_t, uint32_t> bits[] = {
      {wire::kAceReadData, 0x1},          {wire::kAceWriteData, 0x2},
      {wire::kAceAppendData, 0x4},        {wire::kAceReadNamedAttrs, 0x8},
      {wire::kAceWriteNamedAttrs, 0x10},  {wire::kAceExecute, 0x20},
      {wire::kAceDeleteChild, 0x40},      {wire::kAceReadAttributes, 0x80},
      {wire::kAceWriteAttributes, 0x100}, {wire::kAceDelete, 0x10000},
      {wire::kAceReadAcl, 0x20000},       {wire::kAceWriteAcl, 0x40000},
      {wire::kAceWriteOwner, 0x80000},    {wire::kAceSynchronize, 0x100000}};
  for (const auto& [constant, bit] : bits) EXPECT_EQ(constant, bit);
  for (const bool directory : {false, true}) {
    const uint32_t delete_child = directory ? 0x40 : 0;
    const std::vector<Ace> aces = AcesFromPosix({AclFromMode(0754), {}}, directory);
    ASSERT_EQ(aces.size(), 3u);
    EXPECT_EQ(aces[0].access_mask, 0x1601bfu | delete_child);
    EXPECT_EQ(aces[1].access_mask, 0x1200a9u);
    EXPECT_EQ(aces[2].access_mask, 0x120089u);
  }
}

// Shows DAFS-4.4.3-10
TEST(AclMappingTest, RightsOfLaterEntriesAreDeniedExplicitly) {
  // The owner has less than the group, the group less than others.
  EXPECT_EQ(AcesFromPosix({AclFromMode(0467), {}}, false),
            Aces("D::OWNER@:wax A::OWNER@:rntcyTC A:g:GROUP@:rnwaNtcy D:g:GROUP@:x "
                 "A::EVERYONE@:rnwaNxtcy"));
  EXPECT_EQ(AcesFromPosix({Acl("u::rwx u:7:r-- g::r-x g:8:rwx m::r-x o::r--"), {}}, false),
            Aces("A::OWNER@:rnwaNxtcyTC D::7:x A::7:rntcy A:g:GROUP@:rnxtcy A:g:8:rnxtcy "
                 "A::EVERYONE@:rntcy"));
}

// setfacl -x leaves such an ACL. It gives the same rights as a mode, but a client must be able to
// distinguish it from one.
TEST(AclMappingTest, MaskWithoutNamedEntriesDiffersFromMode) {
  const PosixAcl acl = Acl("u::rwx g::rwx m::r-x o::r--");
  const std::vector<Ace> aces = AcesFromPosix({acl, {}}, false);
  EXPECT_EQ(aces, Aces("A::OWNER@:rnwaNxtcyTC A:g:GROUP@:rnxtcy A:g:GROUP@:rnxtcy "
                       "A::EVERYONE@:rntcy"));
  PosixAcls back;
  ASSERT_EQ(PosixFromAces(aces, false, 1, &back), DafsStatus::kOk);
  EXPECT_EQ(back.access, AclFromMode(0754));
}

TEST(AclMappingTest, DefaultAclBecomesInheritedEntries) {
  EXPECT_EQ(AcesFromPosix({AclFromMode(0700), Acl("u::rwx g::--- o::---")}, true),
            Aces("A::OWNER@:rnwaNDxtcyTC A:g:GROUP@:tcy A::EVERYONE@:tcy "
                 "A:fdi:OWNER@:rnwaNDxtcyTC A:fdig:GROUP@:tcy A:fdi:EVERYONE@:tcy"));
  PosixAcls acls;
  ASSERT_EQ(Map("A:fd:OWNER@:rwaDx A:fdi:7:rx A::EVERYONE@:x", &acls, true), DafsStatus::kOk);
  EXPECT_EQ(acls.access, AclFromMode(0711));
  EXPECT_EQ(acls.inherited, Acl("u::rwx u:7:r-x g::--- m::r-x o::---"));
}

// Shows DAFS-4.4.3-10
TEST(AclMappingTest, SimpleListsAreAccepted) {
  EXPECT_EQ(Access("A::OWNER@:rwa A::GROUP@:r A::EVERYONE@:r"), AclFromMode(0644));
  EXPECT_EQ(Access("A::7:rwa A::OWNER@:rwa A:g:GROUP@:r A::EVERYONE@:r"),
            Acl("u::rw- u:7:rw- g::r-- m::rw- o::r--"));
  EXPECT_EQ(Access("A::OWNER@:rwax A:g:GROUP@:rx A:g:9:rwax A::EVERYONE@:tcy"),
            Acl("u::rwx g::r-x g:9:rwx m::rwx o::---"));
  EXPECT_EQ(Access("D::OWNER@:x A::OWNER@:rwa A::EVERYONE@:rwax"), AclFromMode(0677));
}

// A named entry includes the rights of EVERYONE@. Several entries for one user add up.
TEST(AclMappingTest, EntriesOfOnePrincipalAddUp) {
  EXPECT_EQ(Access("A::OWNER@:rwa A::OWNER@:x A::7:wa A::EVERYONE@:rx"),
            Acl("u::rwx u:7:rwx g::r-x m::rwx o::r-x"));
}

TEST(AclMappingTest, ListWithoutPosixEquivalentIsRefused) {
  // User 7 has no x, but would have it as a member of the group.
  EXPECT_EQ(Refusal("A::7:r A::OWNER@:rwax A:g:GROUP@:rx A::EVERYONE@:tcy"), "DAFSERR_NOTSUPP");
  // The owner, as a member of group 9, would have x.
  EXPECT_EQ(Refusal("A:g:9:rx A::OWNER@:rwa A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  // A right is denied to one group, even to members of another group that has it.
  EXPECT_EQ(Refusal("D:g:9:wa A::OWNER@:rwa A:g:GROUP@:rwa A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  // Rights that POSIX cannot distinguish, cannot give, or cannot deny.
  EXPECT_EQ(Refusal("A::OWNER@:rw A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwa A::7:C A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwao A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwad A::EVERYONE@:r"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwa D::EVERYONE@:t"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwa A::EVERYONE@:n"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwax A::EVERYONE@:rx", true), "DAFSERR_NOTSUPP");  // no D
  // Audit entries, and inheritance only by files, only by directories, or for one level.
  EXPECT_EQ(Refusal("U:S:EVERYONE@:r A::OWNER@:rwa"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("L:S:EVERYONE@:r A::OWNER@:rwa"), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A:f:OWNER@:rwaD A::OWNER@:r", true), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A:fdn:OWNER@:rwaD A::OWNER@:r", true), "DAFSERR_NOTSUPP");
}

// Shows DAFS-4.4.3-12: a special identifier without its @, or with a domain, is none.
TEST(AclMappingTest, MalformedListIsInvalid) {
  for (const std::string special : {"OWNER", "GROUP", "EVERYONE"}) {
    const std::string mask = special == "OWNER" ? ":rwa" : ":r";
    EXPECT_NE(Refusal("A::" + special + "@" + mask), "DAFSERR_INVAL");
    EXPECT_EQ(Refusal("A::" + special + mask), "DAFSERR_INVAL");
    EXPECT_EQ(Refusal("A::" + special + "@example.com" + mask), "DAFSERR_INVAL");
  }
  EXPECT_EQ(Refusal("A:fd:OWNER@:rwa"), "DAFSERR_INVAL");  // of a file
  EXPECT_EQ(Refusal("A:i:OWNER@:rwa", true), "DAFSERR_INVAL");
  EXPECT_EQ(Refusal("A::nobody@example.com:r"), "DAFSERR_INVAL");
  EXPECT_EQ(Refusal("A::4294967295:r"), "DAFSERR_INVAL");
  EXPECT_EQ(Refusal("A::BATCH@:r"), "DAFSERR_INVAL");
  EXPECT_EQ(Refusal("A:g:EVERYONE@:r"), "DAFSERR_INVAL");
  std::vector<Ace> aces = Aces("A::OWNER@:r");
  aces[0].type = 3;  // ALARM in NFS; not defined here (R34)
  PosixAcls acls;
  EXPECT_EQ(PosixFromAces(aces, false, 0, &acls), DafsStatus::kInval);
}

TEST(AclMappingTest, EntryWithOwnerNumberMustMatchOwnerEntry) {
  EXPECT_EQ(Refusal("A::7:rwax A::OWNER@:rwa A::EVERYONE@:r", false, 7), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Refusal("A::OWNER@:rwa A::7:rwa A::EVERYONE@:r", false, 7), "DAFS_STATUS_OK");
}

// After both conversions a POSIX ACL has the same effective rights.
TEST(AclMappingTest, EveryPosixAclSurvivesRoundTrip) {
  std::mt19937 random(20149);
  const auto perm = [&] { return static_cast<uint8_t>(random() % 8); };
  for (int i = 0; i < 2000; ++i) {
    const bool directory = random() % 2 == 0;
    PosixAcl acl;
    acl.entries.push_back({AclTag::kUserObj, perm(), 0});
    const auto users = static_cast<uint32_t>(random() % 3);
    const auto groups = static_cast<uint32_t>(random() % 3);
    uint8_t mask = 7, all = 0;
    if (users + groups > 0) mask = perm();
    for (uint32_t u = 0; u < users; ++u) acl.entries.push_back({AclTag::kUser, perm(), 10 + u});
    acl.entries.push_back({AclTag::kGroupObj, perm(), 0});
    for (uint32_t g = 0; g < groups; ++g) acl.entries.push_back({AclTag::kGroup, perm(), 20 + g});
    for (PosixAcl::Entry& entry : acl.entries) {
      if (entry.tag == AclTag::kUserObj) continue;
      entry.perm &= mask;  // the conversion returns effective rights
      all |= entry.perm;
    }
    if (users + groups > 0) acl.entries.push_back({AclTag::kMask, all, 0});
    acl.entries.push_back({AclTag::kOther, perm(), 0});
    PosixAcls before{acl, {}};
    if (directory) before.inherited = acl;
    PosixAcls after;
    ASSERT_EQ(PosixFromAces(AcesFromPosix(before, directory), directory, 1, &after),
              DafsStatus::kOk)
        << i;
    EXPECT_EQ(after, before) << i;
  }
}

TEST(AclMappingTest, TooManyNamedEntriesAreRefused) {
  std::vector<Ace> aces = Aces("A::OWNER@:rwa");
  for (uint32_t i = 0; i < 1024; ++i) aces.push_back(Parse(absl::StrCat("A::", i, ":r")));
  PosixAcls acls;
  EXPECT_EQ(PosixFromAces(aces, false, 1, &acls), DafsStatus::kNotSupp);
}

TEST(PosixAclTest, AttributeIsLittleEndianVersion2) {
  const std::string golden("\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0", 20);
  PosixAcl acl;
  acl.entries = {{AclTag::kUserObj, 6, 0}, {AclTag::kUser, 4, 1000}};
  EXPECT_EQ(EncodeAcl(acl), golden);
  EXPECT_EQ(DecodeAcl(golden), acl);
  EXPECT_FALSE(DecodeAcl(golden.substr(0, 19)).has_value());
  EXPECT_FALSE(DecodeAcl("\x01\0\0\0").has_value());
  EXPECT_FALSE(DecodeAcl("").has_value());
}

}  // namespace
}  // namespace dafs::server
