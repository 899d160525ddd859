// Opens that a client may not know: which ones the server asks about.
#include "server/store/holdings/open_doubts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace dafs::server {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class OpenDoubtsTest : public testing::Test {
 protected:
  OpenDoubtsTest() {
    doubts_.SetAsker([this](const OpenDoubts::Doubt& doubt) { asked_.push_back(doubt); });
  }
  static ObjectKey Key(uint8_t number) {
    ObjectKey key;
    key.bytes.fill(number);
    return key;
  }
  static wire::ClientId Id(uint64_t number) {
    return wire::OpaqueFromUint64<wire::ClientId>(number);
  }
  wire::StateId Open(uint64_t client, uint8_t file, std::string owner = "owner") {
    absl::MutexLock lock(&records_.mutex());
    return records_.StateIdOf(records_.Add({Id(client), std::move(owner), Key(file)}));
  }
  void Close(const wire::StateId& state_id) {
    absl::MutexLock lock(&records_.mutex());
    records_.Erase(OpenRecords::SerialOf(state_id));
  }

  OpenRecords records_{1};
  OpenDoubts doubts_{records_};
  std::vector<OpenDoubts::Doubt> asked_;
};

TEST_F(OpenDoubtsTest, AnOpenOfAFileWithoutANameIsDoubtfulAfterItsClientLostASession) {
  const wire::StateId open = Open(1, 1);
  Open(1, 2);
  Open(2, 1);
  doubts_.Unnamed(Key(1));
  EXPECT_THAT(asked_, IsEmpty());
  doubts_.SessionLost(Id(1));
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].client_id, Id(1));
  EXPECT_EQ(asked_[0].state_id, open);
  EXPECT_EQ(asked_[0].key, Key(1));
  EXPECT_THAT(doubts_.DoubtsOf(Id(1)), SizeIs(1));
  EXPECT_THAT(doubts_.DoubtsOf(Id(2)), IsEmpty());
}

TEST_F(OpenDoubtsTest, AFileThatLosesItsNameLaterIsAskedAboutThen) {
  Open(1, 1);
  Open(2, 1);
  doubts_.SessionLost(Id(1));
  EXPECT_THAT(asked_, IsEmpty());
  doubts_.Unnamed(Key(1));
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].client_id, Id(1));
}

TEST_F(OpenDoubtsTest, AnOpenAfterTheLossIsKnown) {
  Open(1, 1);
  doubts_.SessionLost(Id(1));
  Open(1, 2);
  Open(1, 1, "another");
  doubts_.Unnamed(Key(2));
  EXPECT_THAT(asked_, IsEmpty());
  doubts_.Unnamed(Key(1));
  EXPECT_THAT(asked_, SizeIs(1));
}

TEST_F(OpenDoubtsTest, AClientWithoutOpensHasNoDoubts) {
  doubts_.SessionLost(Id(1));
  Close(Open(1, 1));
  Open(1, 1);
  doubts_.Unnamed(Key(1));
  EXPECT_THAT(asked_, IsEmpty()) << "it had no open when it lost the session";
  doubts_.SessionLost(Id(1));
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_TRUE(doubts_.Holds(asked_[0]));
  Close(asked_[0].state_id);
  EXPECT_FALSE(doubts_.Holds(asked_[0]));
  Open(1, 1);
  doubts_.Unnamed(Key(1));
  EXPECT_THAT(asked_, SizeIs(1)) << "the loss is older than all its opens";
}

}  // namespace
}  // namespace dafs::server
