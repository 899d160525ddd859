#include "fuse/cache/acl_ahead.h"

#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

constexpr uint32_t kThread = 4711;
constexpr uint64_t kDirectory = 7;
constexpr absl::Duration kTook = absl::Microseconds(40);

class AclAheadTest : public ::testing::Test {
 protected:
  // `thread` looks up a name and prefetches the ACL of kDirectory. The reply arrives now.
  void Ahead(uint32_t thread, const std::string& acl, absl::Duration took = kTook) {
    ahead_.LookUp(thread);
    const uint64_t question = ahead_.Ask(thread, kDirectory, now_ - took);
    ahead_.Answered(thread, question, acl, now_);
  }
  // The ACL under which `thread` creates; "-": none is prefetched.
  std::string Taken(uint32_t thread, uint64_t directory, absl::Time at) {
    std::optional<AclAhead::Acl> acl = ahead_.Take(thread, directory, at);
    return acl.has_value() ? acl->value_or("error") : "-";
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  AclAhead ahead_;
};

TEST_F(AclAheadTest, IsValidOnceForItsThreadAndDirectory) {
  Ahead(kThread, "acl");
  EXPECT_EQ(Taken(kThread + 1, kDirectory, now_), "-");
  EXPECT_EQ(Taken(kThread, kDirectory + 1, now_), "-");
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "acl");
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "-");
  Ahead(0, "acl");  // a caller that the kernel does not name
  EXPECT_EQ(Taken(0, kDirectory, now_), "-");
}

TEST_F(AclAheadTest, ExpiresAfterRoundTripTimeCappedAt1ms) {
  Ahead(kThread, "acl");
  EXPECT_EQ(Taken(kThread, kDirectory, now_ + kTook), "acl");
  Ahead(kThread, "acl");
  EXPECT_EQ(Taken(kThread, kDirectory, now_ + kTook + absl::Microseconds(1)), "-");
  Ahead(kThread, "acl", absl::Seconds(10));
  EXPECT_EQ(Taken(kThread, kDirectory, now_ + absl::Microseconds(1001)), "-");
}

TEST_F(AclAheadTest, IsDiscardedByTheNextLookupOfItsThread) {
  Ahead(kThread, "acl");
  ahead_.LookUp(kThread + 1);
  ahead_.LookUp(kThread);
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "-");
  const uint64_t first = ahead_.Ask(kThread, kDirectory, now_ - kTook);
  const uint64_t second = ahead_.Ask(kThread, kDirectory, now_ - kTook);
  ahead_.Answered(kThread, first, std::string("old"), now_);
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "-") << "the reply belongs to an earlier prefetch";
  ahead_.Answered(kThread, second, std::string("new"), now_);
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "-")
      << "the caller has already requested the ACL itself";
}

TEST_F(AclAheadTest, IsExpectedWhereTheLastCreateUsedOne) {
  EXPECT_FALSE(ahead_.Expected(kDirectory));
  ahead_.WaitedFor(kDirectory);
  EXPECT_TRUE(ahead_.Expected(kDirectory));
  EXPECT_FALSE(ahead_.Expected(kDirectory + 1));
  Ahead(kThread, "acl");
  EXPECT_EQ(Taken(kThread, kDirectory, now_), "acl");
  ahead_.LookUp(kThread);
  EXPECT_TRUE(ahead_.Expected(kDirectory));
  Ahead(kThread, "acl");
  ahead_.LookUp(kThread);
  EXPECT_FALSE(ahead_.Expected(kDirectory)) << "the last one was not used";
}

}  // namespace
}  // namespace dafs::fuse
