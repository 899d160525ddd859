#include "server/store/objects/handle.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/files/unique_fd.h"
#include "server/store/system/errno_status.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

HandleKey Key(uint8_t fill) {
  HandleKey key;
  key.fill(fill);
  return key;
}

ObjectKey SomeKey() {
  wire::FsHandle fs;
  fs.bytes.fill(9);
  const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  return MakeKey(fs, HandleKind::kFile, 1, bytes);
}

// Shows DAFS-4.1.4-11
TEST(StoreHandleMacTest, SealedHandleVerifiesAndReturnsItsParts) {
  const HandleMac mac(Key(1));
  const wire::FileHandle handle = mac.Seal(SomeKey());
  EXPECT_TRUE(mac.Verify(handle));
  const ObjectKey key = KeyOf(handle);
  EXPECT_EQ(key, SomeKey());
  EXPECT_EQ(KindOf(key), HandleKind::kFile);
  EXPECT_EQ(TypeOf(key), 1);
  EXPECT_EQ(BytesOf(key).size(), 8u);
  EXPECT_EQ(key.fshandle(), handle.fshandle);
}

TEST(StoreHandleMacTest, ChangedBitOrOtherKeyFailsVerification) {
  const HandleMac mac(Key(1));
  const wire::FileHandle handle = mac.Seal(SomeKey());
  for (size_t byte = 0; byte < 64; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      wire::FileHandle forged = handle;
      uint8_t& b = byte < 16 ? forged.fshandle.bytes[byte] : forged.fileid.bytes[byte - 16];
      b = static_cast<uint8_t>(b ^ (1 << bit));
      EXPECT_FALSE(mac.Verify(forged)) << byte << " " << bit;
    }
  }
  EXPECT_FALSE(HandleMac(Key(2)).Verify(handle));
}

TEST(StoreHandleMacTest, OversizedLengthIsRefused) {
  ObjectKey key = SomeKey();
  key.bytes[16] = 63;
  EXPECT_EQ(BytesOf(key).size(), kKernelHandleMax);
}

class StoreHandleTest : public StoreTest {};

// Shows DAFS-4.1.4-19, DAFS-4.1.4-23, DAFS-4.1.4-25, DAFS-6.5.34-08: persistent handles survive a
// restart and a rename.
TEST_F(StoreHandleTest, HandlesSurviveRestartAndRename) {
  WriteFile(Path("a/f"), "hello");
  Start();
  const wire::FileHandle handle = Handle({"a", "f"});
  const wire::FileHandle root = Handle({});
  const wire::FileHandle pseudo = Handle({"deep"});
  ASSERT_OK(Create(root_, A(), "d", wire::ObjectType::kDir));
  ASSERT_OK(Rename(root_, A(), "f", Handle({"a", "d"}), "g"));
  EXPECT_EQ(Handle({"a", "d", "g"}), handle);
  Start();
  EXPECT_EQ(Handle({}), root);
  EXPECT_EQ(Handle({"deep"}), pseudo);
  EXPECT_EQ(Attributes(handle).object_size, 5u);
  EXPECT_EQ(Read(root_, {handle, {}}), "hello");
  EXPECT_EQ(Handle({"a", "d", "g"}), handle);
  wire::FsAttributes fs;
  ASSERT_OK(store_->attributes().GetFsattr(root_, handle, wire::kFsattrFhExpireType, &fs));
  EXPECT_TRUE(fs.has(wire::kFsattrFhExpireType));
  EXPECT_EQ(fs.fh_expire_type, 0u);
  // The bits of handles that expire.
  EXPECT_EQ(wire::kFhPersistent, 0u);
  EXPECT_EQ(wire::kFhNoExpireWithOpen, 1u);
  EXPECT_EQ(wire::kFhVolatileAny, 2u);
  EXPECT_EQ(wire::kFhVolRename, 8u);
}

// Shows DAFS-4.1.4-15, DAFS-4.1.4-16, DAFS-4.1.4-18: one handle for an object, under any name.
TEST_F(StoreHandleTest, HardLinksShareOneHandle) {
  WriteFile(Path("a/f"), "x");
  ASSERT_EQ(link(Path("a/f").c_str(), Path("a/g").c_str()), 0);
  WriteFile(Path("a/h"), "x");
  Start();
  EXPECT_EQ(Handle({"a", "f"}), Handle({"a", "g"}));
  EXPECT_NE(Handle({"a", "f"}), Handle({"a", "h"}));
}

