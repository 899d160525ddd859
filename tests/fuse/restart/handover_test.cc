#include "fuse/restart/handover.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuse/files/live_files.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/restart/left_data.h"
#include "fuse/restart/live_client.h"
#include "runtime/loop/loop.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::fuse {
namespace {

wire::FileHandle HandleOf(uint8_t number) {
  wire::FileHandle handle;
  handle.fileid.bytes[0] = number;
  return handle;
}

wire::CredHandle CredentialOf(uint8_t number) {
  wire::CredHandle handle;
  handle.bytes[0] = number;
  return handle;
}

template <class Id>
Id IdOf(uint64_t number) {
  return wire::OpaqueFromUint64<Id>(number);
}

wire::FileAttributes Regular(uint64_t file_id) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrObjectType | wire::kFattrFileId | wire::kFattrChange);
  attributes.object_type = wire::ObjectType::kReg;
  attributes.file_id = file_id;
  return attributes;
}

std::unique_ptr<client::Client> NewClient(dat::Provider& provider, const HandoverRecord* record) {
  client::ClientOptions options;
  options.addresses = {dat::Address()};
  options.providers = {&provider};
  options.client_id_string = "a test";
  if (record != nullptr) SetClientOptions(*record, options);
  return *client::Client::Create(options);
}

class HandoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client::Attributes root;
    root.set(wire::kFattrObjectType);
    root.object_type = wire::ObjectType::kDir;
    state_.caches.inodes.SetRoot(HandleOf(0), root);
    client_->root().Found(HandleOf(0));
    node_ = state_.caches.inodes.Remember(HandleOf(1), Regular(11), {kRootNode, "f"});
    state_.caches.inodes.Remember(HandleOf(1), Regular(11), {kRootNode, "f"});
  }

  // An open file with a lock of its own.
  uint64_t Open(uint32_t flags) {
    client::OpenInfo info;
    info.handle = HandleOf(1);
    info.owner = state_.owners.New();
    info.user = user_;
    const auto name = client_->opens().Add(info, IdOf<wire::StateId>(100), client_id_);
    client_->locks().Granted({HandleOf(1), name, 5}, {3, 9, true});
    auto open = std::make_shared<OpenState>();
    open->nodeid = node_;
    open->handle = HandleOf(1);
    open->state_id = name;
    open->flags = flags;
    open->change = 4;
    open->opener = std::make_shared<const client::Identity>(user_);
    open->writes = state_.caches.write_trackers.Of(node_);
    open->opened_by = 1000 + state_.open_files.next();
    return state_.open_files.Add(std::move(open));
  }

  // The mount of the program after a restart.
  struct Next {
    explicit Next(dat::Provider& provider, const HandoverRecord& record)
        : client(NewClient(provider, &record)) {}
    MountState state{Options()};
    std::unique_ptr<client::Client> client;
  };
  std::unique_ptr<Next> Restart() {
    HandoverRecord record;
    SaveMount(state_, *client_, record);
    saved_ = EncodeRecord(record);
    absl::StatusOr<HandoverRecord> read = DecodeRecord(std::as_bytes(std::span(saved_)));
    EXPECT_TRUE(read.ok()) << read.status();
    auto next = std::make_unique<Next>(*provider_, *read);
    const absl::Status restored = RestoreMount(*read, next->state, *next->client);
    EXPECT_TRUE(restored.ok()) << restored;
    return next;
  }

  std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  const client::Identity user_{1000, 100, {7}};
  const wire::ClientId client_id_ = IdOf<wire::ClientId>(9);
  MountState state_{Options()};
  std::unique_ptr<client::Client> client_ = NewClient(*provider_, nullptr);
  uint64_t node_ = 0;
  std::string saved_;
};

TEST_F(HandoverTest, KeepsNodesWithTheirLookups) {
  const std::unique_ptr<Next> next = Restart();
  InodeTable& inodes = next->state.caches.inodes;
  EXPECT_EQ(inodes.GenerationOf(node_), state_.caches.inodes.GenerationOf(node_));
  ASSERT_TRUE(inodes.Find(node_).has_value());
  EXPECT_EQ(inodes.Find(node_)->handle, HandleOf(1));
  EXPECT_EQ(inodes.Find(node_)->file_id, 11u);
  EXPECT_EQ(inodes.LatestDentryOf(node_), (DentryName{kRootNode, "f"}));
  EXPECT_EQ(inodes.Remember(HandleOf(1), Regular(11), {kRootNode, "f"}), node_);
  EXPECT_FALSE(inodes.Forget(node_, 2).has_value());
  EXPECT_TRUE(inodes.Forget(node_, 1).has_value());
  const uint64_t fresh = inodes.Remember(HandleOf(1), Regular(11), {kRootNode, "f"});
  EXPECT_NE(fresh, node_);
}

