// The C interface of libdafs (client/c/dafs.h) against the real server, and misuse of it. Links the
// shared library, and so sees what a program sees.
#include <dafs.h>
#include <dlfcn.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/client/server_fixture.h"

namespace dafs::client {
namespace {

using testing::HasSubstr;

class DafsTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (dat::testing::OverRdma()) GTEST_SKIP() << "over TCP only";
    address_ = server_->bound()[0].address.ToString();
    session_ = Open();
  }
  void TearDown() override {
    if (session_ != nullptr) {
      EXPECT_EQ(dafs_session_close(session_), 0);
    }
    ServerTest::TearDown();
  }
  dafs_options SessionOptions() const {
    dafs_options options = {};
    options.size = sizeof(options);
    options.server = address_.c_str();
    options.export_path = "/data";
    options.transport = "tcp";
    return options;
  }
  dafs_session* Open(uint32_t timeout_ms = 0, const char* client_id = nullptr,
                     const char* fence_id = nullptr) {
    dafs_options options = SessionOptions();
    options.timeout_ms = timeout_ms;
    options.client_id = client_id;
    options.fence_id = fence_id;
    dafs_session* session = nullptr;
    EXPECT_EQ(dafs_session_open(&options, &session), 0) << dafs_error();
    return session;
  }
  dafs_file* OpenFile(const char* path, uint32_t flags = DAFS_WRITE | DAFS_CREATE,
                      dafs_session* session = nullptr) {
    dafs_open_options options = {};
    options.size = sizeof(options);
    options.flags = flags;
    dafs_file* file = nullptr;
    EXPECT_EQ(dafs_open(session != nullptr ? session : session_, path, &options, &file), 0)
        << dafs_error();
    return file;
  }
  static dafs_range_lock Lock(uint32_t flags, uint64_t offset = 0, uint64_t length = 0) {
    dafs_range_lock lock = {};
    lock.size = sizeof(lock);
    lock.flags = flags;
    lock.offset = offset;
    lock.length = length;
    return lock;
  }

  std::string address_;
  dafs_session* session_ = nullptr;
};

TEST_F(DafsTest, FileIsWrittenAppendedReadAndTruncated) {
  dafs_file* file = OpenFile("file");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(dafs_write(file, "hello", 5, 0), 5);
  EXPECT_EQ(dafs_append(file, " world", 6), 5);
  char text[20] = {};
  EXPECT_EQ(dafs_read(file, text, sizeof(text), 0), 11);
  EXPECT_STREQ(text, "hello world");
  EXPECT_EQ(dafs_truncate(file, 5), 0);
  EXPECT_EQ(dafs_commit(file), 0);
  EXPECT_EQ(dafs_hint(file, 0, 0, DAFS_SEQUENTIAL), 0);
  dafs_attributes attributes = {};
  attributes.size = sizeof(attributes);
  EXPECT_EQ(dafs_fstat(file, &attributes), 0);
  EXPECT_EQ(attributes.file_size, 5u);
  EXPECT_EQ(dafs_close(file), 0);
  EXPECT_EQ(LocalContent("file"), "hello");
}

TEST_F(DafsTest, NamesAndAttributesAreChangedAndCompared) {
  EXPECT_EQ(dafs_mkdir(session_, "dir", 0750), 0);
  MakeLocal("dir/one", "1");
  EXPECT_EQ(dafs_rename(session_, "dir/one", "dir/two"), 0);
  EXPECT_EQ(dafs_link(session_, "dir/two", "dir/three"), 0);
  EXPECT_EQ(dafs_symlink(session_, "two", "dir/link"), 0);
  char target[4] = {};
  EXPECT_EQ(dafs_readlink(session_, "dir/link", target, 4), 3);
  EXPECT_STREQ(target, "two");
  EXPECT_EQ(dafs_readlink(session_, "dir/link", target, 3), -ERANGE);
  dafs_attributes attributes = {};
  attributes.size = sizeof(attributes);
  attributes.valid = DAFS_ATTR_SIZE | DAFS_ATTR_MODE;
  attributes.file_size = 4;
  attributes.mode = 0604;
  EXPECT_EQ(dafs_set_attributes(session_, "dir/two", &attributes), 0) << dafs_error();
  EXPECT_EQ(dafs_verify(session_, "dir/two", &attributes), 1);
  EXPECT_EQ(dafs_nverify(session_, "dir/two", &attributes), 1);
  attributes.file_size = 5;
  EXPECT_EQ(dafs_verify(session_, "dir/two", &attributes), 0);
  EXPECT_EQ(dafs_nverify(session_, "dir/two", &attributes), 0);
  dafs_list* list = nullptr;
  ASSERT_EQ(dafs_list_open(session_, "dir", &list), 0);
  const char* name = nullptr;
  std::vector<std::string> names;
  while (dafs_list_next(list, &name, &attributes) == 1) names.emplace_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("two", "three", "link"));
  EXPECT_EQ(dafs_list_close(list), 0);
  EXPECT_EQ(dafs_remove(session_, "dir"), -ENOTEMPTY);
  EXPECT_EQ(dafs_remove(session_, "dir/link"), 0);
}

