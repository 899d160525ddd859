// The tables of Wireshark's dissector. tests/mount/scenarios/operators/wireshark.py runs the
// dissector itself.
#include "wire/wireshark/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "wire/messages/messages.h"
#include "wire/protocol/status.h"
#include "wire/wireshark/describer.h"

namespace dafs::wire::wireshark {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The line of the tables that begins with `start`.
std::string LineOf(const std::string& start) {
  const std::string tables = "\n" + Tables();
  const size_t at = tables.find("\n" + start);
  if (at == tables.npos) return "no line: " + start;
  return tables.substr(at + 1, tables.find('\n', at + 1) - at - 1);
}

std::string RowOf(Proc proc) {
  return LineOf("[" + std::to_string(static_cast<uint32_t>(proc)) + "]={name=");
}

struct NoDiscriminator {
  uint32_t number = 0;
  static void Fields(auto& m, auto& c) {
    c.Union("area", 4, 4, [&] { c.Field("number", m.number); });
  }
};

struct SmallUnion {
  LockType type = LockType::kRead;
  uint64_t number = 0;
  static void Fields(auto& m, auto& c) {
    c.Field("type", m.type);
    c.Union("area", 4, 4, [&] {
      if (m.type == LockType::kAbort) c.Field("number", m.number);
    });
  }
};

TEST(Tables, EveryProcedureHasItsRow) {
  const std::string tables = Tables();
  for (const ProcInfo& row : kProcedures) {
    const std::string expected = "\n[" + std::to_string(static_cast<uint32_t>(row.number)) +
                                 "]={name='" + std::string(row.name) +
                                 "',args_size=" + std::to_string(row.args_size) +
                                 ",res_size=" + std::to_string(row.res_size) + ",args={";
    EXPECT_THAT(tables, HasSubstr(expected));
  }
}

TEST(Tables, EveryKnownStatusHasItsName) {
  EXPECT_EQ(LineOf("[2]='"), "[2]='DAFSERR_NOENT',");
  EXPECT_EQ(LineOf("[16000]='"), "[16000]='DAFSERR_DEADLOCK',");
  EXPECT_EQ(LineOf("local lock_conflicts"), "local lock_conflicts = {[10010]=true,[15022]=true,}");
}

TEST(Tables, FieldsHaveTheirOffsetsAndKinds) {
  EXPECT_EQ(RowOf(Proc::kCommit),
            "[116]={name='COMMIT',args_size=80,res_size=8,args={{n='filehandle',k='bytes',o=0,s=64,"
            "replaced=true},"
            "{n='offset',k='u64',o=64},{n='count',k='u32',o=72},},res={{n='writeverf',k='bytes',o="
            "0,s=8},},carries={}},");
  EXPECT_THAT(
      RowOf(Proc::kReadDirect),
      HasSubstr(
          "{n='read_data_buffers',k='array',o=88,head=8,s=16,e={n='',k='struct',o=0,s=16,f={"));
  EXPECT_EQ(LineOf("{b=21,s=4,a=4,f={n='ACL'").substr(0, 62),
            "{b=21,s=4,a=4,f={n='ACL',k='array',o=0,head=4,s=16,e={n='',k='");
}

TEST(Tables, UnionHasAnArmForTheValuesThatSelectIt) {
  const std::string create = RowOf(Proc::kCreate);
  EXPECT_THAT(
      create,
      HasSubstr("{n='create_type',k='union',o=72,d=68,ds=4,arms={{v={3,4},f={{n='specdata'"));
  EXPECT_THAT(create, HasSubstr("{v={5},f={{n='linkdata',k='string',o=72,required=true},}}"));
  const std::string open = RowOf(Proc::kOpen);
  EXPECT_THAT(
      open,
      HasSubstr("{n='createhow',k='union',o=104,d=96,ds=4,arms={{v={0,1},f={{n='createattrs'"));
  EXPECT_THAT(open, HasSubstr("{v={2},f={{n='create_verifier',k='bytes',o=104,s=8},}}"));
}

TEST(Tables, FieldsThatAChainReplacesAreMarked) {
  const std::string rename = RowOf(Proc::kRename);
  EXPECT_THAT(rename, HasSubstr("{n='sourcedir',k='bytes',o=0,s=64},"));
  EXPECT_THAT(rename, HasSubstr("{n='targetdir',k='bytes',o=64,s=64,replaced=true},"));
  EXPECT_THAT(RowOf(Proc::kOpen),
              HasSubstr("{n='claimdelcur_stateid',k='bytes',o=80,s=8,replaced=true}"));
}

TEST(Tables, ErrorsThatCarryAResultAreListedByClaim) {
  EXPECT_THAT(RowOf(Proc::kLock), HasSubstr("carries={[0]={[10010]=true,[15022]=true,},}"));
  EXPECT_THAT(RowOf(Proc::kNull), HasSubstr("carries={}"));
  const std::string open = RowOf(Proc::kOpen);
  EXPECT_THAT(open, HasSubstr("[3]={[1]=true,[2]=true,"));
  EXPECT_THAT(open, Not(HasSubstr(",[1]={")));  // CLAIM_PREVIOUS has no path to resolve
}

TEST(Tables, EnumsHaveTheNamesOfTheirEnumerators) {
  EXPECT_EQ(
      LineOf("LockType="),
      "LockType={[1]='Read',[2]='Write',[3]='ReadBlocking',[4]='WriteBlocking',[5]='Abort',},");
  EXPECT_EQ(LineOf("ChannelUse="),
            "ChannelUse={[1]='BackControl',[2]='RdmaRead',[8]='References',},");
}

TEST(Describer, UnionWithoutAnEnumBeforeItIsRefused) {
  Shared shared;
  Describer describer(shared);
  NoDiscriminator message;
  EXPECT_THROW(NoDiscriminator::Fields(message, describer), std::logic_error);
}

TEST(Describer, UnionSmallerThanItsFieldsIsRefused) {
  Shared shared;
  Describer describer(shared);
  SmallUnion message;
  EXPECT_THROW(SmallUnion::Fields(message, describer), std::logic_error);
}

}  // namespace
}  // namespace dafs::wire::wireshark
