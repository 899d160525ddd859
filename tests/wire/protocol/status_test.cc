// The table of status codes.
#include "wire/protocol/status.h"

#include <gtest/gtest.h>

#include <utility>

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

// Shows DAFS-7-01, DAFS-7-02: the numbers of the draft, and those that R11 assigns to the names
// without one.
TEST(StatusTest, CodesHaveTheirNumbers) {
  const std::pair<uint32_t, const char*> codes[] = {
      {0, "DAFS_STATUS_OK"},
      {1, "DAFSERR_PERM"},
      {2, "DAFSERR_NOENT"},
      {5, "DAFSERR_IO"},
      {6, "DAFSERR_NXIO"},
      {13, "DAFSERR_ACCES"},
      {17, "DAFSERR_EXIST"},
      {18, "DAFSERR_XDEV"},
      {19, "DAFSERR_NODEV"},
      {20, "DAFSERR_NOTDIR"},
      {21, "DAFSERR_ISDIR"},
      {22, "DAFSERR_INVAL"},
      {27, "DAFSERR_FBIG"},
      {28, "DAFSERR_NOSPC"},
      {30, "DAFSERR_ROFS"},
      {31, "DAFSERR_MLINK"},
      {63, "DAFSERR_NAMETOOLONG"},
      {66, "DAFSERR_NOTEMPTY"},
      {69, "DAFSERR_DQUOT"},
      {70, "DAFSERR_STALE"},
      {10001, "DAFSERR_BADHANDLE"},
      {10003, "DAFSERR_BAD_COOKIE"},
      {10004, "DAFSERR_NOTSUPP"},
      {10005, "DAFSERR_TOOSMALL"},
      {10006, "DAFSERR_SERVERFAULT"},
      {10007, "DAFSERR_BADTYPE"},
      {10008, "DAFSERR_DELAY"},
      {10009, "DAFSERR_SAME"},
      {10010, "DAFSERR_DENIED"},
      {10011, "DAFSERR_EXPIRED"},
      {10012, "DAFSERR_LOCKED"},
      {10013, "DAFSERR_GRACE"},
      {10014, "DAFSERR_FHEXPIRED"},
      {10015, "DAFSERR_SHARE_DENIED"},
      {10016, "DAFSERR_WRONGSEC"},
      {10017, "DAFSERR_CLID_INUSE"},
      {10018, "DAFSERR_RESOURCE"},
      {10019, "DAFSERR_MOVED"},
      {10020, "DAFSERR_NOFILEHANDLE"},
      {10021, "DAFSERR_MINOR_VERS_MISMATCH"},
      {10022, "DAFSERR_STALE_CLIENTID"},
      {10023, "DAFSERR_STALE_STATEID"},
      {10024, "DAFSERR_OLD_STATEID"},
      {10025, "DAFSERR_BAD_STATEID"},
      {10026, "DAFSERR_BAD_SEQID"},
      {10027, "DAFSERR_NOT_SAME"},
      {10028, "DAFSERR_LOCK_RANGE"},
      {10029, "DAFSERR_SYMLINK"},
      {10030, "DAFSERR_READDIR_NOSPC"},
      {10031, "DAFSERR_LEASE_MOVED"},
      {15002, "DAFSERR_ILLEGAL_PROT"},
      {15003, "DAFSERR_ILLEGAL_STATE"},
      {15004, "DAFSERR_UNKNOWN_SESSION"},
      {15005, "DAFSERR_NOXID_MATCH"},
      {15006, "DAFSERR_NOT_AUTHORIZED"},
      {15007, "DAFSERR_NOT_FOUND"},
      {15008, "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE"},
      {15009, "DAFSERR_CHAIN_FORM"},
      {15010, "DAFSERR_CHAIN_BROKEN"},
      {15011, "DAFSERR_GSS_CONTINUE_INIT"},
      {15012, "DAFSERR_BAD_SESSION"},
      {15013, "DAFSERR_NO_CREDS"},
      {15014, "DAFSERR_CRHAND_CONFLICT"},
      {15015, "DAFSERR_DENYDISP_CONFLICT"},
      {15016, "DAFSERR_DENYDISP_NOTSUPP"},
      {15017, "DAFSERR_KEY_MISMATCH"},
      {15018, "DAFSERR_WRITE_TOOBIG"},
      {15019, "DAFSERR_BACK_CHANNEL_UNUSABLE"},
      {15020, "DAFSERR_CHKSUM"},
      {15021, "DAFSERR_NO_PARTIAL_INFO"},
      {15022, "DAFSERR_LOCK_BROKEN"},
      {15023, "DAFSERR_BATCH_REQUEST_NOT_FOUND"},
      {15024, "DAFSERR_WHOA_COWBOY"},
      {15025, "DAFSERR_PREFETCH_NOT_SUPPORTED"},
      {15026, "DAFSERR_NOT_AUTHENTICATED"},
  };
  for (const auto& [number, name] : codes) {
    EXPECT_EQ(Name(static_cast<DafsStatus>(number)), name) << number;
  }
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