TEST_F(DafsTest, ErrorHasTextAndCodeOfServer) {
  dafs_attributes attributes = {};
  attributes.size = sizeof(attributes);
  EXPECT_EQ(dafs_stat(session_, "no/such", &attributes), -ENOENT);
  EXPECT_THAT(dafs_error(), HasSubstr(address_ + ":/data: stat no/such: "));
  EXPECT_EQ(dafs_error_status(), 2u);
  dafs_options options = SessionOptions();
  options.export_path = "/nothing";
  dafs_session* session = session_;
  EXPECT_EQ(dafs_session_open(&options, &session), -ENOENT);
  EXPECT_EQ(session, nullptr);
  EXPECT_THAT(dafs_error(), HasSubstr(":/nothing: "));
  // Each thread has its own.
  std::thread([] { EXPECT_STREQ(dafs_error(), ""); }).join();
}

TEST_F(DafsTest, LocksExcludeAndBreakAndAreRepaired) {
  dafs_file* mine = OpenFile("file");
  // The failing client does not reconnect, because the test no longer runs its loop.
  ClientOptions failing = Options();
  failing.client_id_string = "another client";
  StartClient(std::move(failing));
  absl::StatusOr<dafs::client::OpenFile> theirs =
      Await(files_->opens().Open(root_user_, ToOpen("file")));
  ASSERT_STATUS_OK(theirs);
  absl::StatusOr<LockAnswer> answer = Await(files_->locks().Lock(
      root_user_, {theirs->handle, theirs->state_id},
      wire::LockRangeOf(10, 10, wire::LockType::kWrite), nullptr, {.persist = true}));
  ASSERT_STATUS_OK(answer);
  ASSERT_EQ(answer->outcome, LockOutcome::kGranted);
  dafs_range_lock lock = Lock(DAFS_LOCK_WRITE | DAFS_LOCK_PERSIST, 10, 10);
  EXPECT_EQ(dafs_lock(mine, &lock), -EAGAIN);
  EXPECT_THAT(dafs_error(), HasSubstr("lock file: another owner"));
  dafs_range_lock found = Lock(DAFS_LOCK_WRITE);
  EXPECT_EQ(dafs_lock_test(mine, &found), 1);
  EXPECT_EQ(found.offset, 10u);
  EXPECT_EQ(found.length, 10u);
  dafs_session* again = Open(0, "another client");  // its former run has failed
  EXPECT_EQ(dafs_lock(mine, &lock), -EOWNERDEAD);
  lock.flags |= DAFS_LOCK_REPAIR;
  EXPECT_EQ(dafs_lock(mine, &lock), 0) << dafs_error();
  EXPECT_EQ(dafs_abort(mine, &lock), 0) << dafs_error();
  EXPECT_EQ(dafs_unlock(mine, 0, 0), 0);
  EXPECT_EQ(dafs_session_close(again), 0);
}

TEST_F(DafsTest, OpenOptionsKeepOthersAway) {
  dafs_file* mine = OpenFile("file", DAFS_WRITE | DAFS_CREATE | DAFS_DENY_WRITE);
  ASSERT_NE(mine, nullptr);
  dafs_session* other = Open();
  dafs_open_options options = {};
  options.size = sizeof(options);
  options.flags = DAFS_WRITE;
  dafs_file* theirs = nullptr;
  EXPECT_EQ(dafs_open(other, "file", &options, &theirs), -EACCES);
  EXPECT_EQ(theirs, nullptr);
  EXPECT_EQ(dafs_close(mine), 0);
  EXPECT_EQ(dafs_open(other, "file", &options, &theirs), 0);
  EXPECT_EQ(dafs_session_close(other), 0);
}

