// The table of delegations, without a server. Spec: WIRE 9.7.
#include "client/state/delegations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/state/client.h"
#include "runtime/loop/loop.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::client {
namespace {

using What = Delegations::Closing::What;
using Type = wire::OpenDelegationType;

class DelegationsTest : public ::testing::Test {
 protected:
  DelegationsTest() : provider_(dat::NewIwarpProvider({})) {
    ClientOptions options;
    options.addresses = {dat::Address()};
    options.providers = {provider_.get()};
    options.client_id_string = "a test";
    client_ = *Client::Create(options);
    client_->promises().Ask();
    EXPECT_TRUE(client_->promises().Begin(absl::Hours(1)));
    client_->NoteActivity(Loop::Now(), Loop::Now());
  }

  static wire::FileHandle File(uint64_t number) {
    wire::FileHandle file;
    for (size_t i = 0; i < 8; ++i) file.fileid.bytes[i] = static_cast<uint8_t>(number >> 8 * i);
    return file;
  }
  OpenInfo Info(uint64_t file, uint32_t access = wire::kShareRead) const {
    OpenInfo info;
    info.handle = File(file);
    info.share_access = access;
    info.user = user_;
    return info;
  }
  // The server grants delegation `file` of file `file`.
  wire::StateId Grant(uint64_t file, Type type = Type::kRead, bool may_read = true) {
    wire::OpenDelegation granted;
    granted.delegation_type = type;
    granted.delegation_state_id = wire::OpaqueFromUint64<wire::StateId>(1000 + file);
    granted.permissions_acemask = may_read ? 1 : 0;
    const uint32_t access = type == Type::kRead ? wire::kShareRead : wire::kShareWrite;
    const wire::StateId open =
        table().Granted(Info(file, access), granted, server_, client_->promises().sequence());
    table().Settle(open, true, "7");
    return open;
  }
  Delegations& table() { return client_->delegations(); }
  std::optional<Delegations::LocalOpen> Open(uint64_t file, uint32_t access = wire::kShareRead) {
    return table().Open(Info(file, access), true);
  }

  std::unique_ptr<dat::Provider> provider_;
  std::unique_ptr<Client> client_;
  Identity user_{1000, 100, {4}};
  const wire::ClientId server_ = wire::OpaqueFromUint64<wire::ClientId>(1);
};

TEST_F(DelegationsTest, OpenNeedsTheSameUserAndCoveredAccess) {
  const wire::StateId first = Grant(1);
  std::optional<Delegations::LocalOpen> local = Open(1);
  ASSERT_TRUE(local.has_value());
  EXPECT_NE(local->open, first);
  EXPECT_EQ(local->owner, "7");
  EXPECT_EQ(client_->opens().StateIdOf(local->open, server_),
            wire::OpaqueFromUint64<wire::StateId>(1001));
  EXPECT_FALSE(Open(1, wire::kShareWrite).has_value());
  EXPECT_FALSE(Open(2).has_value());
  user_.groups.push_back(5);
  EXPECT_FALSE(Open(1).has_value());
}

// An OPEN by name of another user has made it a write delegation.
TEST_F(DelegationsTest, DelegationThatAnotherUserGotAgainIsReturned) {
  const wire::StateId first = Grant(1);
  const Identity before = user_;
  user_.uid = 1001;
  const wire::StateId writer = Grant(1, Type::kWrite);
  EXPECT_FALSE(Open(1, wire::kShareWrite).has_value());
  user_ = before;
  EXPECT_FALSE(Open(1, wire::kShareWrite).has_value());
  const std::vector<DelegationPtr> due = table().returns().TakeDue();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_THAT(table().returns().LocalsOf(*due[0]), testing::UnorderedElementsAre(first, writer));
}

TEST_F(DelegationsTest, WriteDelegationThatDoesNotPermitReadingIsReturned) {
  const wire::StateId writer = Grant(1, Type::kWrite, /*may_read=*/false);
  EXPECT_FALSE(Open(1).has_value());
  Delegations::Closing closing = table().Close(writer);
  EXPECT_EQ(closing.what, What::kReturn);
  table().returns().Returned(closing.delegation);
  EXPECT_EQ(table().counts().write, 0u);
}

TEST_F(DelegationsTest, NoUpgradeWhileADowngradeIsUnderWay) {
  Delegations::Closing closing = table().Close(Grant(1, Type::kWrite));
  ASSERT_EQ(closing.what, What::kDowngrade);
  EXPECT_FALSE(table().PlanOpen(File(1), user_, wire::kShareWrite).delegated);
  EXPECT_TRUE(Open(1).has_value());  // both types permit this
  table().Downgraded(closing.delegation, true);
}

TEST_F(DelegationsTest, NoLocalOpenWhileAnUpgradeIsUnderWay) {
  EXPECT_EQ(table().Close(Grant(1)).what, What::kDone);
  Delegations::Plan plan = table().PlanOpen(File(1), user_, wire::kShareWrite);
  ASSERT_NE(plan.upgraded, nullptr);
  EXPECT_FALSE(Open(1).has_value());
  EXPECT_FALSE(table().PlanOpen(File(1), user_, wire::kShareRead).delegated);
  table().Upgraded(plan.upgraded, Delegations::Outcome::kKept);
  EXPECT_TRUE(Open(1).has_value());
}

// The server ends a read delegation when its holder opens the file for writing. Then the opens
// under it could not become opens at the server any more.
TEST_F(DelegationsTest, NoOpenInPlaceOfADelegationThatIsBeingReturned) {
  Grant(1);
  ASSERT_EQ(table().returns().Recall(File(1), wire::OpaqueFromUint64<wire::StateId>(1001)),
            wire::DafsStatus::kOk);
  EXPECT_FALSE(table().PlanOpen(File(1), user_, wire::kShareWrite).delegated);
  EXPECT_TRUE(table().PlanOpen(File(2), user_, wire::kShareWrite).delegated);
  const std::vector<DelegationPtr> due = table().returns().TakeDue();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_FALSE(table().PlanOpen(File(1), user_, wire::kShareWrite).delegated);
  table().returns().Returned(due[0]);
  EXPECT_TRUE(table().PlanOpen(File(1), user_, wire::kShareWrite).delegated);
}

// A grant that was requested before the delegation ended may be that delegation.
TEST_F(DelegationsTest, GrantThatIsOlderThanTheEndOfADelegationIsReturned) {
  EXPECT_EQ(table().Close(Grant(1)).what, What::kDone);
  const uint64_t asked = client_->promises().sequence();
  DelegationPtr taken = table().TakeIdle(File(1));
  ASSERT_NE(taken, nullptr);
  table().returns().Returned(taken);
  wire::OpenDelegation late;
  late.delegation_type = Type::kRead;
  late.delegation_state_id = taken->state_id;
  table().Settle(table().Granted(Info(1), late, server_, asked), true, "7");
  EXPECT_FALSE(Open(1).has_value());
  EXPECT_EQ(table().returns().TakeDue().size(), 1u);
}

TEST_F(DelegationsTest, StoppedLocalOpensAlsoConcernGrantsOnTheirWay) {
  const uint64_t asked = client_->promises().sequence();
  table().StopLocalOpens(File(1));
  wire::OpenDelegation late;
  late.delegation_type = Type::kRead;
  late.delegation_state_id = wire::OpaqueFromUint64<wire::StateId>(5);
  table().Settle(table().Granted(Info(1), late, server_, asked), true, "7");
  EXPECT_FALSE(Open(1).has_value());
}

TEST_F(DelegationsTest, LocalOpensGoOnIfTheirUserChangesRightsAndKeepsThem) {
  const std::string owner = "8";
  table().Close(Grant(1));
  table().RightsChange(File(1), user_, std::nullopt, nullptr);
  table().RightsChange(File(1), user_, 0400, &owner);
  const std::optional<Delegations::LocalOpen> open = Open(1);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->owner, "8");
  // The open and its delegation stay, with no new open beside them.
  table().RightsChange(File(1), user_, 0244, nullptr);
  EXPECT_FALSE(Open(1).has_value());
  EXPECT_EQ(table().Close(open->open).what, What::kReturn);

