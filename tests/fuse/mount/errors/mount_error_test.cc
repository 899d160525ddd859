// The messages of mounts that fail.
#include "fuse/mount/errors/mount_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "fuse/options/source.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

TEST(MountError, EachCauseHasItsOwnText) {
  Options o;
  o.source = *ParseSource("server:/data");
  o.port = 20149;
  Outcome unknown = HostError(o.source.host, absl::NotFoundError("x"));
  EXPECT_EQ(unknown.reason, "server: host unknown");
  EXPECT_EQ(unknown.code, ExitCode::kMountFailure);
  Outcome refused = ConnectError(o, absl::UnavailableError("connect: Connection refused"));
  EXPECT_THAT(refused.reason, testing::HasSubstr("server:20149: connection refused"));
  Outcome absent = ExportError(o, wire::StatusFromDafs(wire::DafsStatus::kNoEnt));
  EXPECT_EQ(absent.reason,
            "server:/data: no such export for this client, or no such directory in it");
  Outcome forbidden = ExportError(o, wire::StatusFromDafs(wire::DafsStatus::kAcces));
  EXPECT_EQ(
      forbidden.reason,
      "server:/data: not permitted by the server: no export there admits this machine's "
      "address, certificate or principal (clients=, certs=, principals=), or its root may not "
      "search a directory of the path");
  EXPECT_EQ(refused.code, ExitCode::kMountFailure);
  EXPECT_EQ(absent.code, ExitCode::kMountFailure);
  EXPECT_EQ(forbidden.code, ExitCode::kUsage);  // mount(8): incorrect invocation or permissions
}

TEST(ExportPath, IsSplitIntoComponents) {
  EXPECT_THAT(ExportPath(*ParseSource("s:/")), testing::IsEmpty());
  EXPECT_THAT(ExportPath(*ParseSource("s:/a//b/")), testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace dafs::fuse
