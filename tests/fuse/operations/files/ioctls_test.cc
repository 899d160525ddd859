// Where a file is at the server: runtime/files/direct_ioctl.h.
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "runtime/files/direct_ioctl.h"
#include "tests/fuse/worker_fixture.h"

namespace dafs::fuse {
namespace {

class IoctlsTest : public WorkerTest {
 protected:
  FakeKernel::Answer Locate(const Created& file, uint32_t room = sizeof(DirectIoctl)) {
    fuse_ioctl_in in = {};
    in.fh = file.open.fh;
    in.cmd = static_cast<uint32_t>(kDirectIoctl);
    in.out_size = room;
    return kernel_.Call(FUSE_IOCTL, file.entry.nodeid, Raw(in));
  }
};

TEST_F(IoctlsTest, AFileThatIsOpenWithODirectIsLocated) {
  const Created file = Create("f", O_RDWR | O_DIRECT);
  const FakeKernel::Answer answer = Locate(file);
  ASSERT_EQ(answer.error, 0);
  const auto where = answer.As<DirectIoctl>(sizeof(fuse_ioctl_out));
  EXPECT_EQ(where.version, kDirectIoctlVersion);
  EXPECT_EQ(where.server, server_->bound()[0].address.ToString());
  EXPECT_STREQ(where.export_path, "/data");
  const wire::FileHandle handle = state_->open_files.Find(file.open.fh)->handle;
  EXPECT_EQ(std::memcmp(where.filehandle, handle.fshandle.bytes.data(), 16), 0);
  EXPECT_EQ(std::memcmp(where.filehandle + 16, handle.fileid.bytes.data(), 48), 0);
}

TEST_F(IoctlsTest, OtherDescriptorsAreNotLocated) {
  Created file = Create("f");
  EXPECT_EQ(Locate(file).error, EINVAL);
  file.open = Open(file.entry.nodeid, O_RDONLY | O_DIRECT);
  EXPECT_EQ(Locate(file, sizeof(DirectIoctl) - 1).error, EINVAL);
  EXPECT_EQ(Locate(file).error, 0);
  file.open.fh = 12345;
  EXPECT_EQ(Locate(file).error, ENOTTY);  // as a directory
}

TEST_F(IoctlsTest, AFileThatIsOpenWithODirectHasNoWriteBehind) {
  Created file = Create("f");
  const auto open = state_->open_files.Find(file.open.fh);
  EXPECT_FALSE(open->writes->has_direct_opens());
  Created direct = {file.entry, Open(file.entry.nodeid, O_RDONLY | O_DIRECT)};
  EXPECT_TRUE(open->writes->has_direct_opens());
  EXPECT_EQ(Write(file, 0, "now").error, 0);
  EXPECT_EQ(Content("f"), "now");
  Release(direct);
  // The answer to RELEASE may come before the state of the open is gone.
  for (int i = 0; i < 1000 && open->writes->has_direct_opens(); ++i)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(open->writes->has_direct_opens());
}

}  // namespace
}  // namespace dafs::fuse
