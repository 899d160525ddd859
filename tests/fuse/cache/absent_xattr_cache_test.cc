#include "fuse/cache/absent_xattr_cache.h"

#include <gtest/gtest.h>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

class AbsentXattrCacheTest : public NodeFixture {
 protected:
  bool Known(absl::Duration after) const {
    return absent_.Known(node_, AbsentXattr::kCapability, start_ + after);
  }

  AbsentXattrCache absent_{table_, CacheTimes(), rules_};
  const uint64_t node_ = table_.Remember(Handle(1), File(1), {kRootNode, "file"});
};

TEST_F(AbsentXattrCacheTest, IsCachedForTheLeastCacheTime) {
  EXPECT_FALSE(Known(absl::ZeroDuration()));
  absent_.Note(node_, AbsentXattr::kCapability, start_);
  EXPECT_TRUE(Known(absl::Milliseconds(2999)));
  EXPECT_FALSE(Known(absl::Seconds(3)));
  EXPECT_FALSE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_));
  EXPECT_FALSE(absent_.Known(node_ + 16, AbsentXattr::kCapability, start_));
}

TEST_F(AbsentXattrCacheTest, IsCachedWhileChangeStaysTheSame) {
  attributes_.Sent(node_, File(7), start_);
  absent_.Note(node_, AbsentXattr::kCapability, start_ + absl::Seconds(1));
  attributes_.Sent(node_, File(7), start_ + absl::Seconds(50));
  EXPECT_TRUE(Known(absl::Hours(1)));
  attributes_.Sent(node_, File(8), start_ + absl::Seconds(60));
  EXPECT_FALSE(Known(absl::Seconds(60)));
}

// The file may have changed after the server replied that the attribute is absent.
TEST_F(AbsentXattrCacheTest, AChangeSentAfterTheRequestDoesNotExtendTheTime) {
  attributes_.Sent(node_, File(8), start_ + absl::Seconds(1));
  absent_.Note(node_, AbsentXattr::kCapability, start_);
  EXPECT_TRUE(Known(absl::Seconds(2)));
  EXPECT_FALSE(Known(absl::Seconds(3)));
}

TEST_F(AbsentXattrCacheTest, SettingAnAttributeEndsItForOutstandingRequestsToo) {
  absent_.Note(node_, AbsentXattr::kCapability, start_);
  absent_.Forget(node_, start_ + absl::Seconds(1));
  EXPECT_FALSE(Known(absl::Seconds(1)));
  absent_.Note(node_, AbsentXattr::kCapability, start_ + absl::Milliseconds(500));
  EXPECT_FALSE(Known(absl::Seconds(1)));
  absent_.Note(node_, AbsentXattr::kCapability, start_ + absl::Seconds(2));
  EXPECT_TRUE(Known(absl::Seconds(2)));
}

}  // namespace
}  // namespace dafs::fuse
