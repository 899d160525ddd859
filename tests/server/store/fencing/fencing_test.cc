// Fencing lists: the rules of their changes, their persistence, and the wait for accesses under
// way.
#include "server/store/fencing/fencing.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;
using wire::FenceAccess;
using wire::FenceUpdate;

FenceChange Change(FenceAccess access, FenceUpdate update, std::vector<std::string> ids) {
  return {access, update, std::move(ids)};
}
FenceChange Init(std::vector<std::string> ids) {
  return Change(FenceAccess::kAllow, FenceUpdate::kOverwrite, std::move(ids));
}
FenceChange Allow(std::vector<std::string> ids) {
  return Change(FenceAccess::kAllow, FenceUpdate::kAppend, std::move(ids));
}
FenceChange Deny(std::vector<std::string> ids) {
  return Change(FenceAccess::kDeny, FenceUpdate::kRemove, std::move(ids));
}

// Shows DAFS-6.4.2-02, DAFS-6.4.2-03, DAFS-6.4.2-04, DAFS-4.4.4.3-01, DAFS-4.4.4.3-03,
// DAFS-4.4.4.3-04; R75.
TEST(FenceListTest, ChangesFollowTheTableOfTheProcedure) {
  FenceList list;
  EXPECT_TRUE(Admits(list, "a"));
  EXPECT_TRUE(Admits(list, ""));
  EXPECT_EQ(Apply(Allow({"b", "a", "b"}), &list), DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"a", "b"}));
  EXPECT_TRUE(Admits(list, "a"));
  EXPECT_FALSE(Admits(list, "c"));
  EXPECT_FALSE(Admits(list, ""));
  EXPECT_EQ(Apply(Allow({"c"}), &list), DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"a", "b", "c"}));
  EXPECT_EQ(Apply(Deny({"b", "x"}), &list), DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"a", "c"}));
  EXPECT_EQ(Apply(Change(FenceAccess::kDeny, FenceUpdate::kAppend, {"c"}), &list), DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"a"}));
  EXPECT_EQ(Apply(Init({"d", "e"}), &list), DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"d", "e"}));
  EXPECT_EQ(Apply(Change(FenceAccess::kAllow, FenceUpdate::kRemove, {"e"}), &list),
            DafsStatus::kOk);
  EXPECT_EQ(list, (FenceList{"d"}));
  EXPECT_EQ(Apply(Init({}), &list), DafsStatus::kOk);
  EXPECT_TRUE(list.empty());
}

TEST(FenceListTest, ARefusedChangeLeavesTheListAsItWas) {
  FenceList list{"a"};
  const FenceList before = list;
  EXPECT_EQ(Apply(Change(FenceAccess::kDeny, FenceUpdate::kOverwrite, {"b"}), &list),
            DafsStatus::kInval);
  EXPECT_EQ(Apply(Deny({"a"}), &list), DafsStatus::kInval);  // would admit every session
  EXPECT_EQ(Apply(Change(FenceAccess::kAllow, FenceUpdate::kRemove, {"a"}), &list),
            DafsStatus::kInval);
  EXPECT_EQ(Apply(Allow({""}), &list), DafsStatus::kInval);
  std::vector<std::string> many;
  for (size_t i = 0; i < wire::kFenceIdsMax; ++i) many.push_back("n" + std::to_string(i));
  EXPECT_EQ(Apply(Allow(many), &list), DafsStatus::kInval);
  EXPECT_EQ(list, before);
  EXPECT_EQ(Apply(Init(many), &list), DafsStatus::kOk);
  FenceList none;
  EXPECT_EQ(Apply(Deny({"a"}), &none), DafsStatus::kInval);
  EXPECT_EQ(Apply(Deny({}), &none), DafsStatus::kOk);
}

class FencingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dafs-fencing-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    Reopen();
  }
  void TearDown() override {
    fencing_.reset();
    database_.reset();
    std::filesystem::remove_all(directory_);
  }

  // As the next instance of the server.
  void Reopen() {
    fencing_.reset();
    database_ = std::make_unique<Database>(directory_);
    fencing_ = std::make_unique<Fencing>(*database_);
    const absl::Status status = fencing_->Load();
    ASSERT_TRUE(status.ok()) << status;
  }

  static ObjectKey File(uint8_t file_system, uint8_t number) {
    wire::FsHandle fshandle;
    fshandle.bytes.fill(file_system);
    const uint8_t bytes[4] = {number, 0, 0, 0};
    return MakeKey(fshandle, HandleKind::kFile, 1, bytes);
  }
  static FencedObject FileSystemOf(const ObjectKey& key) {
    return FencedObject::FileSystem(key.fshandle());
  }

  std::string directory_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Fencing> fencing_;
  const ObjectKey f_ = File(1, 1), g_ = File(1, 2), elsewhere_ = File(2, 1);
};

// Shows DAFS-4.4.4.2-01, DAFS-6.4.2-05, FAST03-3.2-04.
TEST_F(FencingTest, TheListsOfTheFileAndOfItsFileSystemMustBothAdmit) {
  EXPECT_FALSE(fencing_->any());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/locks.db"));
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({"a", "b"})), DafsStatus::kOk);
  EXPECT_TRUE(fencing_->any());
  EXPECT_TRUE(fencing_->Admits("a", f_));
  EXPECT_FALSE(fencing_->Admits("c", f_));
  EXPECT_TRUE(fencing_->Admits("c", g_));
  ASSERT_EQ(fencing_->Set(FileSystemOf(f_), Init({"b", "c"})), DafsStatus::kOk);
  EXPECT_FALSE(fencing_->Admits("a", f_));
  EXPECT_TRUE(fencing_->Admits("b", f_));
  EXPECT_FALSE(fencing_->Admits("c", f_));
  EXPECT_TRUE(fencing_->Admits("c", g_));
  EXPECT_FALSE(fencing_->Admits("a", g_));
  EXPECT_FALSE(fencing_->Admits("", g_));
  EXPECT_TRUE(fencing_->Admits("a", elsewhere_));
  EXPECT_TRUE(fencing_->Admits("", elsewhere_));
}

// Shows DAFS-4.4.4.3-02.
TEST_F(FencingTest, ListsAreKeptForTheNextInstance) {
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({"b", "a", "\xc3\xbc"})), DafsStatus::kOk);
  ASSERT_EQ(fencing_->Set(FencedObject::File(g_), Init({"a"})), DafsStatus::kOk);
  ASSERT_EQ(fencing_->Set(FileSystemOf(f_), Init({"a", "b"})), DafsStatus::kOk);
  ASSERT_EQ(fencing_->Set(FileSystemOf(f_), Deny({"b"})), DafsStatus::kOk);
  ASSERT_EQ(fencing_->Set(FencedObject::File(g_), Init({})), DafsStatus::kOk);
  Reopen();
  EXPECT_TRUE(fencing_->any());
  EXPECT_EQ(fencing_->Get(FencedObject::File(f_)), (FenceList{"a", "b", "\xc3\xbc"}));
  EXPECT_EQ(fencing_->Get(FencedObject::File(g_)), FenceList());
  EXPECT_EQ(fencing_->Get(FileSystemOf(g_)), (FenceList{"a"}));
  ASSERT_EQ(fencing_->Set(FileSystemOf(f_), Init({})), DafsStatus::kOk);
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({})), DafsStatus::kOk);
  EXPECT_FALSE(fencing_->any());
  Reopen();
  EXPECT_FALSE(fencing_->any());
}

TEST_F(FencingTest, ADatabaseThatCannotBeReadIsRefusedWithTheRemedy) {
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({"a"})), DafsStatus::kOk);
  struct stat st;
  ASSERT_EQ(stat((directory_ + "/locks.db").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  fencing_.reset();
  database_.reset();
  for (const char* suffix : {"-wal", "-shm"})
    std::filesystem::remove(directory_ + "/locks.db" + suffix);
  std::ofstream(directory_ + "/locks.db")
      << "this is not a database, but it is as long as a header of "
         "one: a hundred bytes and some more.................";
  Database damaged(directory_);
  Fencing fencing(damaged);
  const absl::Status status = fencing.Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("locks.db"), std::string::npos) << status;
  EXPECT_NE(status.message().find("restore it from a backup"), std::string::npos) << status;
}