TEST_F(HandoverTest, KeepsUntilWhenTheKernelMayUseAName) {
  const absl::Time now = Loop::Now();
  const DentryName dentry{kRootNode, "f"};
  state_.caches.inodes.With(
      node_, [&](Inode* inode) { inode->names.Sent(dentry, 5, now + absl::Seconds(60)); });
  const std::unique_ptr<Next> next = Restart();
  next->state.caches.inodes.With(node_, [&](const Inode* inode) {
    ASSERT_NE(inode, nullptr);
    const DentryName* const old = inode->names.NotSeenAt(6, now);
    ASSERT_NE(old, nullptr);
    EXPECT_EQ(*old, dentry);
    EXPECT_EQ(inode->names.NotSeenAt(5, now), nullptr);
    EXPECT_EQ(inode->names.NotSeenAt(6, now + absl::Seconds(61)), nullptr);
    EXPECT_FALSE(inode->names.AnyLost(6, now));
  });
}

// Another name than the latest: which one is not saved, so a change of the node ends its use.
TEST_F(HandoverTest, DistrustsOtherNamesAfterAChange) {
  const absl::Time now = Loop::Now();
  state_.caches.inodes.With(node_, [&](Inode* inode) {
    inode->names.Sent({kRootNode, "f"}, 5, now + absl::Seconds(60));
    inode->names.FoundAt({kRootNode, "g"}, now);
  });
  const std::unique_ptr<Next> next = Restart();
  next->state.caches.inodes.With(node_, [&](const Inode* inode) {
    ASSERT_NE(inode, nullptr);
    EXPECT_EQ(inode->names.latest().name, "g");
    EXPECT_TRUE(inode->names.AnyLost(6, now));
    EXPECT_FALSE(inode->names.AnyLost(6, now + absl::Seconds(61)));
  });
}

TEST_F(HandoverTest, KeepsOpenFilesAndTheirLocks) {
  const uint64_t fh = Open(O_RDWR | O_APPEND);
  const std::unique_ptr<Next> next = Restart();
  const std::shared_ptr<OpenState> open = next->state.open_files.Find(fh);
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->flags, static_cast<uint32_t>(O_RDWR | O_APPEND));
  EXPECT_EQ(open->change, 4u);
  EXPECT_EQ(*open->opener, user_);
  const auto entry = next->client->opens().Find(open->state_id);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->state_id, IdOf<wire::StateId>(100));
  EXPECT_EQ(entry->client_id, client_id_);
  EXPECT_EQ(entry->info->user, user_);
  const auto held = next->client->locks().HeldBy(HandleOf(1), open->state_id);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0], (wire::LockRange{3, 9, true}));
  EXPECT_EQ(next->state.open_files.Add(std::make_shared<OpenState>()), fh + 1);
  EXPECT_NE(next->state.owners.New(), entry->info->owner);
}

TEST_F(HandoverTest, KeepsOwnersOfRecordLocks) {
  const uint64_t fh = Open(O_RDWR);
  LockOwner fresh;
  fresh.nodeid = node_;
  fresh.kernel_owner = 77;
  fresh.number = state_.owners.NewNumber();
  const LockOwnerRef owner = state_.lock_owners.Enter(fresh, fh, 4321);
  state_.lock_owners.Opened(*owner, IdOf<wire::StateId>(1));
  state_.lock_owners.Leave(*owner);
  const std::unique_ptr<Next> next = Restart();
  const LockOwnerRef found = next->state.lock_owners.EnterExisting(node_, 77);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, owner->name);
  EXPECT_EQ(found->state_id, IdOf<wire::StateId>(1));
  EXPECT_EQ(next->state.lock_owners.PidOf(owner->name), 4321u);
  next->state.lock_owners.Leave(*found);
  EXPECT_EQ(next->state.lock_owners.EndHandle(fh).size(), 1u);
}

TEST_F(HandoverTest, KeepsAListingThatOnlyTheMountKnows) {
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->known_here = chunk->eof = true;
  chunk->entries.push_back({.cookie = 3, .name = "n", .attributes = Regular(5)});
  auto directory = std::make_shared<DirectoryState>(
      kRootNode, HandleOf(0), std::make_shared<const client::Identity>(user_));
  directory->SetChunk(chunk, IdOf<wire::Verifier>(6));
  directory->BeginListing();
  const uint64_t fh = state_.open_directories.Add(directory);
  const std::unique_ptr<Next> next = Restart();
  const std::shared_ptr<DirectoryState> open = next->state.open_directories.Find(fh);
  ASSERT_NE(open, nullptr);
  EXPECT_TRUE(open->listed());
  EXPECT_EQ(open->cookieverf(), IdOf<wire::Verifier>(6));
  ASSERT_NE(open->chunk(), nullptr);
  ASSERT_EQ(open->chunk()->entries.size(), 1u);
  EXPECT_TRUE(open->chunk()->known_here);
  EXPECT_EQ(open->chunk()->entries[0].name, "n");
  EXPECT_EQ(open->chunk()->entries[0].cookie, 3u);
}