// Shows DAFS-4.1.4-20, DAFS-7-15: STALE once the object is removed, by a client or by a program on
// the server.
TEST_F(StoreHandleTest, HandlesOfRemovedObjectsAreStale) {
  WriteFile(Path("a/f"), "x");
  WriteFile(Path("a/g"), "x");
  Start();
  const wire::FileHandle f = Handle({"a", "f"});
  const wire::FileHandle g = Handle({"a", "g"});
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", wire::ObjectType::kDir, &d));
  ASSERT_OK(Remove(root_, A(), "f"));
  ASSERT_OK(Remove(root_, A(), "d"));
  const UniqueFd opened(open(Path("a/g").c_str(), O_RDONLY));  // so the kernel still finds g
  ASSERT_EQ(unlink(Path("a/g").c_str()), 0);
  wire::FileAttributes attributes;
  // The second time, the server has no descriptors of them and asks the kernel by their handles.
  for (const bool restarted : {false, true}) {
    if (restarted) Start();
    for (const wire::FileHandle& handle : {f, g, d}) {
      EXPECT_DAFS(kStale,
                  store_->attributes().Getattr(root_, handle, wire::kFattrAll, &attributes));
      EXPECT_DAFS(kStale,
                  store_->attributes().Getattr(root_, handle, wire::kFattrAll, &attributes));
    }
    EXPECT_EQ(Read(root_, {f, {}}), "DAFSERR_STALE");
  }
}

// Shows DAFS-4.1.4-10: also while the file system reuses their inodes for other files.
TEST_F(StoreHandleTest, HandlesAreStaleWhileTheirInodesAreReused) {
  Start();
  std::filesystem::create_directory(Path("b"));
  std::atomic<bool> stop{false};
  std::vector<std::thread> makers;
  for (int maker = 0; maker < 3; ++maker) {
    makers.emplace_back([this, maker, &stop] {
      for (int i = 0; !stop; i = (i + 1) % 8) {
        const std::string path = Path("b/" + std::to_string(maker) + "-" + std::to_string(i));
        std::ofstream(path).put('x');
        unlink(path.c_str());
      }
    });
  }
  std::map<std::string, int> answers;
  for (int round = 0; round < 200; ++round) {
    wire::FileHandle gone;
    ASSERT_OK(Create(root_, A(), "d", wire::ObjectType::kDir, &gone));
    ASSERT_EQ(rmdir(Path("a/d").c_str()), 0);
    for (int i = 0; i < 100; ++i) {
      wire::FileAttributes attributes;
      ++answers[std::string(wire::Name(store_->attributes().Getattr(root_, gone, 1, &attributes)))];
    }
  }
  stop = true;
  for (std::thread& maker : makers) maker.join();
  EXPECT_THAT(answers, testing::ElementsAre(testing::Pair("DAFSERR_STALE", 20000)));
}

TEST_F(StoreHandleTest, ForgedHandlesAreRefusedEverywhere) {
  WriteFile(Path("a/f"), "secret");
  Start();
  const wire::FileHandle good = Handle({"a", "f"});
  // With and without the valid handle in the cache.
  for (int round = 0; round < 2; ++round) {
    for (size_t byte : {0u, 8u, 16u, 18u, 25u, 50u, 63u}) {
      wire::FileHandle forged = good;
      (byte < 16 ? forged.fshandle.bytes[byte] : forged.fileid.bytes[byte - 16]) ^= 1;
      wire::FileAttributes attributes;
      EXPECT_DAFS(kBadHandle, store_->attributes().Getattr(root_, forged, 1, &attributes)) << byte;
      EXPECT_EQ(Read(root_, {forged, {}}), "DAFSERR_BADHANDLE");
      EXPECT_DAFS(kBadHandle, Lookup(root_, forged, "x"));
      EXPECT_DAFS(kBadHandle, Remove(root_, forged, "x"));
      wire::CloseArgs close;
      close.filehandle = forged;
      EXPECT_DAFS(kBadHandle, store_->opens().Close(root_, close));
    }
    Start();
  }
}

TEST_F(StoreHandleTest, HandlesOfAnotherServerAreRefused) {
  Start();
  const wire::FileHandle a = A();
  mkdir(Path("state2").c_str(), 0700);
  StoreOptions options = Options();
  options.state_dir = Path("state2");
  Start(options);
  wire::FileAttributes attributes;
  EXPECT_DAFS(kBadHandle, store_->attributes().Getattr(root_, a, 1, &attributes));
}

// A handle of one directory must not open files of another directory that has its name now.
TEST_F(StoreHandleTest, HandlesAreStaleAfterExportDirectoriesAreSwapped) {
  WriteFile(Path("a/f"), "x");
  Start();
  const wire::FileHandle f = Handle({"a", "f"});
  exports_[0].directory = Path("b");
  exports_[1].directory = Path("a");
  Start();
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, f, 1, &attributes));
}