TEST_F(FencingTest, ADatabaseOfALaterVersionIsRefused) {
  ASSERT_TRUE(database_
                  ->Transact([](sqlite3* connection) {
                    return Database::Statement(connection, "PRAGMA user_version=1000").Run();
                  })
                  .ok());
  Database later(directory_);
  const absl::StatusOr<bool> opened = later.OpenExisting();
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(opened.status().message().find("later dafsd"), std::string::npos) << opened.status();
}

TEST_F(FencingTest, AChangeThatCannotBeStoredChangesNothing) {
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({"a", "b"})), DafsStatus::kOk);
  ASSERT_TRUE(database_
                  ->Transact([](sqlite3* connection) {
                    return Database::Statement(connection, "DROP TABLE fence").Run();
                  })
                  .ok());
  EXPECT_EQ(fencing_->Set(FencedObject::File(f_), Deny({"b"})), DafsStatus::kServerFault);
  EXPECT_TRUE(fencing_->Admits("b", f_));
}

TEST_F(FencingTest, AChangeThatFindsNoSpaceChangesNothing) {
  if (geteuid() != 0 || mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=128k") != 0) {
    GTEST_SKIP() << "needs root: mounts a tmpfs";
  }
  Reopen();
  ASSERT_EQ(fencing_->Set(FencedObject::File(f_), Init({"a", "b"})), DafsStatus::kOk);
  std::ofstream(directory_ + "/filler") << std::string(1 << 20, 'x');
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back(std::string(100, 'n') + std::to_string(i));
  testing::internal::CaptureStderr();
  EXPECT_EQ(fencing_->Set(FencedObject::File(f_), Allow(many)), DafsStatus::kResource);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("locks.db"), std::string::npos) << log;
  EXPECT_NE(log.find("free some space"), std::string::npos) << log;
  EXPECT_EQ(log.find("remove it"), std::string::npos) << log;  // that would fence off none
  EXPECT_EQ(fencing_->Get(FencedObject::File(f_)), (FenceList{"a", "b"}));
  fencing_.reset();
  database_.reset();
  EXPECT_EQ(umount(directory_.c_str()), 0);
}

// Shows DAFS-4.4.4.4-04.
TEST_F(FencingTest, ADrainWaitsForTheAccessesThatHaveBegun) {
  const auto client = wire::OpaqueFromUint64<wire::ClientId>(1);
  FencedSessions& sessions = fencing_->sessions();
  FencedSession one(sessions, client, "a"), two(sessions, client, "a"),
      other(sessions, client, "b");
  const std::vector<std::string> ids = {"a", "x"};
  int drained = 0;
  const auto count = [&drained] { ++drained; };
  sessions.Drain(ids, count);
  EXPECT_EQ(drained, 1);
  auto first = std::make_unique<FencedSession::Access>(&one);
  auto second = std::make_unique<FencedSession::Access>(&one);
  auto third = std::make_unique<FencedSession::Access>(&two);
  const FencedSession::Access of_other(&other);
  const FencedSession::Access of_none(nullptr);
  sessions.Drain(ids, count);
  auto later = std::make_unique<FencedSession::Access>(&one);  // not awaited
  first.reset();
  third.reset();
  EXPECT_EQ(drained, 1);
  second.reset();
  EXPECT_EQ(drained, 2);
  sessions.Drain(ids, count);
  EXPECT_EQ(drained, 2);
  later.reset();
  EXPECT_EQ(drained, 3);
}

TEST_F(FencingTest, SessionsAreFoundByTheirClient) {
  const auto client = wire::OpaqueFromUint64<wire::ClientId>(1);
  FencedSessions& sessions = fencing_->sessions();
  {
    const FencedSession one(sessions, client, "a"), two(sessions, client, "b");
    EXPECT_EQ(sessions.IdsOf(client), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(sessions.IdsOf(wire::OpaqueFromUint64<wire::ClientId>(2)).empty());
  }
  EXPECT_TRUE(sessions.IdsOf(client).empty());
}

}  // namespace
}  // namespace dafs::server
