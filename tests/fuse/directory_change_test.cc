// What the server is asked of a directory with a change of names in it, and what the kernel's next
// question about the directory costs.
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

class DirectoryChangeTest : public ScriptedWorkerTest {
 protected:
  void Start(const Options& options) {
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      switch (request.header.procedure) {
        case Proc::kRemove: {
          c.Answer(request, wire::RemoveRes());
          return true;
        }
        case Proc::kGetattrInline: {
          wire::GetattrInlineRes res;
          res.obj_attributes =
              ScriptedAttributes(request.Decode<wire::GetattrInlineArgs>().attr_request_bitmap);
          res.obj_attributes.object_type = wire::ObjectType::kDir;
          c.Answer(request, res);
          absl::MutexLock lock(&mutex_);
          ++questions_;
          return true;
        }
        default:
          return false;
      }
    };
    StartWorker(options);
    Questions();
  }
  // How often the server was asked for attributes since the last call.
  int Questions() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(questions_, 0);
  }
  int QuestionsOfRemoval() {
    EXPECT_EQ(kernel_.Call(FUSE_UNLINK, kRootNode, Name("f")).error, 0);
    return Questions();
  }
  int QuestionsOfStat() {
    EXPECT_EQ(Getattr(kRootNode).error, 0);
    return Questions();
  }

 private:
  absl::Mutex mutex_;
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The kernel asks before it lets anybody pass.
TEST_F(DirectoryChangeTest, TheDirectoryIsAskedForWhereTheKernelLooksAtPermissions) {
  Options options;
  options.default_permissions = true;
  Start(options);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(QuestionsOfRemoval(), 1) << i;
  EXPECT_EQ(QuestionsOfStat(), 0);
}

TEST_F(DirectoryChangeTest, ElsewhereItIsAskedForWhileProgramsAskForIt) {
  Start(Options());
  EXPECT_EQ(QuestionsOfRemoval(), 0);
  EXPECT_EQ(QuestionsOfStat(), 1) << "by itself, the first time";
  EXPECT_EQ(QuestionsOfRemoval(), 1);
  EXPECT_EQ(QuestionsOfStat(), 0);
  int in_vain = 0;
  while (in_vain < 100 && QuestionsOfRemoval() == 1) ++in_vain;
  EXPECT_LT(in_vain, 17);
  EXPECT_EQ(QuestionsOfStat(), 1);
}

TEST_F(DirectoryChangeTest, ItIsNotAskedForWhereTheAnswerMayNotBeKept) {
  Options options;
  options.default_permissions = true;
  options.cache = {.reg_min = absl::ZeroDuration(),
                   .reg_max = absl::ZeroDuration(),
                   .dir_min = absl::ZeroDuration(),
                   .dir_max = absl::ZeroDuration()};
  Start(options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(QuestionsOfRemoval(), 0);
    EXPECT_EQ(QuestionsOfStat(), 1);
  }
}

}  // namespace
}  // namespace dafs::fuse
