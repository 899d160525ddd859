// Which alternate locations a client fetches, and when, without any session.
#include "client/state/failover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    failover_.OnDue([this] { ++fetches_; }, [this] { ++fetched_; });
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
  int fetches_ = 0, fetched_ = 0;
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
  EXPECT_EQ(fetched_, 1);
  EXPECT_EQ(fetches_, 1);
  failover_.Saw(FileIn(2));
  EXPECT_EQ(fetches_, 1);
}

TEST_F(FailoverTest, WhatBecomesDueDuringAFetchIsFetchedAfterIt) {
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

TEST_F(FailoverTest, ALocationWithAnotherPathIsPassedOver) {
  failover_.Fetched(FileIn(1), {{{"a"}, {{"one", {"b"}}, {"two:7", {"a"}}, {"two:7", {"a"}}}}});
  EXPECT_THAT(failover_.Servers(), ElementsAre("two:7"));
  failover_.Fetched(FileIn(1), {});
  EXPECT_THAT(failover_.Servers(), IsEmpty());
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