TEST_F(DafsTest, FencingListsAreReadAndChanged) {
  MakeLocal("file", "x");
  dafs_session* node1 = Open(0, nullptr, "node1");
  dafs_session* manager = Open(0, nullptr, "operator");
  const char* const ids[] = {"node1", "operator"};
  EXPECT_EQ(dafs_fence_set(manager, "file", DAFS_FENCE_FILE, DAFS_FENCE_ALLOW, DAFS_FENCE_OVERWRITE,
                           ids, 2),
            0)
      << dafs_error();
  dafs_list* list = nullptr;
  ASSERT_EQ(dafs_fence_get(manager, "file", &list), 0) << dafs_error();
  const char* name = nullptr;
  EXPECT_EQ(dafs_list_next(list, &name, nullptr), 1);
  EXPECT_STREQ(name, "node1");
  EXPECT_EQ(dafs_list_close(list), 0);
  EXPECT_NE(OpenFile("file", 0, node1), nullptr);
  EXPECT_EQ(
      dafs_fence_set(manager, "file", DAFS_FENCE_FILE, DAFS_FENCE_DENY, DAFS_FENCE_REMOVE, ids, 1),
      0);
  dafs_file* file = nullptr;
  EXPECT_EQ(dafs_open(node1, "file", nullptr, &file), -EACCES);
  EXPECT_EQ(dafs_open(session_, "file", nullptr, &file), -EACCES);  // has no id
  EXPECT_EQ(dafs_session_close(node1), 0);
  EXPECT_EQ(dafs_session_close(manager), 0);
}

// ---- Asynchronous I/O ---------------------------------------------------------------------------

struct Seen {
  dafs_session* session;
  dafs_group* group;
  dafs_file* file;
  dafs_segment segment;
  int calls = 0;
  int again = 0;  // I/Os that the callback issues
};

void OnDone(const dafs_completion* completion, void* argument) {
  auto* seen = static_cast<Seen*>(argument);
  EXPECT_EQ(completion->count, 4096) << completion->message;
  ++seen->calls;
  // A callback may issue I/O and block, but not end what it runs in.
  dafs_completion unused;
  EXPECT_EQ(dafs_group_dispatch(seen->group, OnDone, argument, 0), -EDEADLK);
  EXPECT_EQ(dafs_group_poll(seen->group, &unused, 1), -EDEADLK);
  EXPECT_EQ(dafs_group_close(seen->group), -EBUSY);
  EXPECT_EQ(dafs_session_close(seen->session), -EBUSY);
  char byte;
  EXPECT_EQ(dafs_read(seen->file, &byte, 1, 0), 1);
  if (seen->again-- <= 0) return;
  const dafs_range range = {4096, 4096, 0};
  EXPECT_EQ(dafs_read_async(seen->file, seen->group, &seen->segment, 1, &range, 1, 0, nullptr), 0);
}

TEST_F(DafsTest, CallbackMayCallTheLibrary) {
  MakeLocal("file", std::string(8192, 'x'));
  dafs_file* file = OpenFile("file", 0);
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session_, &group), 0);
  alignas(4096) static char memory[4096];
  uint32_t handle = 0;
  ASSERT_EQ(dafs_register(session_, memory, sizeof(memory), DAFS_FOR_BOTH, &handle), 0);
  Seen seen{session_, group, file, {memory, 4096, handle}, 0, 3};
  const dafs_range range = {0, 4096, 0};
  uint64_t id = 0;
  ASSERT_EQ(dafs_read_async(file, group, &seen.segment, 1, &range, 1, 1, &id), 0) << dafs_error();
  EXPECT_NE(id, 0u);
  EXPECT_EQ(dafs_close(file), -EBUSY);
  EXPECT_EQ(dafs_deregister(session_, handle), -EBUSY);
  EXPECT_EQ(dafs_group_close(group), -EBUSY);
  while (dafs_group_dispatch(group, OnDone, &seen, -1) > 0) continue;
  EXPECT_EQ(seen.calls, 4);
  EXPECT_EQ(dafs_cancel(session_, id), -ESRCH);
  EXPECT_EQ(dafs_deregister(session_, handle), 0);
  EXPECT_EQ(dafs_group_close(group), 0);
}

