// The ordinary calls of libdafs: names, attributes, open options, locks (client/library/).
#include <set>

#include "client/library/library.h"
#include "tests/client/library/async_fixture.h"

namespace dafs::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using wire::DafsStatus;

// Clients of one export, each with a session, on one loop.
class LibraryCallsTest : public ServerTest {
 protected:
  struct User {
    std::unique_ptr<Library> library;
    std::unique_ptr<ExportSession> session;
    ExportSession* operator->() const { return session.get(); }
  };

  User NewUser(const std::string& name, uint64_t run = 0) {
    if (loop_ == nullptr) loop_ = *Loop::Create();
    LibraryOptions options;
    options.server = server_->bound()[0].address.ToString();
    options.export_path = "/data";
    options.providers = {provider_.get()};
    options.client.client_id_string = name;
    if (run != 0) options.client.client_verifier = wire::OpaqueFromUint64<wire::Verifier>(run);
    options.client.buffers.bytes = size_t{8} << 20;
    options.client.backoff_least = absl::Milliseconds(5);
    User user;
    auto library = Library::Open(std::move(options));
    EXPECT_STATUS_OK(library);
    user.library = *std::move(library);
    auto session = ExportSession::Open(*user.library, *loop_, root_user_);
    EXPECT_STATUS_OK(session);
    if (session.ok()) user.session = *std::move(session);
    return user;
  }
  static FileOptions Writing() {
    FileOptions options;
    options.write = options.create = true;
    return options;
  }
  static DafsStatus CodeOf(const absl::Status& status) { return wire::DafsFromStatus(status); }
};

TEST_F(LibraryCallsTest, NamesAreMadeListedRenamedAndRemoved) {
  const User user = NewUser("one");
  PathCalls& paths = user->paths();
  ASSERT_STATUS_OK(paths.MakeDirectory("dir", 0750));
  ASSERT_STATUS_OK(paths.MakeDirectory("dir/inner"));
  MakeLocal("dir/file", "12345");
  ASSERT_STATUS_OK(paths.MakeSymlink("file", "dir/link"));
  ASSERT_STATUS_OK(paths.Link("dir/file", "dir/second"));
  ASSERT_STATUS_OK(paths.Rename("dir/second", "third"));
  auto listed = paths.List("dir");
  ASSERT_STATUS_OK(listed);
  std::set<std::string> names;
  for (const DirectoryEntry& entry : *listed) {
    names.insert(entry.name);
    if (entry.name == "file") {
      EXPECT_EQ(entry.attributes.object_size, 5u);
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"file", "inner", "link"}));
  auto target = paths.ReadLink("dir/link");
  ASSERT_STATUS_OK(target);
  EXPECT_EQ(*target, "file");
  auto attributes = paths.Stat("third");
  ASSERT_STATUS_OK(attributes);
  EXPECT_EQ(attributes->num_links, 2u);
  EXPECT_EQ(CodeOf(paths.Remove("dir")), DafsStatus::kNotEmpty);
  for (const char* path : {"dir/inner", "dir/file", "dir/link", "dir", "third"}) {
    EXPECT_STATUS_OK(paths.Remove(path));
  }
  listed = paths.List("");
  ASSERT_STATUS_OK(listed);
  EXPECT_TRUE(listed->empty());
}

TEST_F(LibraryCallsTest, ListingOfManyPagesIsComplete) {
  const User user = NewUser("one");
  for (int i = 0; i < 2000; ++i)
    MakeLocal("a rather long name of a file, number " + std::to_string(i), "");
  auto listed = user->paths().List("/");
  ASSERT_STATUS_OK(listed);
  std::set<std::string> names;
  for (const DirectoryEntry& entry : *listed) names.insert(entry.name);
  EXPECT_EQ(listed->size(), 2000u);
  EXPECT_EQ(names.size(), 2000u);
}

TEST_F(LibraryCallsTest, ErrorNamesServerExportCallAndPath) {
  const User user = NewUser("one");
  const std::string name = server_->bound()[0].address.ToString() + ":/data: ";
  EXPECT_THAT(std::string(user->paths().Rename("no/such", "x").message()),
              StartsWith(name + "rename no/such: "));
  EXPECT_THAT(std::string(user->paths().List("nothing").status().message()),
              StartsWith(name + "list nothing: "));
  const absl::Status opened = user->OpenFile("nothing").status();
  EXPECT_THAT(std::string(opened.message()), StartsWith(name + "open nothing: "));
  EXPECT_THAT(std::string(opened.message()), HasSubstr("DAFSERR_NOENT"));
  EXPECT_EQ(CodeOf(opened), DafsStatus::kNoEnt);
  EXPECT_TRUE(absl::IsInvalidArgument(user->paths().MakeDirectory("//")));
}

