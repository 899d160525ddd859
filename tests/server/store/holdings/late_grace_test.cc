// The grace period of an export whose file system answers only after the start.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/store/holdings/caller.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/holdings.h"
#include "wire/protocol/status.h"

namespace dafs::server {
namespace {

constexpr size_t kReady = 0;
constexpr size_t kLate = 1;

class LateGraceTest : public testing::Test {
 protected:
  LateGraceTest() {
    grace_.SetExportOf([](const ObjectKey& file) { return std::optional<size_t>(file.bytes[0]); });
    holder_.client_name = "holder";
    other_.client_name = "other";
    held_.Reset();
    held_.lost_opens = 1;
    held_.lost_locks = 1;
  }
  void Start() {
    Grace::Owed owed;
    owed.expected = {{"holder", &held_}};
    owed.on_partly_over = [this] { ++partly_over_; };
    grace_.Start(std::move(owed), At(60), {kLate});
  }
  static absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
  static ObjectKey FileIn(size_t export_index) {
    ObjectKey file;
    file.bytes[0] = static_cast<uint8_t>(export_index);
    return file;
  }
  std::string CheckLock(const Caller& caller, size_t export_index) {
    if (!grace_.active()) return "inactive";
    return std::string(wire::Name(grace_.CheckLock(caller, FileIn(export_index))));
  }
  std::string MayReclaim(size_t export_index) {
    const wire::DafsStatus open = grace_.MayReclaimOpen(holder_, FileIn(export_index), false);
    EXPECT_EQ(open, grace_.MayReclaimLock(holder_, FileIn(export_index)));
    return std::string(wire::Name(open));
  }

  Grace grace_;
  Holdings held_;
  int partly_over_ = 0;
  Caller holder_, other_;
};

constexpr const char* kOk = "DAFS_STATUS_OK";
constexpr const char* kGrace = "DAFSERR_GRACE";
constexpr const char* kExpired = "DAFSERR_EXPIRED";

TEST_F(LateGraceTest, OtherExportsEndInTimeAndLeaveTheHoldingsRecorded) {
  Start();
  EXPECT_EQ(CheckLock(other_, kReady), kGrace);
  EXPECT_FALSE(grace_.Ended(At(59)).has_value());
  const auto ending = grace_.Ended(At(60));
  ASSERT_TRUE(ending.has_value());
  EXPECT_TRUE(ending->In(kReady));
  EXPECT_FALSE(ending->In(kLate));
  EXPECT_EQ(CheckLock(other_, kReady), "inactive");
  EXPECT_EQ(MayReclaim(kReady), kExpired);
  EXPECT_EQ(held_.lost_locks, 1u);  // for the next start
  EXPECT_FALSE(grace_.Ended(At(100000)).has_value());
}

TEST_F(LateGraceTest, EndOfThePeriodElsewhereIsReportedOnce) {
  Start();
  grace_.Ended(At(59));
  EXPECT_EQ(partly_over_, 0);
  grace_.Ended(At(60));
  grace_.Ended(At(61));
  EXPECT_EQ(partly_over_, 1);
}

TEST_F(LateGraceTest, EndOfTheWholePeriodIsNotReported) {
  Start();
  grace_.Arrived(kLate, {}, At(50));
  grace_.Ended(At(50));
  grace_.Ended(At(60));
  EXPECT_EQ(partly_over_, 0);
  EXPECT_EQ(held_.lost_locks, 0u);
}

TEST_F(LateGraceTest, LateExportHasItsPeriodWhenItArrives) {
  Start();
  grace_.Ended(At(60));
  grace_.Arrived(kLate, {}, At(1060));
  EXPECT_EQ(CheckLock(other_, kLate), kGrace);
  EXPECT_EQ(CheckLock(other_, kReady), kOk);
  EXPECT_EQ(MayReclaim(kLate), kOk);
  EXPECT_EQ(MayReclaim(kReady), kExpired);
  EXPECT_TRUE(grace_.expects_opens(FileIn(kLate)));
  EXPECT_FALSE(grace_.expects_opens(FileIn(kReady)));
  EXPECT_FALSE(grace_.Ended(At(1059)).has_value());
  const auto ending = grace_.Ended(At(1060));
  ASSERT_TRUE(ending.has_value());
  EXPECT_TRUE(ending->In(kLate));
  EXPECT_FALSE(ending->In(kReady));
  EXPECT_FALSE(grace_.active());
  EXPECT_EQ(MayReclaim(kLate), kExpired);
  EXPECT_EQ(held_.lost_locks, 0u);
  EXPECT_FALSE(grace_.Ended(At(2000)).has_value());
}

TEST_F(LateGraceTest, EndsEarlyOnceAllIsReclaimed) {
  Start();
  grace_.Ended(At(60));
  grace_.Arrived(kLate, {}, At(1060));
  grace_.Reclaimed(holder_, FileIn(kLate), "owner", false);
  EXPECT_EQ(CheckLock(other_, kLate), kGrace);
  grace_.ReclaimedLock(holder_);
  EXPECT_FALSE(grace_.active());
  const auto ending = grace_.Ended(At(61));
  ASSERT_TRUE(ending.has_value());
  EXPECT_TRUE(ending->In(kLate));
}

// Without late exports a new request shows that its client has reclaimed its locks. Here the client
// may not have been able to.
TEST_F(LateGraceTest, NewRequestElsewhereKeepsWhatTheClientHeld) {
  Start();
  EXPECT_EQ(CheckLock(holder_, kReady), kOk);
  grace_.NoteRequest(holder_);
  EXPECT_EQ(CheckLock(other_, kReady), kGrace);
  grace_.Ended(At(60));
  grace_.Arrived(kLate, {}, At(1060));
  EXPECT_EQ(CheckLock(other_, kLate), kGrace);
}

TEST_F(LateGraceTest, ArrivalBeforeTheEndExtendsThePeriodOfThatExportOnly) {
  Start();
  grace_.Arrived(kLate, {}, At(90));
  EXPECT_TRUE(grace_.Ended(At(60))->In(kReady));
  EXPECT_EQ(CheckLock(other_, kReady), kOk);
  EXPECT_EQ(CheckLock(other_, kLate), kGrace);
  EXPECT_TRUE(grace_.Ended(At(90))->In(kLate));
}

TEST_F(LateGraceTest, DoubtfulWriteThatIsFoundLateDelaysOthers) {
  grace_.Start({}, At(60), {kLate});  // no client is expected
  EXPECT_FALSE(grace_.active());
  EXPECT_TRUE(grace_.Ended(At(1))->In(kReady));
  Grace::Owed owed;
  owed.doubts = {{.file = FileIn(kLate), .client_name = "holder", .session_id = {}}};
  grace_.Arrived(kLate, std::move(owed), At(90));
  EXPECT_EQ(CheckLock(other_, kLate), kGrace);
  EXPECT_EQ(CheckLock(holder_, kLate), kOk);
  EXPECT_EQ(CheckLock(other_, kReady), kOk);
  grace_.Asked({});
  EXPECT_FALSE(grace_.active());
}

}  // namespace
}  // namespace dafs::server
