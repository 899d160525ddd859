// Which calls may be repeated.
#include "client/exchange/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dafs::client {
namespace {

TEST(CallTest, OnlyIdempotentCallsAreRepeated) {
  for (wire::Proc proc :
       {wire::Proc::kCreate, wire::Proc::kRemove, wire::Proc::kRename, wire::Proc::kLink,
        wire::Proc::kAppendInline, wire::Proc::kAppendDirect}) {
    EXPECT_FALSE(wire::InfoOf(proc).idempotent) << wire::Name(proc);
  }
  for (wire::Proc proc : {wire::Proc::kLookup, wire::Proc::kReadDirect, wire::Proc::kWriteDirect,
                          wire::Proc::kCommit, wire::Proc::kSetattrInline, wire::Proc::kClose}) {
    EXPECT_TRUE(wire::InfoOf(proc).idempotent) << wire::Name(proc);
  }
  Call<wire::OpenArgs> open;
  EXPECT_TRUE(open.idempotent());
  open.args.open_type = wire::OpenType::kCreate;
  open.args.createmode = wire::CreateMode::kExclusive;
  EXPECT_TRUE(open.idempotent());
  open.args.createmode = wire::CreateMode::kGuarded;
  EXPECT_FALSE(open.idempotent());
  open.args.createmode = wire::CreateMode::kUnchecked;
  open.args.claim_type = wire::OpenClaimType::kCreateUnlinked;
  EXPECT_FALSE(open.idempotent());
  Call<wire::AllocateArgs> allocate;
  for (uint32_t mode = 0; mode <= 6; ++mode) {
    allocate.args.mode = static_cast<wire::AllocateMode>(mode);
    EXPECT_EQ(allocate.idempotent(), mode < 5) << mode;
  }
}

}  // namespace
}  // namespace dafs::client