// VERIFY and NVERIFY (6.5.23, 6.5.37) agree.
TEST_F(LibraryCallsTest, AttributesAreComparedByTheServer) {
  const User user = NewUser("one");
  MakeLocal("file", "12345");
  for (const uint64_t size : {5u, 6u}) {
    wire::FileAttributes attributes;
    attributes.object_size = size;
    attributes.set(wire::kFattrObjectSize);
    auto same = user->paths().Verify("file", attributes);
    ASSERT_STATUS_OK(same);
    EXPECT_EQ(*same, size == 5);
    same = user->paths().NVerify("file", attributes);
    ASSERT_STATUS_OK(same);
    EXPECT_EQ(*same, size == 5);
  }
}

TEST_F(LibraryCallsTest, FileIsTruncatedAndAppendedTo) {
  const User one = NewUser("one"), two = NewUser("two");
  auto first = one->OpenFile("log", Writing()), second = two->OpenFile("log", Writing());
  ASSERT_STATUS_OK(first);
  ASSERT_STATUS_OK(second);
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  auto at = one->Append(**first, bytes("hello "));
  ASSERT_STATUS_OK(at);
  EXPECT_EQ(*at, 0u);
  at = two->Append(**second, bytes("world"));
  ASSERT_STATUS_OK(at);
  EXPECT_EQ(*at, 6u);
  EXPECT_EQ(LocalContent("log"), "hello world");
  EXPECT_TRUE(absl::IsInvalidArgument(one->Append(**first, {}).status()));
  const std::vector<std::byte> much(64 << 20);
  EXPECT_EQ(CodeOf(one->Append(**first, much).status()), DafsStatus::kWriteTooBig);
  EXPECT_STATUS_OK(one->Truncate(**first, 5));
  EXPECT_EQ(LocalContent("log"), "hello");
}

// Shows FAST03-4-20: options at open time.
TEST_F(LibraryCallsTest, OpenKeepsOtherClientsAway) {
  const User one = NewUser("one"), two = NewUser("two");
  FileOptions options = Writing();
  options.pattern = wire::AccessPattern::kSequential;
  options.share_deny = wire::kShareWrite;
  auto file = one->OpenFile("file", options);
  ASSERT_STATUS_OK(file);
  EXPECT_STATUS_OK(two->OpenFile("file"));
  EXPECT_EQ(CodeOf(two->OpenFile("file", Writing()).status()), DafsStatus::kDenied);
  ASSERT_STATUS_OK(one->CloseFile(**file));

  options = Writing();
  options.deny_delete = true;
  file = one->OpenFile("kept", options);
  ASSERT_STATUS_OK(file);
  EXPECT_EQ(CodeOf(two->paths().Remove("kept")), DafsStatus::kDenyDispConflict);
  ASSERT_STATUS_OK(one->CloseFile(**file));
  EXPECT_STATUS_OK(two->paths().Remove("kept"));

  options = Writing();
  options.exclusive = true;
  EXPECT_EQ(CodeOf(two->OpenFile("file", options).status()), DafsStatus::kExist);
}

TEST_F(LibraryCallsTest, ShareKeyIsKeptOverRestartOfServer) {
  const User one = NewUser("one"), two = NewUser("two");
  FileOptions options = Writing();
  options.share_key = 7;
  auto file = one->OpenFile("file", options);
  ASSERT_STATUS_OK(file);
  for (int i = 0; i < 2; ++i) {
    FileOptions other = options;
    other.share_key = 8;
    EXPECT_EQ(CodeOf(two->OpenFile("file", other).status()), DafsStatus::kKeyMismatch) << i;
    if (i > 0) break;
    server_.reset();
    StartServer();
    EXPECT_STATUS_OK(one->Stat(**file));
  }
  auto second = two->OpenFile("file", options);
  ASSERT_STATUS_OK(second);
  EXPECT_STATUS_OK(two->CloseFile(**second));
  EXPECT_STATUS_OK(one->CloseFile(**file));
}

TEST_F(LibraryCallsTest, FileWithoutNameDisappearsWithItsClose) {
  const User user = NewUser("one");
  ASSERT_STATUS_OK(user->paths().MakeDirectory("dir"));
  FileOptions options;
  options.write = options.unlinked = true;
  auto file = user->OpenFile("dir", options);
  if (absl::IsUnimplemented(file.status())) GTEST_SKIP() << file.status();
  ASSERT_STATUS_OK(file);
  std::byte data[3] = {};
  EXPECT_STATUS_OK(user->Write(**file, {data, 3, {}}, 0));
  auto listed = user->paths().List("dir");
  ASSERT_STATUS_OK(listed);
  EXPECT_TRUE(listed->empty());
  EXPECT_STATUS_OK(user->CloseFile(**file));
}

