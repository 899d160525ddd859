// READDIR, and several threads with concurrent operations.
#include <sys/xattr.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "server/store/attributes/posix_acl.h"
#include "tests/server/files_in.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::ObjectType;

class StoreReaddirTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  void MakeFiles(int count) {
    Store::RestoreServerIdentity();
    for (int i = 0; i < count; ++i) {
      const int fd = open(Path("a/" + Name(i)).c_str(), O_CREAT | O_WRONLY, 0644);
      ASSERT_GE(fd, 0);
      close(fd);
    }
  }
  static std::string Name(int i) { return "file-" + std::to_string(i); }
};

// Shows DAFS-6.5.29-01, DAFS-6.5.29-07, DAFS-6.5.29-12, DAFS-6.5.29-13
TEST_F(StoreReaddirTest, PagesOfAnySizeReturnEveryEntryOnce) {
  MakeFiles(500);
  for (size_t page : {1u, 7u, 1000u}) {
    std::set<std::string> seen;
    std::set<uint64_t> cookies;
    uint64_t cookie = 0;
    ReaddirResult res;
    for (int calls = 0; !res.eof && calls < 1000; ++calls) {
      std::vector<Entry> entries;
      ASSERT_OK(List(user_, A(), cookie, page, &entries, &res));
      for (const Entry& entry : entries) {
        EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
        EXPECT_TRUE(cookies.insert(entry.cookie).second);
        EXPECT_GT(entry.cookie, 2u);
        cookie = entry.cookie;
      }
    }
    EXPECT_EQ(seen.size(), 500u);
    EXPECT_FALSE(seen.contains("."));
    EXPECT_FALSE(seen.contains(".."));
  }
}

// A listing and GETATTR return the same CHANGE for a file. Otherwise a client would assume that the
// file has changed.
TEST_F(StoreReaddirTest, ChangeInListingMatchesGetattr) {
  MakeFiles(3);
  std::vector<Entry> entries;
  ReaddirResult res;
  ASSERT_OK(List(user_, A(), 0, 100, &entries, &res, wire::kFattrChange | wire::kFattrFilehandle));
  ASSERT_EQ(entries.size(), 3u);
  for (const Entry& entry : entries) {
    ASSERT_TRUE(entry.attributes.has(wire::kFattrChange));
    EXPECT_EQ(entry.attributes.change, Attributes(entry.attributes.filehandle).change);
  }
}

// Shows DAFS-6.5.29-08, DAFS-6.5.29-14: entries that stay are listed exactly once, while others are
// removed and added.
TEST_F(StoreReaddirTest, ListingsSurviveRemovalsAndRestarts) {
  constexpr int kFiles = 10000;
  MakeFiles(kFiles);
  std::atomic<bool> done = false;
  std::thread remover([&] {
    for (int i = 1; i < kFiles && !done; i += 2) {
      EXPECT_OK(Remove(root_, A(), Name(i)));
      if (i % 5 == 0) MustOpen(root_, CreateArgs(A(), "new-" + std::to_string(i)));
    }
  });
  std::set<std::string> seen;
  uint64_t cookie = 0;
  ReaddirResult res;
  for (int calls = 0; !res.eof && calls < kFiles; ++calls) {
    std::vector<Entry> entries;
    if (List(user_, A(), cookie, 97, &entries, &res) != DafsStatus::kOk) break;
    for (const Entry& entry : entries) {
      EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
      cookie = entry.cookie;
    }
  }
  done = true;
  remover.join();
  EXPECT_TRUE(res.eof);
  for (int i = 0; i < kFiles; i += 2) EXPECT_TRUE(seen.contains(Name(i))) << i;

  std::vector<Entry> before, after;
  ASSERT_OK(List(user_, A(), 0, 100, &before, &res));
  Start();
  ASSERT_OK(List(user_, A(), before[49].cookie, 50, &after, &res));
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(after[i].name, before[50 + i].name);
}