TEST_F(HandoverTest, IsTheSameClientWithTheSameCredentials) {
  client_->credentials().Insert(client_id_, user_, {}, 8);
  client_->credentials().Insert(client_id_, {1, 1, {}}, {}, 8);
  const absl::Time heard = Loop::Now() - absl::Seconds(1);
  client_->NoteActivity(heard, heard);
  const std::unique_ptr<Next> next = Restart();
  EXPECT_EQ(next->client->options().client_id_string, "a test");
  EXPECT_EQ(next->client->options().client_verifier, client_->options().client_verifier);
  EXPECT_EQ(next->client->options().addresses, client_->options().addresses);
  EXPECT_EQ(next->client->root().Latest(), HandleOf(0));
  EXPECT_EQ(next->client->last_activity(), client_->last_activity());
  EXPECT_TRUE(next->client->credentials().Find(client_id_, user_).has_value());
  EXPECT_EQ(next->client->credentials().size(), 2u);
}

// Each restart saves what the one before has restored.
TEST_F(HandoverTest, SavesWhatItHasRestored) {
  Open(O_RDONLY);
  const std::unique_ptr<Next> next = Restart();
  HandoverRecord again;
  SaveMount(next->state, *next->client, again);
  EXPECT_EQ(EncodeRecord(again), saved_);
}

TEST_F(HandoverTest, RefusesARecordThatContradictsItself) {
  Open(O_RDWR);
  HandoverRecord good;
  SaveMount(state_, *client_, good);
  const auto refused = [&](const HandoverRecord& record) {
    Next next(*provider_, record);
    return absl::IsDataLoss(RestoreMount(record, next.state, *next.client));
  };
  EXPECT_FALSE(refused(good));
  HandoverRecord bad = good;
  bad.next_file = 1;  // would be given again
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.files.push_back(bad.files[0]);
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.opens.push_back(bad.opens[0]);
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.locks[0].ranges[0] = {9, 3, true};
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.inodes.nodes.clear();
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.inodes.next = 1;
  EXPECT_TRUE(refused(bad));
  bad = good;
  for (InodeTable::Saved::Node& node : bad.inodes.nodes) {
    if (node.nodeid != kRootNode) ++node.nodeid;  // the shard of another handle
  }
  EXPECT_TRUE(refused(bad));
}

// The state that another process has after this one was killed.
class KillTest : public HandoverTest {
 protected:
  void SetUp() override {
    live_ = NewLive();
    live_client_ = std::make_unique<LiveClient>(*live_);
    state_.caches.inodes.KeepIn(live_.get());
    state_.live_files = LiveFiles(live_.get());
    state_.lock_owners.RecordIn(state_.live_files);
    client_->RecordIn(live_client_.get());
    HandoverTest::SetUp();
  }
  std::unique_ptr<LiveRecord> NewLive() const {
    return *LiveRecord::Create(LiveDataBytes(state_.options, client_->options()));
  }
  std::unique_ptr<Next> Kill() {
    HandoverRecord record;
    SaveBasis(state_, *client_, record);
    const auto items = LiveRecord::Read(live_->memfd());
    EXPECT_TRUE(items.ok()) << items.status();
    AfterKill(*items, record);
    left_ = record;
    auto next = std::make_unique<Next>(*provider_, record);
    const absl::Status restored = RestoreMount(record, next->state, *next->client);
    EXPECT_TRUE(restored.ok()) << restored;
    return next;
  }
  // As Open, and recorded.
  uint64_t OpenLive(uint32_t flags) {
    const uint64_t fh = Open(flags);
    state_.live_files.Put(fh, *state_.open_files.Find(fh));
    return fh;
  }
  // The opens that the next program closes.
  std::vector<wire::StateId> Closing() const {
    std::vector<wire::StateId> closing;
    for (const HandoverRecord::Open& open : left_.opens) {
      if (open.closing) closing.push_back(open.name);
    }
    return closing;
  }

  std::unique_ptr<LiveRecord> live_;
  std::unique_ptr<LiveClient> live_client_;
  HandoverRecord left_;  // of the last Kill
};

