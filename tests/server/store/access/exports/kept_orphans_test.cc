// Files without a name that are kept for clients that may reclaim an open.
#include "server/store/access/exports/kept_orphans.h"

#include <fcntl.h>

#include <memory>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/parts/store_parts.h"
#include "tests/server/files_in.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class KeptOrphansTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    StoreOptions options = Options();
    options.keep_orphans = true;
    absl::StatusOr<std::unique_ptr<WriteVerifier>> verifier =
        WriteVerifier::Open(options.state_dir, 1);
    ASSERT_TRUE(verifier.ok()) << verifier.status();
    parts_ = std::make_unique<StoreParts>(std::move(options), HandleKey(), 1, *std::move(verifier));
    const absl::Status opened =
        parts_->directories.OpenAll([](size_t) {}, absl::InfiniteDuration());
    ASSERT_TRUE(opened.ok()) << opened;
  }

  // The object of the file "f", which has one name.
  ObjectRef File() {
    WriteFile(Path("a/f"), "content");
    UniqueFd path(open(Path("a/f").c_str(), O_PATH | O_CLOEXEC));
    ObjectRef file;
    EXPECT_OK(parts_->objects.Adopt(*parts_->mounts->Root(0)->top, std::move(path), &file));
    return file;
  }
  bool Keeps() const { return FilesIn(Path("a/.dafsd-orphans")) > 0; }

  std::unique_ptr<StoreParts> parts_;
};

TEST_F(KeptOrphansTest, RemovedFileIsKeptUntilTheGracePeriodEnds) {
  const ObjectRef file = File();
  parts_->kept_orphans.LinkLeft(*file);
  EXPECT_TRUE(Keeps());
  parts_->kept_orphans.Sweep({0, 1});
  EXPECT_FALSE(Keeps());
}

// The period may end between the check of REMOVE or CLOSE and the link.
TEST_F(KeptOrphansTest, FileIsNotKeptAfterTheGracePeriodEnded) {
  const ObjectRef file = File();
  parts_->kept_orphans.Sweep({0, 1});
  parts_->kept_orphans.LinkLeft(*file);
  EXPECT_FALSE(Keeps());
  ASSERT_TRUE(parts_->kept_orphans.Of(file->fs()).Link(*file));
  EXPECT_TRUE(Keeps());
  parts_->kept_orphans.Leave(*file);
  EXPECT_FALSE(Keeps());
}

}  // namespace
}  // namespace dafs::server