// Shows DAFS-6.5.29-04, DAFS-6.5.29-06, DAFS-6.5.29-14 (a stale cookie), DAFS-6.5.29-15
TEST_F(StoreReaddirTest, BoundsApplyAndErrorsAreReported) {
  MakeFiles(10);
  std::vector<Entry> entries;
  ReaddirResult res;
  EXPECT_DAFS(kReaddirNoSpc, List(user_, A(), 0, 0, &entries, &res));
  EXPECT_DAFS(kNotDir, List(user_, Handle({"a", Name(0)}), 0, 1, &entries, &res));
  ASSERT_OK(List(user_, A(), 0, 3, &entries, &res));
  EXPECT_FALSE(res.eof);
  EXPECT_DAFS(kBadCookie, List(user_, A(), 1, 3, &entries, &res));
  EXPECT_DAFS(kBadCookie, List(user_, A(), 2, 3, &entries, &res));
  cookieverf_.bytes[3] ^= 1;
  EXPECT_DAFS(kBadCookie, List(user_, A(), entries[1].cookie, 3, &entries, &res));
  ReaddirRequest request;
  request.filehandle = A();
  request.dircount = 30;  // slightly more than two names of six bytes and their cookies
  size_t count = 0;
  ASSERT_OK(store_->names().Readdir(
      user_, request, [&](uint64_t, std::string_view, wire::FileAttributes&) { return ++count; },
      &res));
  EXPECT_EQ(count, 3u);
  ASSERT_OK(Create(user_, A(), "empty", ObjectType::kDir));
  entries.clear();
  const wire::FileHandle empty = Handle({"a", "empty"});
  ASSERT_OK(List(user_, empty, 0, 0, &entries, &res));
  EXPECT_TRUE(res.eof);
  std::filesystem::remove(Path("a/empty"));  // as a program on the server does
  EXPECT_DAFS(kStale, List(user_, empty, 0, 0, &entries, &res));
}

// Shows DAFS-6.1.5-19, DAFS-6.5.29-07
TEST_F(StoreReaddirTest, AttributesOfEntriesMatchGetattr) {
  MakeFiles(3);
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir));
  ASSERT_OK(Create(root_, A(), "l", ObjectType::kLnk));
  PosixAcl acl = AclFromMode(0750);
  acl.entries.insert(acl.entries.begin() + 1, {AclTag::kUser, 7, 1000});
  acl.entries.insert(acl.entries.begin() + 3, {AclTag::kMask, 7, 0});
  const std::string value = EncodeAcl(acl);
  Store::RestoreServerIdentity();
  ASSERT_EQ(setxattr(Path("a/file-0").c_str(), kAccessAclXattr, value.data(), value.size(), 0), 0);
  ASSERT_EQ(setxattr(Path("a/d").c_str(), kDefaultAclXattr, value.data(), value.size(), 0), 0);
  for (int round = 0; round < 2; ++round) {  // cached and not
    for (uint64_t bitmap :
         {wire::kFattrAll & ~wire::kFattrNamedAttr, wire::kFattrAll,
          wire::kFattrObjectType | wire::kFattrFileId, wire::kFattrObjectSize | wire::kFattrMode,
          wire::kFattrAcl | wire::kFattrMode, wire::kFattrNamedAttr}) {
      std::vector<Entry> entries;
      ReaddirResult res;
      ASSERT_OK(List(user_, A(), 0, 100, &entries, &res, bitmap));
      EXPECT_EQ(entries.size(), 5u);
      for (const Entry& entry : entries) {
        const wire::FileAttributes expected = Attributes(Handle({"a", entry.name}), bitmap);
        EXPECT_EQ(entry.attributes.included, bitmap);
        EXPECT_EQ(entry.attributes.valid, expected.valid);
        wire::FileAttributes wanted = entry.attributes;
        wanted.included = wanted.valid;
        EXPECT_OK(store_->attributes().Verify(root_, Handle({"a", entry.name}), wanted))
            << entry.name;
        if ((bitmap & wire::kFattrAcl) == 0) continue;
        const size_t aces = entry.name == "file-0" ? 4 : entry.name == "d" ? 7 : 3;
        EXPECT_EQ(entry.attributes.acl.size(), entry.name == "l" ? 0 : aces) << entry.name;
      }
      EXPECT_EQ(std::filesystem::current_path(), "/") << "no export is kept busy";
    }
    Start();
  }
}