TEST_F(KillTest, KeepsNodesWithTheirLookups) {
  state_.caches.inodes.Remember(HandleOf(2), Regular(12), {kRootNode, "gone"});
  state_.caches.inodes.Forget(state_.caches.inodes.NodeOf(HandleOf(2)), 1);
  const std::unique_ptr<Next> next = Kill();
  InodeTable& inodes = next->state.caches.inodes;
  EXPECT_EQ(inodes.size(), 2u);
  ASSERT_TRUE(inodes.Find(node_).has_value());
  EXPECT_EQ(inodes.Find(node_)->handle, HandleOf(1));
  EXPECT_EQ(inodes.Find(node_)->file_id, 11u);
  EXPECT_EQ(inodes.Find(node_)->type, wire::ObjectType::kReg);
  EXPECT_EQ(inodes.NodeOf(HandleOf(1)), node_);
  inodes.Forget(node_, 1);
  EXPECT_TRUE(inodes.Find(node_).has_value());
  inodes.Forget(node_, 1);
  EXPECT_FALSE(inodes.Find(node_).has_value());
}

TEST_F(KillTest, GivesNoNumberTwice) {
  const uint64_t open = OpenLive(O_RDWR);
  const std::unique_ptr<Next> next = Kill();
  EXPECT_GT(next->state.open_files.Add(std::make_shared<OpenState>()), open);
  const auto name = client_->opens().Add({}, IdOf<wire::StateId>(101), client_id_);
  EXPECT_GT(
      wire::OpaqueToUint64(next->client->opens().Add({}, IdOf<wire::StateId>(101), client_id_)),
      wire::OpaqueToUint64(name));
  EXPECT_GT(next->state.caches.inodes.Remember(HandleOf(3), Regular(13), {kRootNode, "new"}),
            node_);
}

TEST_F(KillTest, IsTheSameClientWithTheSameCredentials) {
  client::Identity many{1000, 100, {}};
  for (uint32_t i = 0; i < 500; ++i) many.groups.push_back(i);
  client_->credentials().Insert(client_id_, user_, CredentialOf(1), 8);
  client_->credentials().Insert(client_id_, many, CredentialOf(2), 8);
  client_->credentials().Insert(client_id_, {1, 1, {}}, CredentialOf(3), 8);
  client_->credentials().Forget(CredentialOf(3));
  const std::unique_ptr<Next> next = Kill();
  EXPECT_EQ(next->client->options().client_id_string, client_->options().client_id_string);
  EXPECT_EQ(next->client->options().client_verifier, client_->options().client_verifier);
  EXPECT_EQ(next->client->credentials().size(), 2u);
  EXPECT_EQ(next->client->credentials().Find(client_id_, many), CredentialOf(2));
}

TEST_F(KillTest, KeepsOpenFilesAndTheirLocks) {
  const uint64_t fh = OpenLive(O_RDWR | O_APPEND);
  const std::unique_ptr<Next> next = Kill();
  const std::shared_ptr<OpenState> open = next->state.open_files.Find(fh);
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->flags, static_cast<uint32_t>(O_RDWR | O_APPEND));
  EXPECT_EQ(*open->opener, user_);
  EXPECT_TRUE(open->writes->ErrorForFsync(open->errors).ok());
  const auto entry = next->client->opens().Find(open->state_id);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->state_id, IdOf<wire::StateId>(100));
  EXPECT_EQ(entry->client_id, client_id_);
  EXPECT_FALSE(entry->closing);
  const auto held = next->client->locks().HeldBy(HandleOf(1), open->state_id);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0], (wire::LockRange{3, 9, true}));
}

TEST_F(KillTest, ClosesWhatTheKernelHasReleased) {
  const uint64_t fh = OpenLive(O_RDWR);
  const std::shared_ptr<OpenState> open = state_.open_files.Remove(fh);
  state_.live_files.End(*open);
  const std::unique_ptr<Next> next = Kill();
  EXPECT_EQ(next->state.open_files.Find(fh), nullptr);
  EXPECT_EQ(Closing(), std::vector<wire::StateId>{open->state_id});
  client_->opens().Remove(open->state_id);
  state_.live_files.Drop(*open);
  Kill();
  EXPECT_TRUE(left_.opens.empty());
}

// The next program is killed before the server has answered its CLOSE.
TEST_F(KillTest, FurtherKillClosesWhatTheKernelHasReleased) {
  client::OpenInfo info;
  info.handle = HandleOf(1);
  info.owner = OwnerNames::OfRequest(6);
  const auto name = client_->opens().Add(info, IdOf<wire::StateId>(5), client_id_);
  auto open = std::make_shared<OpenState>();
  open->handle = HandleOf(1);
  open->state_id = name;
  open->opener = std::make_shared<const client::Identity>(user_);
  state_.live_files.Put(7, *open);
  state_.live_files.End(*open);
  Kill();
  ASSERT_EQ(Closing(), std::vector<wire::StateId>{name});

  Next next(*provider_, left_);
  const std::unique_ptr<LiveRecord> live = NewLive();
  LiveClient live_client(*live);
  next.client->RecordIn(&live_client);
  ASSERT_TRUE(RestoreMount(left_, next.state, *next.client).ok());
  const auto items = LiveRecord::Read(live->memfd());
  ASSERT_TRUE(items.ok()) << items.status();
  left_ = HandoverRecord();
  SaveBasis(next.state, *next.client, left_);
  AfterKill(*items, left_);
  EXPECT_EQ(Closing(), std::vector<wire::StateId>{name});
}