// Waits for the descriptors with poll(2), as an event loop does. Two groups share a session: the
// completions of one are not lost when the other turns the loop.
TEST_F(DafsTest, DescriptorIsReadableUntilCompletionsAreTaken) {
  MakeLocal("file", std::string(64 << 10, 'y'));
  dafs_file* file = OpenFile("file");
  dafs_group* groups[2] = {};
  pollfd descriptors[2] = {};
  static char memory[2][32 << 10];
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(dafs_group_open(session_, &groups[i]), 0);
    descriptors[i] = {dafs_group_fd(groups[i]), POLLIN, 0};
    ASSERT_GE(descriptors[i].fd, 0);
    EXPECT_EQ(dafs_group_fd(groups[i]), descriptors[i].fd);
  }
  dafs_completion done;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) {
      const dafs_segment segment = {memory[i], 32 << 10, 0};
      const dafs_range range = {0, 32 << 10, 0};
      ASSERT_EQ(dafs_read_async(file, groups[i], &segment, 1, &range, 1, 7, nullptr), 0);
    }
    int taken[2] = {};
    while (taken[0] + taken[1] < 2) {
      ASSERT_GT(poll(descriptors, 2, 30'000), 0) << "lost in round " << round;
      for (int i = 0; i < 2; ++i) {
        if ((descriptors[i].revents & POLLIN) == 0) continue;
        while (dafs_group_poll(groups[i], &done, 1) > 0) {
          ++taken[i];
          EXPECT_EQ(done.count, 32 << 10) << done.message;
          EXPECT_EQ(done.cookie, 7u);
        }
      }
    }
    EXPECT_EQ(taken[0], 1);
  }
  EXPECT_EQ(poll(descriptors, 2, 0), 0) << "nothing is left";
}

TEST_F(DafsTest, SessionEndsWithOutstandingIo) {
  MakeLocal("file", std::string(64 << 10, 'y'));
  static char memory[64 << 10];
  for (const bool with_descriptor : {false, true}) {
    dafs_session* session = Open();
    dafs_file* file = OpenFile("file", 0, session);
    dafs_group* group = nullptr;
    ASSERT_EQ(dafs_group_open(session, &group), 0);
    if (with_descriptor) {
      EXPECT_GE(dafs_group_fd(group), 0);
    }
    const dafs_segment segment = {memory, 64 << 10, 0};
    const dafs_range range = {0, 64 << 10, 0};
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(dafs_read_async(file, group, &segment, 1, &range, 1, 0, nullptr), 0);
    }
    EXPECT_EQ(dafs_group_pending(group), 5);
    EXPECT_EQ(dafs_session_close(session), 0);
    EXPECT_EQ(dafs_group_pending(group), -EBADF);
  }
}

TEST_F(DafsTest, BatchCompletesInItsGroup) {
  MakeLocal("file", std::string(16 << 10, 'z'));
  dafs_file* file = OpenFile("file");
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session_, &group), 0);
  alignas(4096) static char memory[16 << 10];
  uint32_t handle = 0;
  ASSERT_EQ(dafs_register(session_, memory, sizeof(memory), DAFS_FOR_BOTH, &handle), 0);
  dafs_segment segments[4];
  dafs_range ranges[4];
  dafs_batch_io ios[4] = {};
  for (uint32_t i = 0; i < 4; ++i) {
    segments[i] = {memory + i * 4096, 4096, handle};
    ranges[i] = {i * 4096, 4096, 0};
    ios[i] = {file, &segments[i], 1, &ranges[i], 1, i, 0, 0, 0};
  }
  ASSERT_EQ(dafs_batch_submit(group, ios, 4, 0), 0) << dafs_error();
  dafs_completion done;
  int count = 0;
  while (dafs_group_wait(group, &done, 1, 30'000) > 0) {
    EXPECT_EQ(done.count, 4096) << done.message;
    EXPECT_EQ(done.id, ios[done.cookie].id);
    ++count;
  }
  EXPECT_EQ(count, 4);
  EXPECT_EQ(std::string(memory, sizeof(memory)), std::string(16 << 10, 'z'));
  EXPECT_EQ(dafs_expedite(session_, ios[0].id), -ESRCH);
}