  Identity other = user_;
  other.uid = 8;
  table().Close(Grant(2));
  table().RightsChange(File(2), other, 0777, &owner);
  EXPECT_FALSE(Open(2).has_value());
}

// A local open for writing needs more than one for reading.
TEST_F(DelegationsTest, RightsChangeOfAWriteDelegationMustPermitWriting) {
  Grant(1, Type::kWrite);
  table().RightsChange(File(1), user_, 0600, nullptr);
  EXPECT_TRUE(Open(1).has_value());
  table().RightsChange(File(1), user_, 0400, nullptr);
  EXPECT_FALSE(Open(1).has_value());
}

TEST_F(DelegationsTest, RightsChangeConcernsGrantsOnTheirWay) {
  const uint64_t asked = client_->promises().sequence();
  table().RightsChange(File(1), user_, 0600, nullptr);
  wire::OpenDelegation late;
  late.delegation_type = Type::kRead;
  late.delegation_state_id = wire::OpaqueFromUint64<wire::StateId>(5);
  table().Settle(table().Granted(Info(1), late, server_, asked), true, "7");
  EXPECT_FALSE(Open(1).has_value());
}

TEST_F(DelegationsTest, TheOldestUnusedAreDueBeyondTheMost) {
  for (uint64_t file = 0; file < DelegationTable::kMostIdle; ++file) table().Close(Grant(file));
  table().Close(Open(0)->open);  // used last
  EXPECT_FALSE(table().returns().any_due());
  table().Close(Grant(DelegationTable::kMostIdle));
  std::vector<DelegationPtr> due = table().returns().TakeDue();
  ASSERT_EQ(due.size(), DelegationTable::kAtOnce);
  EXPECT_EQ(due.front()->file, File(1));
  EXPECT_TRUE(Open(0).has_value());
  EXPECT_FALSE(Open(1).has_value());
}

TEST_F(DelegationsTest, OpensLeftAtTheEndAreReclaimed) {
  const wire::StateId open = Grant(1);
  table().returns().EndAll();
  for (const DelegationPtr& delegation : table().returns().TakeDue())
    table().returns().Returned(delegation);
  EXPECT_FALSE(client_->opens().StateIdOf(open, server_).has_value());
  EXPECT_EQ(table().LenderOf(open), nullptr);
  EXPECT_EQ(table().Close(open).what, What::kNotLocal);
}

}  // namespace
}  // namespace dafs::client