// The kernel sends the OPEN again, and the server has an open of the same owner then.
TEST_F(KillTest, KeepsAnOpenWhoseRequestIsNotAnswered) {
  client::OpenInfo info;
  info.handle = HandleOf(1);
  info.owner = OwnerNames::OfRequest(6);
  const auto asked = client_->opens().Add(info, IdOf<wire::StateId>(5), client_id_);
  info.owner = state_.owners.New();
  const auto other = client_->opens().Add(info, IdOf<wire::StateId>(6), client_id_);
  const std::unique_ptr<Next> next = Kill();
  EXPECT_EQ(Closing(), std::vector<wire::StateId>{other});
  info.owner = OwnerNames::OfRequest(6 | kUniqueResent);
  EXPECT_EQ(next->client->opens().Add(info, IdOf<wire::StateId>(5), client_id_), asked);
}

// The kernel has dropped the request, because its program was killed.
TEST_F(KillTest, ClosesAnOpenWhoseRequestIsNotSentAgain) {
  client::OpenInfo info;
  info.handle = HandleOf(1);
  info.user = user_;
  info.owner = OwnerNames::OfRequest(6);
  const auto dropped = client_->opens().Add(info, IdOf<wire::StateId>(5), client_id_);
  info.owner = OwnerNames::OfRequest(8);
  const auto sent_again = client_->opens().Add(info, IdOf<wire::StateId>(6), client_id_);
  OpenLive(O_RDWR);  // the kernel has its handle
  const std::unique_ptr<Next> next = Kill();
  LeftOpens& left = next->state.left.opens;
  left.WasSentAgain(8);
  left.WasSentAgain(10);  // of this nothing is left
  EXPECT_EQ(left.TakeDropped(), std::vector<wire::StateId>{dropped});
  EXPECT_TRUE(left.Take(6).open.is_zero());
  const LeftOpens::Left again = left.Take(8);
  EXPECT_EQ(again.open, sent_again);
  EXPECT_EQ(again.user, user_);
  EXPECT_TRUE(left.Take(8).open.is_zero());
}

TEST_F(KillTest, KnowsWhatWasOpenedForARequest) {
  const uint64_t fh = OpenLive(O_RDWR);
  const uint64_t request = state_.open_files.Find(fh)->opened_by;
  auto directory = std::make_shared<DirectoryState>(
      kRootNode, HandleOf(0), std::make_shared<const client::Identity>(user_));
  directory->opened_by = 12;
  const uint64_t opened = state_.open_directories.Add(directory);
  state_.live_files.Put(opened, *directory);
  const std::unique_ptr<Next> next = Kill();
  const LeftOpens::Left file = next->state.left.opens.Take(request);
  EXPECT_EQ(file.file, fh);
  EXPECT_TRUE(file.open.is_zero());
  EXPECT_EQ(next->state.left.opens.Take(12).directory, opened);
  EXPECT_EQ(next->state.open_directories.Find(opened)->opened_by, 12u);
}

TEST_F(KillTest, LateErrorIsReportedByFsync) {
  const uint64_t fh = OpenLive(O_RDWR);
  state_.live_files.NoteFailure(*state_.open_files.Find(fh));
  const std::unique_ptr<Next> next = Kill();
  const std::shared_ptr<OpenState> open = next->state.open_files.Find(fh);
  EXPECT_FALSE(open->writes->ErrorForFsync(open->errors).ok());
  EXPECT_TRUE(open->writes->ErrorForFsync(open->errors).ok());
}