// ---- Misuse -------------------------------------------------------------------------------------

TEST_F(DafsTest, NullPointersAreErrors) {
  dafs_options options = SessionOptions();
  dafs_session* session = nullptr;
  EXPECT_EQ(dafs_session_open(nullptr, &session), -EFAULT);
  EXPECT_EQ(dafs_session_open(&options, nullptr), -EFAULT);
  options.server = nullptr;
  EXPECT_EQ(dafs_session_open(&options, &session), -EFAULT);
  EXPECT_EQ(dafs_session_close(nullptr), -EBADF);
  dafs_file* file = nullptr;
  EXPECT_EQ(dafs_open(nullptr, "x", nullptr, &file), -EBADF);
  EXPECT_EQ(dafs_open(session_, nullptr, nullptr, &file), -EFAULT);
  EXPECT_EQ(dafs_open(session_, "x", nullptr, nullptr), -EFAULT);
  EXPECT_EQ(dafs_close(nullptr), -EBADF);
  EXPECT_EQ(dafs_mkdir(session_, nullptr, 0), -EFAULT);
  EXPECT_EQ(dafs_mkdir(session_, "", 0), -EINVAL);
  EXPECT_EQ(dafs_rename(session_, "x", nullptr), -EFAULT);
  EXPECT_EQ(dafs_stat(session_, "", nullptr), -EFAULT);
  EXPECT_EQ(dafs_list_open(session_, "", nullptr), -EFAULT);
  EXPECT_EQ(dafs_list_next(nullptr, nullptr, nullptr), -EBADF);
  EXPECT_EQ(dafs_fence_set(session_, "", DAFS_FENCE_FILE, DAFS_FENCE_ALLOW, DAFS_FENCE_APPEND,
                           nullptr, 1),
            -EFAULT);
  file = OpenFile("file");
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session_, &group), 0);
  EXPECT_EQ(dafs_read(file, nullptr, 1, 0), -EFAULT);
  EXPECT_EQ(dafs_append(file, nullptr, 1), -EFAULT);
  EXPECT_EQ(dafs_lock(file, nullptr), -EFAULT);
  EXPECT_EQ(dafs_fstat(file, nullptr), -EFAULT);
  dafs_segment segment = {nullptr, 1, 0};
  dafs_range range = {0, 1, 0};
  EXPECT_EQ(dafs_read_async(file, group, nullptr, 1, &range, 1, 0, nullptr), -EFAULT);
  EXPECT_EQ(dafs_read_async(file, group, &segment, 1, &range, 1, 0, nullptr), -EFAULT);
  EXPECT_EQ(dafs_read_async(file, nullptr, &segment, 1, &range, 1, 0, nullptr), -EBADF);
  EXPECT_EQ(dafs_batch_submit(group, nullptr, 1, 0), -EFAULT);
  EXPECT_EQ(dafs_group_poll(group, nullptr, 1), -EFAULT);
  EXPECT_EQ(dafs_group_dispatch(group, nullptr, nullptr, 0), -EFAULT);
  EXPECT_EQ(dafs_register(session_, nullptr, 1, DAFS_FOR_READS, nullptr), -EFAULT);
}

