#include "client/preload/descriptor_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace dafs::preload {
namespace {

using Entry = DescriptorTable::Entry;

class DescriptorTableTest : public testing::Test {
 protected:
  // A file of libdafs is an address that is never used.
  void* File(int number) { return &files_[static_cast<size_t>(number)]; }
  OpenedFile Opened(int number) { return {{1, static_cast<uint64_t>(number), 0}, File(number), 7}; }
  void AdoptAs(int fd, int number) {
    table_->Offer(fd);
    ASSERT_TRUE(table_->BeginAdopting(fd));
    ASSERT_TRUE(table_->Adopt(fd, Opened(number)));
  }

  std::unique_ptr<DescriptorTable> table_ = std::make_unique<DescriptorTable>();  // zeros
  char files_[2048] = {};
};

TEST_F(DescriptorTableTest, ADescriptorThatWasNotOfferedPassesThrough) {
  EXPECT_EQ(table_->Get(3), Entry::kNone);
  EXPECT_EQ(table_->Get(-1), Entry::kNone);
  EXPECT_EQ(table_->Get(DescriptorTable::kMostDescriptors), Entry::kNone);
  EXPECT_FALSE(table_->BeginAdopting(3));
  EXPECT_FALSE(table_->BeginAdopting(-1));
  EXPECT_EQ(table_->Hold(3), nullptr);
  table_->Offer(DescriptorTable::kMostDescriptors);
  EXPECT_EQ(table_->Get(DescriptorTable::kMostDescriptors), Entry::kNone);
}

TEST_F(DescriptorTableTest, OneThreadAdoptsACandidate) {
  table_->Offer(3);
  EXPECT_EQ(table_->Get(3), Entry::kCandidate);
  EXPECT_TRUE(table_->BeginAdopting(3));
  EXPECT_FALSE(table_->BeginAdopting(3));
  EXPECT_EQ(table_->Get(3), Entry::kAdopting);
  table_->Postpone(3);
  EXPECT_EQ(table_->Get(3), Entry::kCandidate);
  EXPECT_TRUE(table_->BeginAdopting(3));
  EXPECT_TRUE(table_->Adopt(3, Opened(1)));
  EXPECT_EQ(table_->Get(3), Entry::kOpened);
  const OpenedFile* const held = table_->Hold(3);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->file, File(1));
  EXPECT_EQ(held->epoch, 7u);
  table_->Release(held);
}

TEST_F(DescriptorTableTest, ARefusedDescriptorPassesThroughUntilItIsOpenedAgain) {
  table_->Offer(3);
  ASSERT_TRUE(table_->BeginAdopting(3));
  table_->Refuse(3);
  EXPECT_EQ(table_->Get(3), Entry::kNone);
  table_->Offer(3);
  EXPECT_EQ(table_->Get(3), Entry::kCandidate);
}

TEST_F(DescriptorTableTest, ADescriptorThatIsClosedWhileItIsAdoptedStaysClosed) {
  table_->Offer(3);
  ASSERT_TRUE(table_->BeginAdopting(3));
  EXPECT_FALSE(table_->Forget(3));
  EXPECT_FALSE(table_->Adopt(3, Opened(1)));
  EXPECT_EQ(table_->Get(3), Entry::kNone);
  EXPECT_EQ(table_->TakeEnded(), nullptr);  // the caller closes its file itself
}

TEST_F(DescriptorTableTest, AFileEndsWhenNoThreadHoldsIt) {
  AdoptAs(3, 1);
  const OpenedFile* const held = table_->Hold(3);
  ASSERT_NE(held, nullptr);
  EXPECT_TRUE(table_->Forget(3));
  EXPECT_EQ(table_->Hold(3), nullptr);
  EXPECT_EQ(table_->TakeEnded(), nullptr);
  EXPECT_EQ(held->file, File(1));
  table_->Release(held);
  EXPECT_EQ(table_->TakeEnded(), File(1));
  EXPECT_EQ(table_->TakeEnded(), nullptr);
}