// Data that the killed process had accepted, in the record of another process after it.
class KillDataTest : public KillTest {
 protected:
  static wire::Verifier Verifier(uint64_t number) { return IdOf<wire::Verifier>(number); }
  // Data in a write buffer.
  std::span<std::byte> Buffer(const std::string& data) {
    const std::span<std::byte> memory = live_->TakeMemory(data.size()).first(data.size());
    std::memcpy(memory.data(), data.data(), data.size());
    return memory;
  }
  void Write(uint64_t offset, const std::string& data, uint64_t verifier) {
    client::Uncommitted& store = client_->uncommitted();
    ASSERT_TRUE(store.BeginWrite(HandleOf(1)));
    EXPECT_TRUE(store.Add(HandleOf(1), user_, IdOf<wire::StateId>(7), offset,
                          std::as_bytes(std::span(data)), nullptr, Verifier(verifier)));
    store.EndWrite(HandleOf(1));
  }
  bool Commit(uint64_t verifier) {
    client::Uncommitted& store = client_->uncommitted();
    return store.AfterCommit(HandleOf(1), store.BeforeCommit(HandleOf(1)), Verifier(verifier));
  }
  // Kills the process, and then `again` times the one that continues. Returns what the last one
  // writes again to a server whose verifier is `verifier`.
  std::map<uint64_t, std::string> Left(uint64_t verifier, int again = 0) {
    std::unique_ptr<Next> next = Kill();
    for (;;) {
      std::unique_ptr<LiveRecord> live = NewLive();
      auto live_client = std::make_unique<LiveClient>(*live);
      next->client->RecordIn(live_client.get());
      EXPECT_TRUE(RestoreData(left_, live_->memfd(), live.get(), *next->client).ok());
      if (again-- == 0) {
        std::map<uint64_t, std::string> parts = WrittenAgain(next->client->uncommitted(), verifier);
        next.reset();  // before its record
        return parts;
      }
      const auto items = LiveRecord::Read(live->memfd());
      HandoverRecord record;
      SaveBasis(next->state, *next->client, record);
      AfterKill(*items, record);
      EXPECT_EQ(record.kept.size(), left_.kept.size() + left_.pieces.size());
      left_.kept = record.kept;
      left_.kept_files = record.kept_files;
      left_.pieces = record.pieces;
      // A killed process frees nothing.
      killed_.push_back({std::move(live_), std::move(live_client), std::move(next)});
      next = std::make_unique<Next>(*provider_, record);
      live_ = std::move(live);
    }
  }
  struct Killed {
    std::unique_ptr<LiveRecord> live;
    std::unique_ptr<LiveClient> live_client;
    std::unique_ptr<Next> next;
  };
  std::vector<Killed> killed_;

  std::map<uint64_t, std::string> WrittenAgain(client::Uncommitted& store, uint64_t verifier) {
    std::map<uint64_t, std::string> parts;
    if (!store.BeginRewrite(HandleOf(1))) return parts;
    EXPECT_EQ(store.WriterOf(HandleOf(1))->user, user_);
    while (auto piece = store.NextStale(HandleOf(1), Verifier(verifier), 1000)) {
      parts[piece->offset] = {reinterpret_cast<const char*>(piece->data.data()),
                              piece->data.size()};
      store.Rewritten(HandleOf(1), piece->offset, piece->data.size(), Verifier(verifier));
    }
    store.EndRewrite(HandleOf(1));
    return parts;
  }
};
using Parts = std::map<uint64_t, std::string>;

TEST_F(KillDataTest, DataThatWasNotSentIsSent) {
  const uint64_t fh = OpenLive(O_RDWR);
  const std::shared_ptr<OpenState> open = state_.open_files.Find(fh);
  LiveRecord::Slot piece = 0;
  LiveRecord::Slot sent = 0;
  ASSERT_TRUE(state_.live_files.PutPiece(*open, 100, Buffer("behind").first(2), &piece));
  state_.live_files.Lengthen(piece, 6);
  ASSERT_TRUE(state_.live_files.PutPiece(*open, 900, Buffer("sent"), &sent));
  state_.live_files.Drop(sent);
  state_.live_files.End(*open);  // a file that the kernel has released is sent, too
  EXPECT_EQ(Left(1), (Parts{{100, "behind"}}));
}

TEST_F(KillDataTest, DataOutsideOfTheRecordIsNotWrittenBehind) {
  const uint64_t fh = OpenLive(O_RDWR);
  const std::string data = "elsewhere";
  LiveRecord::Slot piece = 0;
  EXPECT_FALSE(state_.live_files.PutPiece(*state_.open_files.Find(fh), 0,
                                          std::as_bytes(std::span(data)), &piece));
}

TEST_F(KillDataTest, UncommittedDataIsWrittenAgainIfTheServerLostIt) {
  Write(0, "lost", 1);
  Write(100, "there", 2);
  EXPECT_EQ(Left(2), (Parts{{0, "lost"}}));
}

TEST_F(KillDataTest, CommittedDataIsNotKept) {
  Write(0, "safe", 1);
  EXPECT_TRUE(Commit(1));
  EXPECT_TRUE(Left(2).empty());
  EXPECT_TRUE(left_.kept.empty() && left_.kept_files.empty());
}

