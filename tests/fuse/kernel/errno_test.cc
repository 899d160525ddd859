#include "fuse/kernel/errno.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

using wire::DafsStatus;

TEST(ErrnoFromStatus, OkIsZeroAndEveryErrorIsPositive) {
  EXPECT_EQ(ErrnoFromStatus(absl::OkStatus()), 0);
  for (uint32_t code = 1; code < 16000; ++code) {
    absl::Status status = wire::StatusFromDafs(DafsStatus(code), "x");
    EXPECT_GT(ErrnoFromStatus(status), 0) << code;
  }
  for (int code = 1; code <= 16; ++code) {
    EXPECT_GT(ErrnoFromStatus(absl::Status(static_cast<absl::StatusCode>(code), "x")), 0) << code;
  }
}

// Programs depend on these. Spec: chapter 7, WIRE 12. Shows DAFS-7-14
TEST(ErrnoFromStatus, DafsCodesBecomeTheErrnoThatProgramsExpect) {
  const std::pair<DafsStatus, int> cases[] = {
      {DafsStatus::kPerm, EPERM},
      {DafsStatus::kNoEnt, ENOENT},
      {DafsStatus::kIo, EIO},
      {DafsStatus::kNxio, ENXIO},
      {DafsStatus::kAcces, EACCES},
      {DafsStatus::kExist, EEXIST},
      {DafsStatus::kXdev, EXDEV},
      {DafsStatus::kNoDev, ENODEV},
      {DafsStatus::kNotDir, ENOTDIR},
      {DafsStatus::kIsDir, EISDIR},
      {DafsStatus::kInval, EINVAL},
      {DafsStatus::kFbig, EFBIG},
      {DafsStatus::kNoSpc, ENOSPC},
      {DafsStatus::kRofs, EROFS},
      {DafsStatus::kMlink, EMLINK},
      {DafsStatus::kNameTooLong, ENAMETOOLONG},
      {DafsStatus::kNotEmpty, ENOTEMPTY},
      {DafsStatus::kDquot, EDQUOT},
      {DafsStatus::kStale, ESTALE},
      {DafsStatus::kFhExpired, ESTALE},
      {DafsStatus::kNotSupp, EOPNOTSUPP},
      {DafsStatus::kSymlink, ELOOP},
      {DafsStatus::kDenied, EACCES},
      {DafsStatus::kShareDenied, EACCES},
      {DafsStatus::kResource, ENFILE},
      {DafsStatus::kServerFault, EIO},
      {DafsStatus::kChksum, EIO},
  };
  for (auto [code, error] : cases) {
    EXPECT_EQ(ErrnoFromStatus(wire::StatusFromDafs(code)), error) << wire::Name(code);
  }
}

TEST(ErrnoFromStatus, FailuresWithoutAReplyOfTheServerHaveTheirErrno) {
  EXPECT_EQ(ErrnoFromStatus(absl::DeadlineExceededError("soft")), ETIMEDOUT);
  EXPECT_EQ(ErrnoFromStatus(absl::DataLossError("unknown fate")), EIO);
  EXPECT_EQ(ErrnoFromStatus(absl::UnimplementedError("x")), EOPNOTSUPP);
  EXPECT_EQ(ErrnoFromStatus(absl::CancelledError("x")), ENOTCONN);
}

}  // namespace
}  // namespace dafs::fuse