TEST_F(DescriptorTableTest, ANumberThatIsOpenedAgainEndsItsOldFile) {
  AdoptAs(3, 1);
  table_->Offer(3);  // its close was not seen
  EXPECT_EQ(table_->Get(3), Entry::kCandidate);
  EXPECT_EQ(table_->TakeEnded(), File(1));
}

TEST_F(DescriptorTableTest, AFileOfThePastIsOfferedAgainOnlyIfTheDescriptorStillHasIt) {
  AdoptAs(3, 1);
  const OpenedFile* const held = table_->Hold(3);
  ASSERT_NE(held, nullptr);
  table_->Forget(3);
  AdoptAs(3, 2);
  table_->Reoffer(3, held);
  EXPECT_EQ(table_->Get(3), Entry::kOpened);
  table_->Release(held);
  EXPECT_EQ(table_->TakeEnded(), File(1));
  const OpenedFile* const present = table_->Hold(3);
  ASSERT_NE(present, nullptr);
  table_->Reoffer(3, present);
  EXPECT_EQ(table_->Get(3), Entry::kCandidate);
  table_->Release(present);
  EXPECT_EQ(table_->TakeEnded(), File(2));
}

TEST_F(DescriptorTableTest, ARangeIsForgotten) {
  for (int fd = 3; fd < 7; ++fd) AdoptAs(fd, fd);
  EXPECT_TRUE(table_->ForgetFrom(4, 5));
  EXPECT_EQ(table_->Get(3), Entry::kOpened);
  EXPECT_EQ(table_->Get(4), Entry::kNone);
  EXPECT_EQ(table_->Get(6), Entry::kOpened);
  EXPECT_FALSE(table_->ForgetFrom(4, 5));
  EXPECT_TRUE(table_->ForgetFrom(-5, 1 << 30));
  EXPECT_EQ(table_->Get(6), Entry::kNone);
}

TEST_F(DescriptorTableTest, WithoutRoomADescriptorPassesThrough) {
  const int most = static_cast<int>(DescriptorTable::kMostFiles);
  for (int fd = 0; fd < most; ++fd) AdoptAs(fd, fd);
  table_->Offer(most);
  ASSERT_TRUE(table_->BeginAdopting(most));
  EXPECT_FALSE(table_->Adopt(most, Opened(0)));
  EXPECT_EQ(table_->Get(most), Entry::kNone);
  table_->Forget(5);
  EXPECT_EQ(table_->TakeEnded(), File(5));
  AdoptAs(most, 6);
}

TEST_F(DescriptorTableTest, AHeldFileIsThatOfItsDescriptorWhileOthersCloseAndOpen) {
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const OpenedFile* const held = table_->Hold(3);
        if (held == nullptr) continue;
        // Files of even numbers were never of this descriptor.
        if (held->identity.inode % 2 != 1 ||
            held->file != File(static_cast<int>(held->identity.inode))) {
          ++wrong;
        }
        table_->Release(held);
      }
    });
  }
  for (int turn = 0; turn < 20000; ++turn) {
    AdoptAs(3, 2 * (turn % 100) + 1);
    AdoptAs(4, 2 * (turn % 100));
    table_->Forget(3);
    table_->Forget(4);
    while (table_->TakeEnded() != nullptr) {
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST(OwnDescriptorsTest, ARangeIsSearched) {
  auto own = std::make_unique<OwnDescriptors>();
  own->Add(70);
  EXPECT_TRUE(own->Has(70));
  EXPECT_FALSE(own->Has(71));
  EXPECT_FALSE(own->Has(-1));
  EXPECT_TRUE(own->HasAny(-3, 70));
  EXPECT_FALSE(own->HasAny(71, 1 << 30));
  own->Remove(70);
  EXPECT_FALSE(own->HasAny(0, 1 << 30));
}

}  // namespace
}  // namespace dafs::preload