// The ACL has more entries than a message may have. All other attributes are returned.
TEST_F(StoreReaddirTest, AclTooLargeForMessageIsNotValid) {
  char memory[] = "/dev/shm/dafs-store-XXXXXX";  // others may not store this ACL
  if (mkdtemp(memory) == nullptr) GTEST_SKIP() << "no /dev/shm";
  exports_[0].directory = memory;
  Start();
  PosixAcl acl = AclFromMode(0640);
  acl.entries.insert(acl.entries.begin() + 2, {AclTag::kMask, 7, 0});
  for (uint32_t user = 1; user <= 600; ++user) {  // each is denied something, and allowed the rest
    acl.entries.insert(acl.entries.begin() + user, {AclTag::kUser, 0, user});
  }
  const std::string value = EncodeAcl(acl);
  for (const char* name : {"large", "plain"}) {
    const std::string path = std::string(memory) + "/" + name;
    std::ofstream file(path);
    if (name != std::string("large")) continue;
    EXPECT_EQ(setxattr(path.c_str(), kAccessAclXattr, value.data(), value.size(), 0), 0);
  }
  for (int round = 0; round < 2; ++round) {  // not cached, cached
    std::vector<Entry> entries;
    ReaddirResult res;
    const uint64_t bitmap = wire::kFattrMode | wire::kFattrFilehandle | wire::kFattrAcl;
    EXPECT_OK(List(root_, A(), 0, 100, &entries, &res, bitmap));
    EXPECT_EQ(entries.size(), 2u);
    for (const Entry& entry : entries) {
      const bool large = entry.name == "large";
      EXPECT_EQ(entry.attributes.valid, large ? bitmap & ~wire::kFattrAcl : bitmap) << entry.name;
    }
    wire::FileAttributes attributes;
    EXPECT_DAFS(kNotSupp,
                store_->attributes().Getattr(root_, Handle({"a", "large"}), bitmap, &attributes));
  }
  store_.reset();
  Store::RestoreServerIdentity();
  std::filesystem::remove_all(memory);
}

// Shows DAFS-6.1.6-06, DAFS-6.5.29-11: a directory that may be read but not searched returns only
// names. No attribute of the entries gives the reason (R36); the attribute of the file system does.
TEST_F(StoreReaddirTest, UnreadableAttributesAreNotValid) {
  MakeFiles(2);
  Store::RestoreServerIdentity();
  chmod(Path("a").c_str(), 0744);
  std::vector<Entry> entries;
  ReaddirResult res;
  ASSERT_OK(List(user_, A(), 0, 100, &entries, &res, wire::kFattrAll));
  EXPECT_EQ(entries.size(), 2u);
  for (const Entry& entry : entries) {
    EXPECT_EQ(entry.attributes.included, wire::kFattrAll);
    EXPECT_EQ(entry.attributes.valid, 0u);
  }
  wire::FsAttributes fs;
  ASSERT_OK(store_->attributes().GetFsattr(user_, A(), wire::kFsattrRdAttrError, &fs));
  EXPECT_EQ(fs.rd_attr_error, static_cast<uint32_t>(DafsStatus::kAcces));
}

TEST_F(StoreReaddirTest, PseudoFileSystemIsListedInPages) {
  exports_ = {Named("/x", "a"), Named("/y", "a"), Named("/z/w", "b")};
  Start();
  std::vector<std::string> names;
  uint64_t cookie = 0;
  ReaddirResult res;
  for (int calls = 0; !res.eof && calls < 10; ++calls) {
    std::vector<Entry> entries;
    ASSERT_OK(List(user_, Handle({}), cookie, 1, &entries, &res, wire::kFattrFilehandle));
    for (const Entry& entry : entries) {
      names.push_back(entry.name);
      cookie = entry.cookie;
      EXPECT_EQ(entry.attributes.filehandle, Handle({entry.name}));
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("x", "y", "z"));
}

TEST_F(StoreReaddirTest, ConcurrentOperationsLeaveNoOpensOrFiles) {
  StoreOptions options = Options();
  options.max_descriptors = 50;
  Start(options);
  const wire::FileHandle a = A();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, a] {
      Caller me = user_;
      me.uid = 1000 + t;
      me.client_id = wire::OpaqueFromUint64<wire::ClientId>(10 + t);
      for (int i = 0; i < 150; ++i) {
        const std::string name = "f" + std::to_string(i % 7);  // shared by all
        wire::OpenRes opened;
        if (store_->opens().Open(me, CreateArgs(a, name, 0666), &opened) != DafsStatus::kOk)
          continue;
        const Opened f = {opened.filehandle, opened.state_id};
        EXPECT_OK(Write(me, f, 0, "data"));
        EXPECT_THAT(Read(me, f), testing::AnyOf("data", "datadata"));
        store_->opens().Open(me, OpenArgs(a, name, wire::kShareRead), &opened);
        (void)Lookup(me, a, name);
        if (i % 3 == 0) (void)Remove(me, a, name);
        if (i % 5 == 0) (void)Rename(me, a, name, a, "f" + std::to_string((i + 1) % 7));
        std::vector<Entry> entries;
        ReaddirRequest request;
        request.filehandle = a;
        request.attr_request_bitmap = wire::kFattrAll;
        ReaddirResult res;
        EXPECT_OK(store_->names().Readdir(
            me, request, [](uint64_t, std::string_view, wire::FileAttributes&) { return true; },
            &res));
        (void)Close(me, f);
      }
      store_->releases().ReleaseClient(me.client_id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->inventory().open_count(), 0u);
  EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
}

}  // namespace
}  // namespace dafs::server
