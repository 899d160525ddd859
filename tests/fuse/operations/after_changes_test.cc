// Whether the mount requests the attributes of a directory with a change of names in it, or of a
// file with a write, and whether the kernel's next GETATTR then needs a request.
#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/fuse/scripted_worker_fixture.h"

namespace dafs::fuse {
namespace {

using client::testing::Request;
using client::testing::ScriptedAttributes;
using client::testing::ScriptedConnection;
using wire::Proc;

class AfterChangesTest : public ScriptedWorkerTest {
 protected:
  static Options Cached(bool default_permissions = false) {
    Options options;
    options.default_permissions = default_permissions;
    return options;
  }
  static Options Uncached(bool default_permissions = false) {
    Options options = Cached(default_permissions);
    options.cache = {.reg_min = absl::ZeroDuration(),
                     .reg_max = absl::ZeroDuration(),
                     .dir_min = absl::ZeroDuration(),
                     .dir_max = absl::ZeroDuration()};
    return options;
  }

  // The server reports all objects as directories, or all as files.
  void Start(const Options& options, bool directories) {
    server_.script = [this, directories](ScriptedConnection& c, const Request& request) {
      switch (request.header.procedure) {
        case Proc::kRemove: {
          c.Answer(request, wire::RemoveRes());
          return true;
        }
        case Proc::kGetattrInline: {
          wire::GetattrInlineRes res;
          res.obj_attributes =
              ScriptedAttributes(request.Decode<wire::GetattrInlineArgs>().attr_request_bitmap);
          if (directories) res.obj_attributes.object_type = wire::ObjectType::kDir;
          c.Answer(request, res);
          absl::MutexLock lock(&mutex_);
          ++requests_;
          return true;
        }
        default:
          return false;
      }
    };
    StartWorker(options);
  }
  // How many GETATTRs the server has received since the last call.
  int Requests() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(requests_, 0);
  }
  int RequestsOfStat(uint64_t node) {
    Requests();
    EXPECT_EQ(Getattr(node).error, 0);
    return Requests();
  }

 private:
  absl::Mutex mutex_;
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DirectoryChangeTest : public AfterChangesTest {
 protected:
  int RequestsOfRemoval() {
    Requests();
    EXPECT_EQ(kernel_.Call(FUSE_UNLINK, kRootNode, Name("f")).error, 0);
    return Requests();
  }
};

// The kernel requests the directory's attributes before it checks permissions.
TEST_F(DirectoryChangeTest, AttributesAreRequestedIfTheKernelChecksPermissions) {
  Start(Cached(/*default_permissions=*/true), /*directories=*/true);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(RequestsOfRemoval(), 1) << i;
  EXPECT_EQ(RequestsOfStat(kRootNode), 0);
}

TEST_F(DirectoryChangeTest, OtherwiseOnlyAStatRequestsThem) {
  Start(Cached(), /*directories=*/true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RequestsOfRemoval(), 0);
    EXPECT_EQ(RequestsOfStat(kRootNode), 1);
  }
}

TEST_F(DirectoryChangeTest, AttributesAreNotRequestedWithoutCacheTimes) {
  Start(Uncached(/*default_permissions=*/true), /*directories=*/true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RequestsOfRemoval(), 0);
    EXPECT_EQ(RequestsOfStat(kRootNode), 1);
  }
}

class WrittenFileTest : public AfterChangesTest, public testing::WithParamInterface<bool> {};

// With cache times, the mount requests attributes from the second write on. Without, with no write.
TEST_P(WrittenFileTest, AttributesAreRequestedWithWritesOnlyIfTheyMayBeCached) {
  const bool cached = GetParam();
  Start(cached ? Cached() : Uncached(), /*directories=*/false);
  fuse_create_in create = {};
  create.flags = O_RDWR | O_CREAT;
  create.mode = S_IFREG | 0644;
  const FakeKernel::Answer created = kernel_.Call(FUSE_CREATE, kRootNode, Raw(create) + Name("f"));
  ASSERT_EQ(created.error, 0);
  const uint64_t node = created.As<fuse_entry_out>().nodeid;
  fuse_write_in write = {};
  write.fh = created.As<fuse_open_out>(sizeof(fuse_entry_out)).fh;
  write.size = 1;
  fuse_flush_in flush = {};  // waits for the write-behind
  flush.fh = write.fh;
  for (int i = 0; i < 3; ++i) {
    const bool with_write = cached && i > 0;
    Requests();
    EXPECT_EQ(kernel_.Call(FUSE_WRITE, node, Raw(write) + "x").error, 0);
    EXPECT_EQ(kernel_.Call(FUSE_FLUSH, node, Raw(flush)).error, 0);
    EXPECT_EQ(Requests(), with_write ? 1 : 0) << i;
    EXPECT_EQ(RequestsOfStat(node), with_write ? 0 : 1) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Cached, WrittenFileTest, testing::Bool());

}  // namespace
}  // namespace dafs::fuse