TEST_F(DafsTest, ClosedAndForeignHandlesAreErrors) {
  dafs_file* file = OpenFile("file");
  EXPECT_EQ(dafs_close(file), 0);
  dafs_file* next = OpenFile("file");  // takes the slot of the closed one
  char byte = 0;
  EXPECT_EQ(dafs_read(file, &byte, 1, 0), -EBADF);
  EXPECT_EQ(dafs_close(file), -EBADF);
  EXPECT_THAT(dafs_error(), HasSubstr("dafs_close: "));
  EXPECT_EQ(dafs_truncate(reinterpret_cast<dafs_file*>(session_), 0), -EBADF);
  EXPECT_EQ(dafs_close(reinterpret_cast<dafs_file*>(&byte)), -EBADF);
  EXPECT_EQ(dafs_close(reinterpret_cast<dafs_file*>(~uintptr_t{0})), -EBADF);
  dafs_session* other = Open();
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(other, &group), 0);
  const dafs_segment segment = {&byte, 1, 0};
  const dafs_range range = {0, 1, 0};
  EXPECT_EQ(dafs_read_async(next, group, &segment, 1, &range, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(dafs_session_close(other), 0);
  EXPECT_EQ(dafs_group_close(group), -EBADF);  // ended with its session
  EXPECT_EQ(dafs_session_close(other), -EBADF);
  int result = 0;
  std::thread([&] { result = dafs_close(next); }).join();
  EXPECT_EQ(result, -EPERM);
  EXPECT_EQ(dafs_close(next), 0);
}

TEST_F(DafsTest, SizesAreChecked) {
  dafs_file* file = OpenFile("file");
  char byte = 'x';
  EXPECT_EQ(dafs_read(file, &byte, 0, 0), 0);
  EXPECT_EQ(dafs_read(file, &byte, SIZE_MAX, 0), -EINVAL);
  EXPECT_EQ(dafs_write(file, &byte, SIZE_MAX, 0), -EINVAL);
  EXPECT_EQ(dafs_write(file, &byte, 1, UINT64_MAX), -EINVAL);
  EXPECT_EQ(dafs_append(file, &byte, 0), -EINVAL);
  EXPECT_EQ(dafs_append(file, &byte, SIZE_MAX), -EFBIG);
  EXPECT_EQ(dafs_truncate(file, UINT64_MAX), -EFBIG) << dafs_error();
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session_, &group), 0);
  const dafs_segment segment = {&byte, 1, 0};
  dafs_range range = {0, 1, 0};
  EXPECT_EQ(dafs_read_async(file, group, &segment, 0, &range, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(dafs_read_async(file, group, &segment, SIZE_MAX, &range, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(dafs_read_async(file, group, &segment, 1, &range, SIZE_MAX, 0, nullptr), -EINVAL);
  range.size = 2;
  EXPECT_EQ(dafs_read_async(file, group, &segment, 1, &range, 1, 0, nullptr), -EINVAL);
  dafs_batch_io io = {};
  EXPECT_EQ(dafs_batch_submit(group, &io, SIZE_MAX, 0), -EINVAL);
  EXPECT_EQ(dafs_batch_submit(group, &io, 1, 0), -EBADF);
  dafs_completion done;
  EXPECT_EQ(dafs_group_poll(group, &done, 0), -EINVAL);
  EXPECT_EQ(dafs_group_wait(group, &done, SIZE_MAX, -1), 0);  // nothing is outstanding
  EXPECT_EQ(dafs_group_wait(group, &done, 1, -2), -EINVAL);
  uint32_t handle = 0;
  EXPECT_EQ(dafs_register(session_, &byte, 0, DAFS_FOR_READS, &handle), -EINVAL);
  EXPECT_EQ(dafs_register(session_, &byte, SIZE_MAX, DAFS_FOR_READS, &handle), -EINVAL);
  EXPECT_EQ(dafs_deregister(session_, 12345), -EINVAL);
  EXPECT_EQ(dafs_cancel(session_, UINT64_MAX), -ESRCH);
  EXPECT_EQ(dafs_cancel(session_, 0), -ESRCH);
  dafs_range_lock lock = Lock(DAFS_LOCK_WRITE, UINT64_MAX, 5);
  EXPECT_EQ(dafs_lock(file, &lock), -EINVAL);
  lock = Lock(0x80, 0, 0);
  EXPECT_EQ(dafs_lock(file, &lock), -EINVAL);
  const std::string path(1 << 20, 'a');
  EXPECT_EQ(dafs_mkdir(session_, path.c_str(), 0700), -ENAMETOOLONG) << dafs_error();
}

// A structure of another version of the library.
TEST_F(DafsTest, SizeOfStructureIsItsVersion) {
  dafs_options options = SessionOptions();
  dafs_session* session = nullptr;
  for (const size_t size : {size_t{0}, size_t{1}, SIZE_MAX}) {
    options.size = size;
    EXPECT_EQ(dafs_session_open(&options, &session), -EINVAL) << size;
  }
  struct {
    dafs_open_options known;
    uint64_t later;
  } newer = {};
  newer.known.size = sizeof(newer);
  newer.known.flags = DAFS_WRITE | DAFS_CREATE;
  dafs_file* file = nullptr;
  EXPECT_EQ(dafs_open(session_, "file", &newer.known, &file), 0);
  newer.later = 1;
  EXPECT_EQ(dafs_open(session_, "file", &newer.known, &file), -E2BIG);
  dafs_attributes attributes = {};
  attributes.size = offsetof(dafs_attributes, links);  // older
  attributes.links = 77;
  EXPECT_EQ(dafs_stat(session_, "file", &attributes), 0);
  EXPECT_EQ(attributes.links, 77u);
}

// Half a pointer must not be read as one.
TEST_F(DafsTest, SizeThatCutsAPointerIsRefused) {
  dafs_options options = SessionOptions();
  dafs_session* session = nullptr;
  for (size_t size = offsetof(dafs_options, transport); size < sizeof(options); ++size) {
    if (size % sizeof(void*) == 0) continue;
    options.size = size;
    EXPECT_EQ(dafs_session_open(&options, &session), -EINVAL) << size;
  }
}

// An enum as a C program can pass it: of any value. Without `no_sanitize` UBSan would report this
// function instead of the library.
template <class Enum>
__attribute__((no_sanitize("undefined"))) Enum EnumOf(uint32_t number) {
  Enum result;
  std::memcpy(&result, &number, sizeof(result));
  return result;
}

TEST_F(DafsTest, UnknownEnumIsRefused) {
  dafs_file* file = OpenFile("file");
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session_, &group), 0);
  char byte = 'x';
  const char* const id = "node1";
  const dafs_segment segment = {&byte, 1, 0};
  const dafs_range range = {0, 1, 0};
  uint32_t handle = 0;
  for (const uint32_t number : {uint32_t{8}, uint32_t{77}, UINT32_MAX}) {
    EXPECT_EQ(dafs_hint(file, 0, 0, EnumOf<dafs_pattern>(number)), -EINVAL);
    EXPECT_EQ(dafs_register(session_, &byte, 1, EnumOf<dafs_access>(number), &handle), -EINVAL);
    EXPECT_EQ(dafs_write_async(file, group, &segment, 1, &range, 1, EnumOf<dafs_stability>(number),
                               0, nullptr),
              -EINVAL);
    EXPECT_EQ(dafs_write_async(nullptr, group, &segment, 1, &range, 1,
                               EnumOf<dafs_stability>(number), 0, nullptr),
              -EBADF);
    EXPECT_EQ(dafs_fence_set(session_, "file", EnumOf<dafs_fence_object>(number), DAFS_FENCE_ALLOW,
                             DAFS_FENCE_APPEND, &id, 1),
              -EINVAL);
    EXPECT_EQ(dafs_fence_set(session_, "file", DAFS_FENCE_FILE, EnumOf<dafs_fence_access>(number),
                             DAFS_FENCE_APPEND, &id, 1),
              -EINVAL);
    EXPECT_EQ(dafs_fence_set(session_, "file", DAFS_FENCE_FILE, DAFS_FENCE_ALLOW,
                             EnumOf<dafs_fence_update>(number), &id, 1),
              -EINVAL);
  }
}

TEST_F(DafsTest, ServerThatDiesUnderCallIsTimeoutAndComesBack) {
  dafs_session* session = Open(300);
  dafs_file* file = OpenFile("file", DAFS_WRITE | DAFS_CREATE, session);
  dafs_group* group = nullptr;
  ASSERT_EQ(dafs_group_open(session, &group), 0);
  EXPECT_EQ(dafs_write(file, "x", 1, 0), 1);
  server_.reset();
  char byte = 0;
  const dafs_segment segment = {&byte, 1, 0};
  const dafs_range range = {0, 1, 0};
  ASSERT_EQ(dafs_read_async(file, group, &segment, 1, &range, 1, 0, nullptr), 0);
  EXPECT_EQ(dafs_read(file, &byte, 1, 0), -ETIMEDOUT);
  EXPECT_THAT(dafs_error(), HasSubstr(":/data: read 1 at 0 of file: "));
  dafs_completion done;
  ASSERT_EQ(dafs_group_wait(group, &done, 1, 30'000), 1);
  EXPECT_EQ(done.count, -ETIMEDOUT);
  EXPECT_NE(done.message, nullptr);
  EXPECT_EQ(dafs_mkdir(session, "dir", 0700), -ETIMEDOUT);
  StartServer();
  int64_t result = -ETIMEDOUT;
  for (int i = 0; i < 100 && result == -ETIMEDOUT; ++i) result = dafs_read(file, &byte, 1, 0);
  EXPECT_EQ(result, 1) << dafs_error();
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(dafs_session_close(session), 0);
}

TEST_F(DafsTest, UnreachableServerIsError) {
  dafs_options options = SessionOptions();
  options.server = "127.0.0.1:1";
  dafs_session* session = nullptr;
  EXPECT_EQ(dafs_session_open(&options, &session), -ENOTCONN) << dafs_error();
  EXPECT_THAT(dafs_error(), HasSubstr("127.0.0.1:1:/data: open a session: "));
  options.transport = "pigeon";
  EXPECT_EQ(dafs_session_open(&options, &session), -EINVAL);
}

// ---- The library as a file ----------------------------------------------------------------------

TEST(DafsLibraryTest, OnlyFunctionsOfTheHeaderAreExported) {
  FILE* out = popen("nm -D --defined-only " DAFS_LIBRARY, "r");
  ASSERT_NE(out, nullptr);
  char line[512];
  int functions = 0;
  while (fgets(line, sizeof(line), out) != nullptr) {
    const std::string text(line);
    if (text.find(" A LIBDAFS_1") != std::string::npos) continue;
    EXPECT_THAT(text, testing::ContainsRegex(" T dafs_[a-z_]+@@LIBDAFS_1"));
    ++functions;
  }
  pclose(out);
  EXPECT_GE(functions, 45);
}

class DafsExampleTest : public DafsTest {};

// tests/client/c/example.c, compiled by the C compiler.
TEST_F(DafsExampleTest, PrintsFile) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2} << 20, size_t{5'000'001}}) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
    MakeLocal("file", text);
    const std::string out = base_ + "/out";
    EXPECT_EQ(std::system((C_EXAMPLE " " + address_ + " /data file > " + out).c_str()), 0);
    std::ifstream printed(out, std::ios::binary);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(printed), {}) == text) << bytes;
  }
  EXPECT_NE(std::system((C_EXAMPLE " " + address_ + " /data missing 2>/dev/null").c_str()), 0);
}