// Each way in which a range changes.
TEST_F(KillDataTest, RangesAreAsTheyWereChangedLast) {
  Write(0, "aaaaaaaaaa", 1);
  Write(10, "bbbb", 1);  // continues it
  Write(3, "cc", 1);     // its middle
  Write(12, "dddd", 1);  // its end
  Write(20, "eeee", 1);
  Write(18, "fff", 1);                                         // the front of another
  client_->uncommitted().Forget(HandleOf(1), 23, UINT64_MAX);  // a truncation
  EXPECT_EQ(Left(2),
            (Parts{{0, "aaa"}, {3, "cc"}, {5, "aaaaabb"}, {12, "dddd"}, {18, "fff"}, {21, "ee"}}));
}

TEST_F(KillDataTest, OutlivesEachFurtherKill) {
  const uint64_t fh = OpenLive(O_RDWR);
  LiveRecord::Slot piece = 0;
  Write(0, "older", 1);
  ASSERT_TRUE(state_.live_files.PutPiece(*state_.open_files.Find(fh), 5, Buffer("behind"), &piece));
  EXPECT_EQ(Left(1, 2), (Parts{{5, "behind"}}));
}

TEST_F(KillDataTest, DataWrittenBehindIsNewerThanKeptData) {
  const uint64_t fh = OpenLive(O_RDWR);
  LiveRecord::Slot piece = 0;
  ASSERT_TRUE(state_.live_files.PutPiece(*state_.open_files.Find(fh), 2, Buffer("new"), &piece));
  Write(0, "older", 1);
  EXPECT_EQ(Left(2), (Parts{{0, "ol"}, {2, "new"}}));
}

TEST_F(KillDataTest, IsKeptWithoutRoomInTheNextRecord) {
  Write(0, "data", 1);
  const std::unique_ptr<Next> with_full_record = Kill();
  const std::unique_ptr<LiveRecord> full = *LiveRecord::Create();
  ASSERT_TRUE(RestoreData(left_, live_->memfd(), full.get(), *with_full_record->client).ok());
  EXPECT_EQ(WrittenAgain(with_full_record->client->uncommitted(), 2), (Parts{{0, "data"}}));
  const std::unique_ptr<Next> without_record = Kill();
  ASSERT_TRUE(RestoreData(left_, live_->memfd(), nullptr, *without_record->client).ok());
  EXPECT_EQ(WrittenAgain(without_record->client->uncommitted(), 2), (Parts{{0, "data"}}));
}

TEST_F(KillDataTest, PlacesThatCannotBeAreRefused) {
  Write(0, "data", 1);
  const std::unique_ptr<Next> next = Kill();
  std::unique_ptr<LiveRecord> live = NewLive();
  for (const auto change : {+[](HandoverRecord::Kept& kept) { kept.place = 0; },
                            +[](HandoverRecord::Kept& kept) { kept.place = ~uint64_t{0}; },
                            +[](HandoverRecord::Kept& kept) { kept.size = 0; },
                            +[](HandoverRecord::Kept& kept) { kept.size = ~uint64_t{0}; },
                            +[](HandoverRecord::Kept& kept) { kept.size = uint64_t{1} << 36; },
                            +[](HandoverRecord::Kept& kept) { kept.offset = ~uint64_t{0}; }}) {
    HandoverRecord bad = left_;
    change(bad.kept.at(0));
    EXPECT_FALSE(RestoreData(bad, live_->memfd(), live.get(), *next->client).ok());
  }
}

TEST_F(KillTest, KeepsOwnersOfRecordLocks) {
  const uint64_t fh = OpenLive(O_RDWR);
  const wire::StateId open = state_.open_files.Find(fh)->state_id;
  LockOwner fresh;
  fresh.nodeid = node_;
  fresh.kernel_owner = 77;
  fresh.number = state_.owners.NewNumber();
  const LockOwnerRef owner = state_.lock_owners.Enter(fresh, fh, 4321);
  state_.lock_owners.Opened(*owner, open);
  std::unique_ptr<Next> next = Kill();
  const LockOwnerRef found = next->state.lock_owners.EnterExisting(node_, 77);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, owner->name);
  EXPECT_EQ(found->state_id, open);
  EXPECT_EQ(next->state.lock_owners.PidOf(owner->name), 4321u);
  EXPECT_EQ(next->state.lock_owners.EndHandle(fh).size(), 1u);
  state_.live_files.End(*state_.open_files.Find(fh));  // the owner ends with it
  next = Kill();
  EXPECT_EQ(next->state.lock_owners.size(), 0u);
  EXPECT_EQ(Closing().size(), 1u);
  state_.lock_owners.End(node_, 77);
  next = Kill();
  EXPECT_EQ(next->state.lock_owners.size(), 0u);
  state_.lock_owners.Closed(*owner);
  // The file is left.
  EXPECT_EQ(LiveFiles::Read(*LiveRecord::Read(live_->memfd())).ended.size(), 1u);
}