TEST_F(LibraryCallsTest, LocksExcludeOtherFilesUntilReleased) {
  const User one = NewUser("one"), two = NewUser("two");
  auto first = one->OpenFile("file", Writing()), second = two->OpenFile("file", Writing());
  ASSERT_STATUS_OK(first);
  ASSERT_STATUS_OK(second);
  const FileLock lock{.offset = 10, .length = 10, .options = {}};
  auto outcome = one->locks().Lock(**first, lock);
  ASSERT_STATUS_OK(outcome);
  EXPECT_EQ(*outcome, LockOutcome::kGranted);
  outcome = two->locks().Lock(**second, lock, absl::Milliseconds(20));
  ASSERT_STATUS_OK(outcome);
  EXPECT_EQ(*outcome, LockOutcome::kDenied);
  auto conflict = two->locks().Test(**second, {.options = {}});
  ASSERT_STATUS_OK(conflict);
  ASSERT_TRUE(conflict->has_value());
  EXPECT_EQ((*conflict)->range, (wire::LockRange{10, 19, true}));
  EXPECT_STATUS_OK(one->locks().Abort(**first, lock));  // nothing to undo; the lock stays
  outcome = two->locks().Lock(**second, lock);
  ASSERT_STATUS_OK(outcome);
  EXPECT_EQ(*outcome, LockOutcome::kDenied);
  ASSERT_STATUS_OK(one->locks().Unlock(**first, 0, wire::kLockToEnd));
  outcome = two->locks().Lock(**second, lock);
  ASSERT_STATUS_OK(outcome);
  EXPECT_EQ(*outcome, LockOutcome::kGranted);
  for (const auto& [offset, length] :
       {std::pair<uint64_t, uint64_t>{0, 0}, {5, UINT64_MAX - 1}, {UINT64_MAX, 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        two->locks().Lock(**second, {.offset = offset, .length = length, .options = {}}).status()))
        << offset;
  }
}

// 4.4.1.3: another run of the same client is the end of the first one.
TEST_F(LibraryCallsTest, PersistentLockIsBrokenAfterItsClientAndCanBeRepaired) {
  const User other = NewUser("other");
  auto second = other->OpenFile("file", Writing());
  ASSERT_STATUS_OK(second);
  FileLock lock{.offset = 0, .length = 100, .options = {.persist = true}};
  {
    const User failing = NewUser("failing", 1);
    auto first = failing->OpenFile("file", Writing());
    ASSERT_STATUS_OK(first);
    auto outcome = failing->locks().Lock(**first, lock);
    ASSERT_STATUS_OK(outcome);
    ASSERT_EQ(*outcome, LockOutcome::kGranted);
    const User again = NewUser("failing", 2);
    const absl::Status broken = other->locks().Lock(**second, lock).status();
    EXPECT_EQ(CodeOf(broken), DafsStatus::kLockBroken);
    EXPECT_THAT(std::string(broken.message()), HasSubstr("lock file: lock: bytes 0 to 99 of '"));
  }
  lock.options.repair = true;
  auto repaired = other->locks().Lock(**second, lock);
  ASSERT_STATUS_OK(repaired);
  EXPECT_EQ(*repaired, LockOutcome::kGranted);
  EXPECT_STATUS_OK(other->locks().Unlock(**second, 0, 100));
  lock.options.repair = false;
  EXPECT_STATUS_OK(other->locks().Lock(**second, lock));
}

// Shows DAFS-4.4.1.4-05, DAFS-4.4.1.4-08.
TEST_F(LibraryCallsTest, ChangesUnderAnAutoRecoveryLockCanBeUndone) {
  MakeLocal("file", "0123456789");
  const User user = NewUser("one");
  auto file = user->OpenFile("file", Writing());
  ASSERT_STATUS_OK(file);
  auto outcome = user->locks().Lock(**file, {.options = {.auto_recovery = true}});
  ASSERT_STATUS_OK(outcome);
  ASSERT_EQ(*outcome, LockOutcome::kGranted);
  EXPECT_STATUS_OK(user->Truncate(**file, 2));
  EXPECT_EQ(LocalContent("file"), "01");
  EXPECT_STATUS_OK(user->locks().Abort(**file, {.options = {}}));
  EXPECT_EQ(LocalContent("file"), "0123456789");
  EXPECT_STATUS_OK(user->Truncate(**file, 3));
  EXPECT_STATUS_OK(user->locks().Unlock(**file, 0, wire::kLockToEnd));
  EXPECT_EQ(LocalContent("file"), "012");
  EXPECT_STATUS_OK(user->CloseFile(**file));
}

}  // namespace
}  // namespace dafs::client