// docs/library.md, compiled as printed.
TEST_F(DafsExampleTest, FromDocumentWritesFile) {
  EXPECT_EQ(std::system((C_DOC_EXAMPLE " " + address_ + " /data file").c_str()), 0);
  EXPECT_EQ(LocalContent("file"), "hello");
  EXPECT_NE(std::system((C_DOC_EXAMPLE " " + address_ + " /data no/file 2>/dev/null").c_str()), 0);
}

// ---- The Python package (share/python) ----------------------------------------------------------

class DafsPythonTest : public DafsTest {
 protected:
  void SetUp() override {
    DafsTest::SetUp();
    if (IsSkipped()) return;
    if (*SANITIZE != '\0') GTEST_SKIP() << "the interpreter lacks the sanitizer of the library";
    if (std::system(PYTHON " -c 'import cffi' 2>/dev/null") != 0) {
      GTEST_SKIP() << "python3-cffi is missing: scripts/install-packages test";
    }
  }
  int Run(const std::string& arguments) {
    const std::string command =
        "cd " DAFS_SOURCE_DIR
        "/tests/client/c && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" DAFS_SOURCE_DIR
        "/share/python DAFS_LIBRARY=" DAFS_LIBRARY " " PYTHON " -W error ";
    return std::system((command + arguments).c_str());
  }
};

TEST_F(DafsPythonTest, ExampleCopiesFile) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5'000'001}}) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
    MakeLocal("from", text);
    EXPECT_EQ(Run("example.py " + address_ + " /data from to"), 0);
    EXPECT_TRUE(LocalContent("to") == text) << bytes;
  }
  EXPECT_NE(Run("example.py " + address_ + " /data missing to 2>/dev/null"), 0);
}

// docs/library.md, run as printed.
TEST_F(DafsPythonTest, ExampleFromDocumentWritesFile) {
  EXPECT_EQ(Run(PYTHON_DOC_EXAMPLE " " + address_ + " /data file > /dev/null"), 0);
  EXPECT_EQ(LocalContent("file").substr(0, 16), "block 0\nblock 1\n");
}

TEST_F(DafsPythonTest, CallsReturnOrRaise) { EXPECT_EQ(Run("python_test.py " + address_), 0); }

}  // namespace
}  // namespace dafs::client