TEST_F(StoreHandleTest, KeyFileIsPrivateAndDamageIsReported) {
  Start();
  const struct stat st = Stat(Path("state/handle-key"));
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(st.st_size, 32);
  store_.reset();
  ASSERT_EQ(truncate(Path("state/handle-key").c_str(), 5), 0);
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(Options());
  EXPECT_THAT(std::string(store.status().message()),
              testing::HasSubstr("not of 32 bytes, but of 5"));
}

// A new key would invalidate every handle of every mount.
TEST_F(StoreHandleTest, LostKeyIsNotReplaced) {
  const std::string path = Path("state/handle-key"), kept = Path("kept");
  Start();
  store_.reset();
  std::filesystem::copy_file(path, kept);
  const auto expect_refused = [&](const char* what) {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(Options());
    EXPECT_THAT(std::string(store.status().message()),
                testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("restore it"),
                               testing::HasSubstr("remove the state directory")))
        << what;
    std::filesystem::remove(path);
  };
  std::filesystem::resize_file(path, 31);
  expect_refused("one byte shorter");
  expect_refused("missing");
  WriteFile(path, "");
  expect_refused("empty");
  WriteFile(path, std::string(33, 'x'));
  expect_refused("longer");
  WriteFile(path, std::string(32, 'x'));
  expect_refused("another key");
  std::filesystem::create_directory(path);
  expect_refused("a directory");
  std::filesystem::create_symlink(kept, path);
  expect_refused("a symbolic link");
  std::filesystem::copy_file(kept, path);
  Start();
  EXPECT_NE(store_, nullptr);
}

// State ids contain the instance number, so it must not decrease. A lost number can be replaced.
TEST_F(StoreHandleTest, LostInstanceNumberIsReplacedByLargerOne) {
  const std::string path = Path("state/instance");
  const auto number = [&] {
    Start();
    uint32_t value = 0;
    std::ifstream(path) >> value;
    return value;
  };
  EXPECT_EQ(number(), 1u);
  EXPECT_EQ(number(), 2u);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const uint32_t large = number();
  EXPECT_GT(large, 1u << 20);
  EXPECT_EQ(number(), large + 1);
  for (const char* text : {"", "x", "17 0123\n"}) {
    WriteFile(path, text);
    EXPECT_GT(number(), 1u << 20) << text;
  }
  std::filesystem::remove(path);
  EXPECT_GT(number(), 1u << 20);
  WriteFile(path, "17\n");  // the old format, without a checksum of the key
  EXPECT_EQ(number(), 18u);
}

TEST_F(StoreHandleTest, UnservableExportIsRefusedWithReason) {
  exports_[0].directory = Path("none");
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(Options());
  EXPECT_THAT(std::string(store.status().message()), testing::HasSubstr("No such file"));
  exports_[0].directory = "/proc";
  store = Store::Open(Options());
  EXPECT_THAT(std::string(store.status().message()),
              testing::AllOf(testing::HasSubstr("file handles"), testing::HasSubstr("nfs_export")));
}

// The cache closes descriptors and finds the objects again by their handles.
TEST_F(StoreHandleTest, NumberOfDescriptorsStaysBounded) {
  StoreOptions options = Options();
  options.max_descriptors = 40;
  Start(options);
  std::vector<Opened> files;
  for (int i = 0; i < 300; ++i) {
    files.push_back(MustOpen(user_, CreateArgs(A(), "f" + std::to_string(i))));
    ASSERT_OK(Write(user_, files.back(), 0, std::to_string(i)));
  }
  EXPECT_LE(store_->inventory().descriptor_count(), 150u);  // each of 16 shards evicts in steps
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(Read(user_, files[static_cast<size_t>(i)]), std::to_string(i));
  }
  for (const Opened& file : files) EXPECT_OK(Close(user_, file));
  EXPECT_EQ(store_->inventory().open_count(), 0u);
}

// Shows DAFS-7-08
TEST(StoreErrnoTest, EveryErrnoHasStatus) {
  EXPECT_DAFS(kNoEnt, StatusFromErrno(ENOENT));
  EXPECT_DAFS(kNotEmpty, StatusFromErrno(ENOTEMPTY));
  EXPECT_DAFS(kDquot, StatusFromErrno(EDQUOT));
  EXPECT_DAFS(kNoSpc, StatusFromErrno(ENOSPC));
  EXPECT_DAFS(kFbig, StatusFromErrno(EFBIG));
  EXPECT_DAFS(kResource, StatusFromErrno(EMFILE));
  EXPECT_DAFS(kSymlink, StatusFromErrno(ELOOP));
  EXPECT_DAFS(kServerFault, StatusFromErrno(ENOTTY));
  EXPECT_DAFS(kDelay, StatusFromErrno(ESHUTDOWN));  // evicted from CephFS: another head answers
  for (int error = 1; error < 200; ++error) {
    EXPECT_NE(StatusFromErrno(error), DafsStatus::kOk) << error;
  }
}

}  // namespace
}  // namespace dafs::server
