// The table of status codes.
#include "wire/protocol/status.h"

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "runtime/status_macros.h"

namespace dafs::wire {
namespace {

TEST(StatusTest, EveryCodeRoundTripsThroughAStatus) {
  int known = 0;
  for (uint32_t number = 0; number < 16000; ++number) {
    const auto code = static_cast<DafsStatus>(number);
    if (!IsKnown(code)) {
      EXPECT_EQ(Name(code), "DAFSERR_?");
      continue;
    }
    ++known;
    const absl::Status status = StatusFromDafs(code, "lookup");
    EXPECT_EQ(DafsFromStatus(status), code);
    EXPECT_EQ(status.ok(), number == 0);
    EXPECT_EQ(HasDafsStatus(status), number != 0);
  }
  EXPECT_EQ(known, 75);
  EXPECT_EQ(Name(DafsStatus::kDeadlock), "DAFSERR_DEADLOCK");  // private, above those of the draft
}

// Shows DAFS-7-20
TEST(StatusTest, SessionErrorsHaveTheirNumbers) {
  EXPECT_EQ(Name(static_cast<DafsStatus>(15012)), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(Name(static_cast<DafsStatus>(15013)), "DAFSERR_NO_CREDS");
  EXPECT_EQ(Name(static_cast<DafsStatus>(15014)), "DAFSERR_CRHAND_CONFLICT");
}

TEST(StatusTest, MapsDafsCodesToAbslCodes) {
  EXPECT_TRUE(absl::IsUnavailable(StatusFromDafs(DafsStatus::kDelay)));
  EXPECT_TRUE(absl::IsUnavailable(StatusFromDafs(DafsStatus::kGrace)));
  EXPECT_TRUE(absl::IsAborted(StatusFromDafs(DafsStatus::kStaleStateId)));
  EXPECT_TRUE(absl::IsAborted(StatusFromDafs(DafsStatus::kFhExpired)));
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusFromDafs(DafsStatus::kNoEnt)));
  EXPECT_EQ(StatusFromDafs(DafsStatus::kNoEnt, "remove a").message(),
            "remove a: no such file or directory (DAFSERR_NOENT)");
}

// WIRE 9.2: an unknown status is treated as SERVERFAULT.
TEST(StatusTest, UnknownNumbersAreTreatedAsServerFault) {
  const absl::Status status = StatusFromDafs(static_cast<DafsStatus>(424242));
  EXPECT_EQ(DafsFromStatus(status), DafsStatus::kServerFault);
  EXPECT_EQ(status.code(), StatusFromDafs(DafsStatus::kServerFault).code());
  EXPECT_NE(status.message().find("424242"), absl::string_view::npos);
  EXPECT_EQ(DafsFromStatus(absl::UnavailableError("session lost")), DafsStatus::kServerFault);
  EXPECT_FALSE(HasDafsStatus(absl::UnavailableError("session lost")));
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}
absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST(StatusTest, MacrosReturnErrors) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Quarter(6).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Quarter(7).status()));
}

}  // namespace
}  // namespace dafs::wire
