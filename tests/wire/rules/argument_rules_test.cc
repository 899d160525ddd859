// The rules of WIRE 9.4 for arguments beyond their layout, and UTF-8.
#include "wire/rules/argument_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"

namespace dafs::wire {
namespace {

constexpr DafsStatus kOk = DafsStatus::kOk;
constexpr DafsStatus kInval = DafsStatus::kInval;
constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// R87.
TEST(ArgumentRulesTest, LockRangesEndWithin64Bits) {
  const auto check = [](uint64_t offset, uint64_t length) {
    LockArgs args;
    args.offset = offset;
    args.length = length;
    return CheckRules(args);
  };
  EXPECT_EQ(check(0, 0), kInval);
  EXPECT_EQ(check(0, 1), kOk);
  EXPECT_EQ(check(5, kMax), kOk);  // to the end
  EXPECT_EQ(check(kMax, 1), kOk);  // the last byte
  EXPECT_EQ(check(kMax, 2), kInval);
  EXPECT_EQ(check(2, kMax - 1), kOk);
  EXPECT_EQ(check(3, kMax - 1), kInval);
}

TEST(ArgumentRulesTest, LockOptionsAndTypesAreChecked) {
  LockArgs lock;
  lock.length = 1;
  lock.options = kLockOptionsAll;
  EXPECT_EQ(CheckRules(lock), kOk);
  lock.options = kLockAwaits | kLockOfProcess;
  EXPECT_EQ(CheckRules(lock), kOk);
  lock.options = 0x10;
  EXPECT_EQ(CheckRules(lock), kInval);
  LockuArgs locku;
  locku.length = 1;
  EXPECT_EQ(CheckRules(locku), kOk);
  locku.lock_type = LockType::kAbort;
  EXPECT_EQ(CheckRules(locku), kInval);
}

// R63, R70.
TEST(ArgumentRulesTest, OpenCreatesWithOnlyTwoClaims) {
  OpenArgs args;
  args.pathname = {"f"};
  args.share_access = kShareRead;
  for (const auto claim : {OpenClaimType::kNull, OpenClaimType::kPrevious,
                           OpenClaimType::kDelegateCur, OpenClaimType::kDelegatePrev}) {
    args.claim_type = claim;
    args.open_type = OpenType::kNoCreate;
    EXPECT_EQ(CheckRules(args), kOk);
    args.open_type = OpenType::kCreate;
    EXPECT_EQ(CheckRules(args), claim == OpenClaimType::kNull ? kOk : kInval);
  }
  args.claim_type = OpenClaimType::kCreateUnlinked;
  EXPECT_EQ(CheckRules(args), kOk);
  args.createmode = CreateMode::kExclusive;
  EXPECT_EQ(CheckRules(args), kInval);
  args.createmode = CreateMode::kGuarded;
  args.open_type = OpenType::kNoCreate;
  EXPECT_EQ(CheckRules(args), kInval);
  args.claim_type = OpenClaimType::kNull;
  args.pathname = {".."};
  EXPECT_EQ(CheckRules(args), kOk);  // the execution returns NOENT
  args.open_type = OpenType::kCreate;
  EXPECT_EQ(CheckRules(args), kInval);
}

TEST(ArgumentRulesTest, ShareValuesAreChecked) {
  OpenHandleArgs args;
  EXPECT_EQ(CheckRules(args), kInval);
  for (uint32_t access = 1; access <= 3; ++access) {
    args.share_access = access;
    args.share_deny = 3;
    EXPECT_EQ(CheckRules(args), kOk);
    args.share_deny = 4;
    EXPECT_EQ(CheckRules(args), kInval);
  }
  args.share_access = 4;
  args.share_deny = 0;
  EXPECT_EQ(CheckRules(args), kInval);
  OpenDelegatedArgs delegated;
  EXPECT_EQ(CheckRules(delegated), kInval);
  delegated.share_access = kShareWrite;
  EXPECT_EQ(CheckRules(delegated), kOk);
}

// WIRE 9.7.
TEST(ArgumentRulesTest, ADelegationIsWantedInPlaceOfNewOpensOnly) {
  constexpr uint32_t kWish = kShareWantOpenXorDelegation;
  OpenHandleArgs by_handle;
  by_handle.share_access = kWish | kShareRead;
  EXPECT_EQ(CheckRules(by_handle), kInval);
  OpenDowngradeArgs downgrade;
  downgrade.share_access = kWish | kShareRead;
  EXPECT_EQ(CheckRules(downgrade), kInval);
  OpenDelegatedArgs delegated;
  delegated.share_access = kWish;
  EXPECT_EQ(CheckRules(delegated), kInval);
  delegated.share_access = kWish | kShareBoth;
  EXPECT_EQ(CheckRules(delegated), kOk);
  OpenArgs args;
  args.pathname = {"f"};
  args.share_access = kWish | kShareRead;
  EXPECT_EQ(CheckRules(args), kOk);
  for (const auto claim :
       {OpenClaimType::kPrevious, OpenClaimType::kDelegateCur, OpenClaimType::kDelegatePrev}) {
    args.claim_type = claim;
    EXPECT_EQ(CheckRules(args), kInval);
  }
  args.claim_type = OpenClaimType::kCreateUnlinked;
  args.open_type = OpenType::kCreate;
  EXPECT_EQ(CheckRules(args), kOk);
}

// WIRE 5.2, column "Set". Shows DAFS-6.1.5-08, DAFS-6.1.5-15, DAFS-6.1.5-21
TEST(ArgumentRulesTest, OnlySettableAttributesAreAccepted) {
  // ARCHIVE, HIDDEN, SYSTEM, MODE, OBJECT_SIZE, TIME_ACCESS_SET, TIME_BACKUP, TIME_CREATE,
  // TIME_METADATA, TIME_MODIFY_SET, ACL, MIME_TYPE, OWNER, OWNER_GROUP.
  const std::set<int> settable = {2, 3, 4, 6, 9, 13, 14, 15, 17, 19, 22, 23, 24, 25};
  for (int number = 1; number <= 25; ++number) {
    SetattrInlineArgs setattr;
    setattr.obj_attributes.set(uint64_t{1} << (number - 1));
    EXPECT_EQ(CheckRules(setattr), settable.contains(number) ? kOk : kInval) << number;
    CreateArgs create;
    create.component = "d";
    create.obj_type = ObjectType::kDir;
    create.attr = setattr.obj_attributes;
    EXPECT_EQ(CheckRules(create), CheckRules(setattr)) << number;
  }
}

TEST(ArgumentRulesTest, OnlySettableAttributesMayBeSet) {
  FileAttributes attributes;
  attributes.set(kFattrMode);
  attributes.mode = 07777;
  EXPECT_EQ(CheckSettable(attributes), kOk);
  attributes.mode = 0100644;
  EXPECT_EQ(CheckSettable(attributes), kInval);
  attributes.mode = 0;
  attributes.included |= kFattrChange;  // not valid: ignored
  EXPECT_EQ(CheckSettable(attributes), kOk);
  attributes.set(kFattrTimeModify);
  EXPECT_EQ(CheckSettable(attributes), kInval);
}

TEST(ArgumentRulesTest, AllocationNeedsALength) {
  AllocateArgs args;
  EXPECT_EQ(CheckRules(args), kInval);
  args.length = 1;
  EXPECT_EQ(CheckRules(args), kOk);
}

TEST(ArgumentRulesTest, Rename2AcceptsExactlyOneFlag) {
  Rename2Args args;
  args.oldname = "a";
  args.newname = "b";
  for (uint32_t flags : {0u, 3u, 4u, 5u}) {
    args.flags = flags;
    EXPECT_EQ(CheckRules(args), kInval) << flags;
  }
  for (uint32_t flags : {kRenameNoReplace, kRenameExchange}) {
    args.flags = flags;
    EXPECT_EQ(CheckRules(args), kOk) << flags;
  }
  args.newname = "..";
  EXPECT_EQ(CheckRules(args), kInval);
}

TEST(ArgumentRulesTest, MakeNodeAcceptsTheTypesOfMknod) {
  MakeNodeArgs args;
  args.component = "a";
  for (ObjectType type : {ObjectType::kReg, ObjectType::kBlk, ObjectType::kChr, ObjectType::kSock,
                          ObjectType::kFifo}) {
    args.obj_type = type;
    EXPECT_EQ(CheckRules(args), kOk);
  }
  args.mode = 010000;
  EXPECT_EQ(CheckRules(args), kInval);
  args.mode = 07777;
  EXPECT_EQ(CheckRules(args), kOk);
  args.component = ".";
  EXPECT_EQ(CheckRules(args), kInval);
  args.component = "a";
  args.obj_type = ObjectType::kDir;
  EXPECT_EQ(CheckRules(args), DafsStatus::kBadType);
}

TEST(ArgumentRulesTest, BuffersMustHoldTheRequestedBytes) {
  ReadDirectArgs read;
  EXPECT_EQ(CheckRules(read), kOk);
  read.byte_count = 10;
  EXPECT_EQ(CheckRules(read), kInval);
  read.read_data_buffers = {{0, 4, 1}, {100, 5, 1}};
  EXPECT_EQ(CheckRules(read), kInval);
  read.read_data_buffers.push_back({200, 1, 1});
  EXPECT_EQ(CheckRules(read), kOk);
  AppendDirectArgs append;
  append.byte_count = 2;
  append.write_data_buffer.buffer_byte_count = 1;
  EXPECT_EQ(CheckRules(append), kInval);
  append.byte_count = 1;
  EXPECT_EQ(CheckRules(append), kOk);
  append.stable_how = StableHow::kUnstable;
  EXPECT_EQ(CheckRules(append), kInval);
}

// R78. Shows DAFS-6.1.7-02 (request ids are unique).
TEST(ArgumentRulesTest, BatchTotalsAndRequestIdsAreChecked) {
  BatchSubmitArgs args;
  EXPECT_EQ(CheckRules(args), kOk);
  RwRequest& first = args.requests.emplace_back();
  first.request_id = 7;
  first.chunks = {{0, 8, 0}, {4096, 8, 0}};
  first.request_buffers = {{0, 16, 1}};
  EXPECT_EQ(CheckRules(args), kOk);
  RwRequest second = first;
  args.requests.push_back(second);
  EXPECT_EQ(CheckRules(args), kInval);
  args.requests[1].request_id = 8;
  EXPECT_EQ(CheckRules(args), kOk);
  args.requests[1].request_buffers[0].buffer_byte_count = 17;
  EXPECT_EQ(CheckRules(args), kInval);
  args.requests[1].chunks = {{0, 0xffffffff, 0}, {0, 1, 0}};
  args.requests[1].request_buffers = {{0, 0xffffffff, 1}, {0, 1, 1}};
  EXPECT_EQ(CheckRules(args), kInval);  // 2^32
}

TEST(ArgumentRulesTest, DotNamesAreNeitherCreatedNorRemovedNorRenamed) {
  RemoveArgs remove;
  remove.target = "..";
  EXPECT_EQ(CheckRules(remove), kInval);
  remove.target = "...";
  EXPECT_EQ(CheckRules(remove), kOk);
  RenameArgs rename;
  rename.oldname = "a";
  rename.newname = ".";
  EXPECT_EQ(CheckRules(rename), kInval);
  CreateArgs create;
  create.obj_type = ObjectType::kDir;
  create.component = ".";
  EXPECT_EQ(CheckRules(create), kInval);
}

TEST(NameCheckTest, NamesAreUtf8WithoutNulAndSlash) {
  for (const char* good : {"a", ".", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\xa7", "\x7f", "\x01",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf"}) {
    EXPECT_TRUE(IsWireName(good)) << good;
  }
  for (const char* bad : {"", "/", "a/b", "\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe2\x82",
                          "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "a\xc3(", "\xf0\x9f\x90"}) {
    EXPECT_FALSE(IsWireName(bad)) << bad;
  }
  EXPECT_FALSE(IsWireName(std::string_view("a\0b", 3)));
  EXPECT_TRUE(IsUtf8(std::string_view("a\0/", 3)));
}

TEST(NameCheckTest, ByteNamesHoldAnythingButNulAndSlash) {
  for (const char* good : {"a", ".", "\xc3\xa4", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xff"}) {
    EXPECT_TRUE(IsWireName(good, NameRule::kBytes)) << good;
  }
  for (const char* bad : {"", "/", "a/b", "\xff/"}) {
    EXPECT_FALSE(IsWireName(bad, NameRule::kBytes)) << bad;
  }
  EXPECT_FALSE(IsWireName(std::string_view("\xff\0b", 3), NameRule::kBytes));
}

TEST(ArgumentRulesTest, BcChangedNamesOneObjectOrAll) {
  FileHandle file;
  file.fshandle.bytes[0] = 1;
  const auto check = [](std::vector<Changed> changed) {
    return CheckRules(BcChangedArgs{changed});
  };
  EXPECT_EQ(check({{file, kChangedNames, "a"}, {file, kChangedAttributes, ""}}), DafsStatus::kOk);
  EXPECT_EQ(check({{FileHandle(), kChangedAll, ""}}), DafsStatus::kOk);
  EXPECT_EQ(check({}), DafsStatus::kInval);
  EXPECT_EQ(check({{file, 0, ""}}), DafsStatus::kInval);
  EXPECT_EQ(check({{file, 8, ""}}), DafsStatus::kInval);
  EXPECT_EQ(check({{file, kChangedAll, ""}}), DafsStatus::kInval);
  EXPECT_EQ(check({{FileHandle(), kChangedNames, ""}}), DafsStatus::kInval);
  EXPECT_EQ(check({{file, kChangedAttributes, "a"}}), DafsStatus::kInval);
}

}  // namespace
}  // namespace dafs::wire
