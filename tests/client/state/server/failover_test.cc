// Which alternate locations a client fetches, and when, without any session.
#include "client/state/server/failover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace dafs::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

wire::FileHandle FileIn(uint8_t file_system) {
  wire::FileHandle handle;
  handle.fshandle.bytes[0] = file_system;
  return handle;
}

class FailoverTest : public ::testing::Test {
 protected:
  void Listen() {
    failover_.OnDue([this] { ++fetches_; }, [this](bool has_news) { news_.push_back(has_news); });
  }
  // Fetches what is due; each file system has `server` then.
  void Fetch(const std::string& server) {
    for (const wire::FileHandle& due : failover_.TakeDue()) {
      failover_.Fetched(due, {{{"a"}, {{server, {"a"}}}}});
    }
    failover_.EndFetch();
  }

  RootHandle root_;
  Failover failover_{"mount", root_};
  int fetches_ = 0;
  std::vector<bool> news_;  // of each fetch that ended
};

// Shows DAFS-5.3-02.
TEST_F(FailoverTest, AFileSystemThatWasNotSeenBeforeIsFetchedOnce) {
  Listen();
  EXPECT_EQ(fetches_, 0);
  failover_.Saw(FileIn(1));
  EXPECT_EQ(fetches_, 1);
  failover_.Saw(FileIn(1));
  failover_.Saw(FileIn(2));
  EXPECT_EQ(fetches_, 1) << "one fetch at a time";
  EXPECT_THAT(failover_.TakeDue(), ElementsAre(FileIn(1), FileIn(2)));
  failover_.EndFetch();
  EXPECT_THAT(news_, SizeIs(1));
  EXPECT_EQ(fetches_, 1);
  failover_.Saw(FileIn(2));
  EXPECT_EQ(fetches_, 1);
}

TEST_F(FailoverTest, AFileSystemSeenDuringAFetchIsFetchedAfterIt) {
  Listen();
  failover_.Saw(FileIn(1));
  EXPECT_THAT(failover_.TakeDue(), SizeIs(1));
  failover_.Saw(FileIn(2));
  failover_.EndFetch();
  EXPECT_EQ(fetches_, 2);
  EXPECT_THAT(failover_.TakeDue(), ElementsAre(FileIn(2)));
}

// Shows DAFS-5.3.1-02.
TEST_F(FailoverTest, AFlagOrAnotherInstanceHasAllFetchedAgain) {
  root_.Found(FileIn(1));
  failover_.Fetched(FileIn(1), {});
  failover_.Reached(7);
  Listen();
  EXPECT_EQ(fetches_, 1) << "the mount continues an earlier one";
  Fetch("one");
  failover_.Saw(FileIn(2));
  Fetch("one");
  EXPECT_EQ(fetches_, 2);
  failover_.Changed();
  failover_.Changed();
  EXPECT_EQ(fetches_, 3);
  EXPECT_THAT(failover_.TakeDue(), SizeIs(2));
  failover_.EndFetch();
  failover_.Reached(7);
  EXPECT_EQ(fetches_, 3);
  failover_.Reached(8);
  EXPECT_EQ(fetches_, 4);
  Fetch("two");
  EXPECT_THAT(failover_.Servers(), ElementsAre("two"));
}

TEST_F(FailoverTest, ALocationWithAnotherPathIsNotUsed) {
  failover_.Fetched(FileIn(1), {{{"a"}, {{"one", {"b"}}, {"two:7", {"a"}}, {"two:7", {"a"}}}}});
  EXPECT_THAT(failover_.Servers(), ElementsAre("two:7"));
  failover_.Fetched(FileIn(1), {});
  EXPECT_THAT(failover_.Servers(), IsEmpty());
}

// `fetch` runs under the mutex: another thread gets no further than to a lock.
TEST_F(FailoverTest, AHandleInTheFileSystemSeenLastTakesNoLock) {
  absl::Notification seen;
  std::thread other;
  bool was_seen = false;
  failover_.OnDue(
      [&] {
        other = std::thread([&] {
          failover_.Saw(FileIn(1));
          seen.Notify();
        });
        was_seen = seen.WaitForNotificationWithTimeout(absl::Seconds(10));
      },
      nullptr);
  failover_.Saw(FileIn(1));
  other.join();
  EXPECT_TRUE(was_seen);
}

TEST_F(FailoverTest, AFileSystemWithAStaleHandleIsFetchedByTheNextHandleInIt) {
  wire::FileHandle second = FileIn(1);
  second.fileid.bytes[0] = 9;
  Listen();
  failover_.Saw(FileIn(1));
  Fetch("one");
  failover_.Changed();
  EXPECT_THAT(failover_.TakeDue(), ElementsAre(FileIn(1)));
  failover_.NotFetched(FileIn(1));
  failover_.EndFetch();
  EXPECT_EQ(fetches_, 2);
  EXPECT_THAT(failover_.Servers(), ElementsAre("one"));

  failover_.Changed();
  EXPECT_EQ(fetches_, 3);
  EXPECT_THAT(failover_.TakeDue(), IsEmpty()) << "a handle that is stale";
  failover_.EndFetch();
  failover_.Saw(second);
  EXPECT_EQ(fetches_, 4);
  EXPECT_THAT(failover_.TakeDue(), ElementsAre(second));
  failover_.NotFetched(FileIn(1));  // the answer for the handle before
  failover_.Fetched(second, {{{"a"}, {{"two", {"a"}}}}});
  failover_.EndFetch();
  EXPECT_THAT(failover_.Servers(), ElementsAre("two"));
  EXPECT_EQ(fetches_, 4);
}

TEST_F(FailoverTest, AFetchSaysWhetherItFoundAnythingNew) {
  Listen();
  failover_.Saw(FileIn(1));
  Fetch("one");
  failover_.Changed();
  Fetch("one");
  failover_.Changed();
  Fetch("two");
  EXPECT_THAT(news_, ElementsAre(true, false, true));
}

TEST_F(FailoverTest, NothingIsFetchedAfterTheEnd) {
  Listen();
  failover_.OnDue(nullptr, nullptr);
  failover_.Saw(FileIn(1));
  failover_.Changed();
  EXPECT_EQ(fetches_, 0);
}

}  // namespace
}  // namespace dafs::client