TEST_F(KillTest, KeepsAListingThatOnlyTheMountKnows) {
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->known_here = chunk->eof = true;
  for (uint64_t i = 3; i < 1000; ++i) {
    chunk->entries.push_back({.cookie = i, .name = std::to_string(i), .attributes = Regular(i)});
  }
  auto directory = std::make_shared<DirectoryState>(
      kRootNode, HandleOf(0), std::make_shared<const client::Identity>(user_));
  directory->SetChunk(chunk, IdOf<wire::Verifier>(6));
  const uint64_t fh = state_.open_directories.Add(directory);
  state_.live_files.Put(fh, *directory);
  const std::unique_ptr<Next> next = Kill();
  const std::shared_ptr<DirectoryState> open = next->state.open_directories.Find(fh);
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->cookieverf(), IdOf<wire::Verifier>(6));
  ASSERT_NE(open->chunk(), nullptr);
  ASSERT_EQ(open->chunk()->entries.size(), 997u);
  EXPECT_EQ(open->chunk()->entries[996].name, "999");
}

TEST_F(KillTest, ReturnsDelegationsAndKeepsWhatIsOpenUnderThem) {
  client::OpenInfo info;
  info.handle = HandleOf(1);
  info.owner = OwnerNames::OfRequest(8);
  info.share_access = wire::kShareBoth;
  info.user = user_;
  wire::OpenDelegation granted;
  granted.delegation_type = wire::OpenDelegationType::kWrite;
  granted.delegation_state_id = IdOf<wire::StateId>(50);
  const auto used = client_->delegations().Granted(info, granted, client_id_, 1);
  const auto unused = client_->delegations().Granted(info, granted, client_id_, 1);
  client_->locks().Restore({HandleOf(1), used, 3}, {{0, 9, true}}, true);
  auto open = std::make_shared<OpenState>();
  open->nodeid = node_;
  open->handle = HandleOf(1);
  open->state_id = used;
  open->opener = std::make_shared<const client::Identity>(user_);
  open->writes = state_.caches.write_trackers.Of(node_);
  state_.live_files.Put(state_.open_files.Add(open), *open);
  std::unique_ptr<Next> next = Kill();
  client::DelegationReturns& returns = next->client->delegations().returns();
  const auto due = returns.TakeDue();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0]->state_id, IdOf<wire::StateId>(50));
  EXPECT_TRUE(returns.WasWrite(*due[0]));
  EXPECT_EQ(returns.LocalsOf(*due[0]), std::vector<wire::StateId>{used});
  EXPECT_FALSE(next->client->opens().Find(unused).has_value());
  EXPECT_EQ(next->client->locks().LocalOpens(HandleOf(1)), std::vector<wire::StateId>{used});
  client_->delegations().returns().Returned(client_->delegations().LenderOf(used));
  next = Kill();
  EXPECT_EQ(next->client->delegations().returns().TakeDue().size(), 0u);
  EXPECT_TRUE(next->client->opens().Find(used).has_value());
}

// As if any byte of any item had been changed by an attacker who can compute checksums.
TEST_F(KillTest, HostileItemsAreLeftOutOrRefused) {
  OpenLive(O_RDWR);
  client_->credentials().Insert(client_id_, user_, CredentialOf(1), 8);
  const auto items = LiveRecord::Read(live_->memfd());
  ASSERT_TRUE(items.ok());
  HandoverRecord basis;
  SaveBasis(state_, *client_, basis);
  for (size_t item = 0; item < items->size(); ++item) {
    for (size_t at = 0; at < items->at(item).body.size(); ++at) {
      auto changed = *items;
      changed[item].body[at] ^= std::byte{0xff};
      HandoverRecord record = basis;
      AfterKill(changed, record);
      Next next(*provider_, record);
      RestoreMount(record, next.state, *next.client).IgnoreError();
    }
    auto changed = *items;
    changed[item].body.resize(items->at(item).body.size() / 2);
    changed[item].key = 0;
    HandoverRecord record = basis;
    AfterKill(changed, record);
    Next next(*provider_, record);
    RestoreMount(record, next.state, *next.client).IgnoreError();
  }
}

// The second lookup of one thread does not mean that the kernel rejected the first one.
TEST_F(KillTest, DirectoryKeepsItsNode) {
  wire::FileAttributes attributes = Regular(14);
  attributes.object_type = wire::ObjectType::kDir;
  const uint64_t directory =
      state_.caches.inodes.Remember(HandleOf(4), attributes, {kRootNode, "d"});
  const std::unique_ptr<Next> next = Kill();
  const Asker asker = {.thread = 7, .at = Loop::Now()};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(next->state.caches.inodes.Remember(HandleOf(4), attributes, {kRootNode, "d"}, asker),
              directory);
  }
}

}  // namespace
}  // namespace dafs::fuse
