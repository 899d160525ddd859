// Every operation of Files against the real server: its result, and its effect on the exported
// directory.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <deque>
#include <map>
#include <ostream>

#include "client/state/data/write_tracker.h"
#include "tests/client/forwarding_provider.h"
#include "tests/client/server_fixture.h"
#include "tests/wire/dat/forwarding_endpoint.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

using testing::HasSubstr;
using wire::DafsStatus;

wire::FileAttributes Mode(uint32_t mode) {
  wire::FileAttributes attributes;
  attributes.mode = mode;
  attributes.set(wire::kFattrMode);
  return attributes;
}

std::string Pattern(size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>((i * 31 + i / 257 + seed * 101) & 0xff);
  }
  return text;
}

struct OptionSet {
  const char* name;
  wire::ByteOrder order;
  bool checksums;
  uint32_t message_bytes;
  uint32_t requests;
  bool rdma_read_channel = false;
  Windows windows = Windows::kOff;

  friend void PrintTo(const OptionSet& one, std::ostream* out) { *out << one.name; }
};

// The operations of a mount, with each kind of negotiated session.
class FilesServerTest : public ServerTest, public testing::WithParamInterface<OptionSet> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    ClientOptions options = Options();
    options.byte_order = GetParam().order;
    options.checksums = GetParam().checksums;
    options.max_request_size = options.max_response_size = GetParam().message_bytes;
    options.max_requests = GetParam().requests;
    options.rdma_read_channel = GetParam().rdma_read_channel;
    options.windows = GetParam().windows;
    StartClient(std::move(options));
  }

  absl::StatusOr<OpenFile> Open(const std::string& name, bool create,
                                uint32_t access = wire::kShareBoth) {
    OpenRequest request;
    request.directory = root_.handle;
    request.name = name;
    request.share_access = access;
    request.owner = "owner of " + name;
    request.create = create;
    if (create) request.attributes = Mode(0644);
    return Await(files_->opens().Open(root_user_, request));
  }

  absl::StatusOr<WriteResult> Write(const OpenFile& file, uint64_t offset,
                                    const std::string& data) {
    BufferLease lease = Lease(BufferUse::kWriteSource, static_cast<uint32_t>(data.size()));
    std::memcpy(lease.payload(), data.data(), data.size());
    return Await(files_->data().Write(root_user_, file.handle, file.state_id, offset, lease, 0,
                                      static_cast<uint32_t>(data.size()),
                                      wire::StableHow::kUnstable));
  }

  absl::StatusOr<std::string> Read(const OpenFile& file, uint64_t offset, uint32_t size) {
    BufferLease lease = Lease(BufferUse::kReadTarget, size);
    absl::StatusOr<ReadResult> result =
        Await(files_->data().Read(root_user_, file.handle, file.state_id, offset, lease, size));
    if (!result.ok()) return result.status();
    return std::string(reinterpret_cast<const char*>(lease.payload()), result->count);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Sessions, FilesServerTest,
    testing::Values(OptionSet{"Usual", HostByteOrder(), false, 16384, 64},
                    OptionSet{"BigEndian", wire::ByteOrder::kBig, false, 16384, 64},
                    OptionSet{"Checksums", HostByteOrder(), true, 16384, 64},
                    OptionSet{"BigEndianChecksums", wire::ByteOrder::kBig, true, 16384, 64},
                    OptionSet{"SmallestMessages", HostByteOrder(), false, 1024, 64},
                    OptionSet{"OneCredit", HostByteOrder(), true, 4096, 1},
                    OptionSet{"ReadChannel", wire::ByteOrder::kBig, true, 16384, 64, true},
                    OptionSet{"Windows", HostByteOrder(), true, 16384, 64, false, Windows::kOn}),
    [](const auto& info) { return std::string(info.param.name); });

// Each reply of dafsd invalidates the window of its request (Send with Invalidate).
TEST_P(FilesServerTest, ServerInvalidatesTheWindowsOfEachRequest) {
  if (GetParam().windows == Windows::kOff) {
    EXPECT_FALSE(files_->Report().session.memory_by_windows);
    return;
  }
  if (!files_->Report().session.memory_by_windows) GTEST_SKIP() << files_->Report().session.memory;
  MakeLocal("file", Pattern(1 << 20));
  absl::StatusOr<OpenFile> file = Open("file", false);
  ASSERT_STATUS_OK(file);
  BufferLease target = Lease(BufferUse::kReadTarget, 1 << 20);
  BufferLease source = Lease(BufferUse::kWriteSource, 1 << 20);
  for (uint32_t size : {20000u, 65536u, 1u << 20}) {
    ASSERT_STATUS_OK(
        Await(files_->data().Read(root_user_, file->handle, file->state_id, 0, target, size)));
    ASSERT_STATUS_OK(Await(files_->data().Write(root_user_, file->handle, file->state_id, 0, source,
                                                0, size, wire::StableHow::kUnstable)));
  }
  EXPECT_EQ(files_->Report().session.windows_bound, 6u);
  EXPECT_EQ(files_->Report().session.windows_ended, 0u);
}

// Shows DAFS-4.1.4-14
TEST_P(FilesServerTest, MountReturnsTheRootOfTheExport) {
  struct stat st;
  ASSERT_EQ(stat(Local("").c_str(), &st), 0);
  EXPECT_EQ(root_.attributes.object_type, wire::ObjectType::kDir);
  EXPECT_EQ(root_.attributes.file_id, st.st_ino);
  EXPECT_EQ(root_.attributes.mode, st.st_mode & 07777u);
  EXPECT_GT(client_->limits().lease_seconds, 0u);
}

TEST_P(FilesServerTest, LookupReturnsHandleAndAttributesOrNoent) {
  MakeLocal("file", "hello");
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "file"));
  ASSERT_STATUS_OK(node);
  EXPECT_EQ(node->attributes.object_size, 5u);
  EXPECT_TRUE(node->attributes.has(kStatAttributes & ~wire::kFattrTimeCreate));
  absl::StatusOr<Node> none = Await(files_->names().Lookup(root_user_, root_.handle, "none"));
  EXPECT_EQ(wire::DafsFromStatus(none.status()), DafsStatus::kNoEnt);
  absl::StatusOr<Attributes> again =
      Await(files_->attributes().GetAttributes(root_user_, node->handle));
  ASSERT_STATUS_OK(again);
  EXPECT_EQ(again->file_id, node->attributes.file_id);
}

TEST_P(FilesServerTest, WrittenDataIsReadBackAtEverySize) {
  absl::StatusOr<OpenFile> file = Open("data", true);
  ASSERT_STATUS_OK(file);
  EXPECT_TRUE(file->created);
  uint64_t at = 0;
  std::string all;
  for (size_t size : {size_t{1}, size_t{100}, size_t{800}, size_t{4096}, size_t{4097},
                      size_t{65536}, size_t{1} << 20}) {
    std::string data = Pattern(size, static_cast<unsigned>(size));
    absl::StatusOr<WriteResult> written = Write(*file, at, data);
    ASSERT_STATUS_OK(written);
    ASSERT_EQ(written->count, size);
    absl::StatusOr<std::string> read = Read(*file, at, static_cast<uint32_t>(size));
    ASSERT_STATUS_OK(read);
    EXPECT_TRUE(*read == data) << size;
    at += size;
    all += data;
  }
  EXPECT_TRUE(files_->commits().NeedsCommit(file->handle));
  EXPECT_STATUS_OK(Await(files_->commits().Commit(root_user_, file->handle, 0, 0)));
  EXPECT_FALSE(files_->commits().NeedsCommit(file->handle));
  EXPECT_TRUE(LocalContent("data") == all);
  absl::StatusOr<std::string> behind = Read(*file, at - 3, 100);
  ASSERT_STATUS_OK(behind);
  EXPECT_EQ(behind->size(), 3u);
  absl::Status closed = Await(files_->opens().Close(file->state_id));
  EXPECT_STATUS_OK(closed);
}

TEST_P(FilesServerTest, AppendWritesAtTheEnd) {
  MakeLocal("log", "first;");
  absl::StatusOr<OpenFile> file = Open("log", false);
  ASSERT_STATUS_OK(file);
  for (size_t size : {size_t{10}, size_t{20000}}) {
    std::string before = LocalContent("log");
    std::string data = Pattern(size);
    BufferLease lease = Lease(BufferUse::kWriteSource, static_cast<uint32_t>(size));
    std::memcpy(lease.payload(), data.data(), size);
    absl::StatusOr<AppendResult> result =
        Await(files_->data().Append(root_user_, file->handle, file->state_id, lease, 0,
                                    static_cast<uint32_t>(size), wire::StableHow::kDataSync));
    ASSERT_STATUS_OK(result);
    EXPECT_EQ(result->offset, before.size());
    EXPECT_TRUE(LocalContent("log") == before + data);
  }
  absl::Status closed = Await(files_->opens().Close(file->state_id));
  EXPECT_STATUS_OK(closed);
}

TEST_P(FilesServerTest, RangesAreAllocatedSoughtAndCopied) {
  absl::StatusOr<OpenFile> file = Open("ranges", true);
  ASSERT_STATUS_OK(file);
  const wire::FileHandle& handle = file->handle;
  const wire::StateId& state_id = file->state_id;
  ASSERT_STATUS_OK(Write(*file, 0, Pattern(20000)));
  ASSERT_STATUS_OK(Await(files_->ranges().Allocate(root_user_, handle, state_id,
                                                   wire::AllocateMode::kPunchHole, 4096, 4096)));
  absl::StatusOr<uint64_t> hole =
      Await(files_->ranges().Seek(root_user_, handle, state_id, wire::SeekWhat::kHole, 0));
  ASSERT_STATUS_OK(hole);
  EXPECT_EQ(*hole, 4096u);
  absl::StatusOr<uint64_t> data =
      Await(files_->ranges().Seek(root_user_, handle, state_id, wire::SeekWhat::kData, 20000));
  EXPECT_EQ(wire::DafsFromStatus(data.status()), DafsStatus::kNxio);
  absl::StatusOr<CopyResult> copied = Await(
      files_->ranges().CopyRange(root_user_, handle, state_id, 0, handle, state_id, 4096, 4096));
  ASSERT_STATUS_OK(copied);
  EXPECT_EQ(copied->count, 4096u);
  std::string expected = Pattern(20000);
  expected.replace(4096, 4096, expected.substr(0, 4096));
  EXPECT_TRUE(LocalContent("ranges") == expected);
  absl::Status wrong = Await(files_->ranges().Allocate(
      root_user_, handle, state_id, wire::AllocateMode::kAllocate, 0, INT64_MAX));
  EXPECT_FALSE(wrong.ok());
  absl::Status closed = Await(files_->opens().Close(state_id));
  EXPECT_STATUS_OK(closed);
}

// The chain of a small write also returns the attributes; a large write is sent alone.
TEST_P(FilesServerTest, SmallWriteReturnsAttributes) {
  OpenRequest request = ToOpen("written");
  request.create = true;
  request.attributes = Mode(0640);
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
  ASSERT_STATUS_OK(file);
  for (uint32_t size : {100u, 200'000u}) {
    BufferLease lease = Lease(BufferUse::kWriteSource, size);
    std::memset(lease.payload(), 'x', size);
    Attributes after;
    absl::StatusOr<WriteResult> written =
        Await(files_->data().Write(root_user_, file->handle, file->state_id, 0, lease, 0, size,
                                   wire::StableHow::kUnstable, &after));
    ASSERT_STATUS_OK(written);
    EXPECT_EQ(written->count, size);
    EXPECT_EQ(after.has(kStatAttributes), size == 100);
    EXPECT_EQ(after.object_size, size == 100 ? size : 0u);
  }
}

// Shows DAFS-6.5.24-24, DAFS-6.5.26-01.
TEST_P(FilesServerTest, UnnamedFileIsLinkedAndOpenReducesItsShares) {
  OpenRequest request;
  request.directory = root_.handle;
  request.share_access = wire::kShareBoth;
  request.share_deny = wire::kShareWrite;
  request.owner = "owner";
  request.attributes = Mode(0640);
  absl::StatusOr<OpenFile> file = Await(files_->opens().OpenUnlinked(root_user_, request));
  ASSERT_STATUS_OK(file);
  EXPECT_EQ(file->attributes.num_links, 0u);
  EXPECT_EQ(file->attributes.mode, 0640u);
  ASSERT_STATUS_OK(Write(*file, 0, "hello"));
  ASSERT_STATUS_OK(Await(files_->names().Link(root_user_, file->handle, root_.handle, "named")));
  EXPECT_EQ(LocalContent("named"), "hello");

  OpenRequest second;
  second.directory = root_.handle;
  second.name = "named";
  second.owner = "second";
  second.share_access = wire::kShareWrite;
  absl::StatusOr<OpenFile> denied = Await(files_->opens().Open(root_user_, second));
  EXPECT_EQ(wire::DafsFromStatus(denied.status()), DafsStatus::kDenied);
  absl::Status more = Await(files_->opens().Downgrade(file->state_id, wire::kShareBoth, 3));
  EXPECT_EQ(wire::DafsFromStatus(more), DafsStatus::kInval);
  ASSERT_STATUS_OK(
      Await(files_->opens().Downgrade(file->state_id, wire::kShareRead, wire::kShareDenyNone)));
  absl::StatusOr<WriteResult> written = Write(*file, 0, "x");
  EXPECT_EQ(wire::DafsFromStatus(written.status()), DafsStatus::kAcces);
  absl::StatusOr<OpenFile> admitted = Await(files_->opens().Open(root_user_, second));
  ASSERT_STATUS_OK(admitted);
  // An upgrade: the server merges a second OPEN of the same owner into the first.
  second.share_access = wire::kShareRead;
  absl::StatusOr<OpenFile> upgraded = Await(files_->opens().Open(root_user_, second));
  ASSERT_STATUS_OK(upgraded);
  EXPECT_EQ(upgraded->state_id, admitted->state_id);
  ASSERT_STATUS_OK(Write(*upgraded, 0, "both"));
  absl::StatusOr<std::string> read = Read(*upgraded, 0, 5);
  ASSERT_STATUS_OK(read);
  EXPECT_EQ(*read, "botho");
  for (const OpenFile& open : {*file, *upgraded}) {
    EXPECT_STATUS_OK(Await(files_->opens().Close(open.state_id)));
  }
}

TEST_P(FilesServerTest, NamesAreCreatedRenamedLinkedAndRemoved) {
  absl::StatusOr<Node> dir =
      Await(files_->names().MakeDirectory(root_user_, root_.handle, "dir", Mode(0750)));
  ASSERT_STATUS_OK(dir);
  EXPECT_EQ(dir->attributes.mode, 0750u);

  absl::StatusOr<Node> symlink =
      Await(files_->names().MakeSymlink(root_user_, dir->handle, "link", "../somewhere"));
  ASSERT_STATUS_OK(symlink);
  absl::StatusOr<std::string> target = Await(files_->names().ReadLink(root_user_, symlink->handle));
  ASSERT_STATUS_OK(target);
  EXPECT_EQ(*target, "../somewhere");

  wire::SpecData device;
  device.specdata1 = 1;
  device.specdata2 = 3;
  absl::StatusOr<Node> fifo = Await(files_->names().MakeNode(
      root_user_, dir->handle, "fifo", wire::ObjectType::kFifo, wire::SpecData(), 0600));
  ASSERT_STATUS_OK(fifo);
  EXPECT_EQ(fifo->attributes.object_type, wire::ObjectType::kFifo);
  EXPECT_EQ(fifo->attributes.mode, 0600u);
  absl::StatusOr<Node> regular = Await(files_->names().MakeNode(
      root_user_, dir->handle, "regular", wire::ObjectType::kReg, wire::SpecData(), 0640));
  ASSERT_STATUS_OK(regular);
  EXPECT_EQ(regular->attributes.mode, 0640u);
  EXPECT_EQ(server_->open_count(), 0u);

  absl::StatusOr<Node> linked =
      Await(files_->names().Link(root_user_, regular->handle, root_.handle, "second"));
  ASSERT_STATUS_OK(linked);
  EXPECT_EQ(linked->attributes.num_links, 2u);
  absl::Status renamed =
      Await(files_->names().Rename(root_user_, root_.handle, "second", dir->handle, "third"));
  EXPECT_STATUS_OK(renamed);
  EXPECT_TRUE(std::filesystem::exists(Local("dir/third")));
  absl::Status not_empty = Await(files_->names().Remove(root_user_, root_.handle, "dir"));
  EXPECT_EQ(wire::DafsFromStatus(not_empty), DafsStatus::kNotEmpty);
  for (const char* name : {"link", "fifo", "regular", "third"}) {
    absl::Status removed = Await(files_->names().Remove(root_user_, dir->handle, name));
    EXPECT_STATUS_OK(removed);
  }
  absl::Status removed = Await(files_->names().Remove(root_user_, root_.handle, "dir"));
  EXPECT_STATUS_OK(removed);
  EXPECT_FALSE(std::filesystem::exists(Local("dir")));
}

TEST_P(FilesServerTest, LongLinksAreReadThoughTheyExceedAResponse) {
  std::string target(900, 'x');
  target[300] = target[600] = '/';
  std::filesystem::create_symlink(target + "/" + std::string(200, 'y'), Local("long"));
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "long"));
  ASSERT_STATUS_OK(node);
  absl::StatusOr<std::string> read = Await(files_->names().ReadLink(root_user_, node->handle));
  ASSERT_STATUS_OK(read);
  EXPECT_EQ(*read, target + "/" + std::string(200, 'y'));
}

TEST_P(FilesServerTest, AttributesAreSetAndReturned) {
  MakeLocal("file", "0123456789");
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "file"));
  ASSERT_STATUS_OK(node);
  wire::FileAttributes set = Mode(0604);
  set.object_size = 4;
  set.owner = "1000";
  set.time_modify_set.how = wire::TimeSetHow::kSetToClientTime;
  set.time_modify_set.client_time = {1234567890, 123456789};
  set.set(wire::kFattrObjectSize | wire::kFattrOwner | wire::kFattrTimeModifySet);
  absl::StatusOr<Attributes> now =
      Await(files_->attributes().SetAttributes(root_user_, node->handle, wire::StateId(), set));
  ASSERT_STATUS_OK(now);
  EXPECT_EQ(now->mode, 0604u);
  EXPECT_EQ(now->object_size, 4u);
  EXPECT_EQ(now->owner, "1000");
  EXPECT_EQ(now->time_modify, (wire::Time{1234567890, 123456789}));
  EXPECT_EQ(LocalContent("file"), "0123");
}

TEST_P(FilesServerTest, EachCallerHasItsOwnRights) {
  MakeLocal("secret", "root's");
  chmod(Local("secret").c_str(), 0600);
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, root_.handle, "secret"));
  ASSERT_STATUS_OK(node);
  absl::StatusOr<uint32_t> access =
      Await(files_->attributes().Access(user_, node->handle, wire::kAccessAll));
  ASSERT_STATUS_OK(access);
  EXPECT_EQ(*access & wire::kAccessRead, 0u);
  access = Await(files_->attributes().Access(root_user_, node->handle, wire::kAccessAll));
  ASSERT_STATUS_OK(access);
  EXPECT_NE(*access & wire::kAccessRead, 0u);
  OpenRequest request;
  request.directory = root_.handle;
  request.name = "secret";
  request.owner = "user's";
  absl::StatusOr<OpenFile> open = Await(files_->opens().Open(user_, request));
  EXPECT_EQ(wire::DafsFromStatus(open.status()), DafsStatus::kAcces);
  // Two identities, each registered once.
  EXPECT_EQ(client_->credentials().size(), 2u);
}

TEST_P(FilesServerTest, OpenCreatesTruncatesAndExcludes) {
  OpenRequest request = ToOpen("new", "a");
  request.create = true;
  request.create_mode = wire::CreateMode::kExclusive;
  request.verifier = wire::OpaqueFromUint64<wire::Verifier>(77);
  request.attributes = Mode(0640);
  absl::StatusOr<OpenFile> first = Await(files_->opens().Open(root_user_, request));
  ASSERT_STATUS_OK(first);
  EXPECT_TRUE(first->created);
  EXPECT_EQ(first->attributes.mode, 0640u);
  request.verifier = wire::OpaqueFromUint64<wire::Verifier>(78);
  absl::StatusOr<OpenFile> second = Await(files_->opens().Open(root_user_, request));
  EXPECT_EQ(wire::DafsFromStatus(second.status()), DafsStatus::kExist);
  absl::Status closed = Await(files_->opens().Close(first->state_id));
  EXPECT_STATUS_OK(closed);

  for (bool create : {false, true}) {
    MakeLocal("full", "something");
    OpenRequest truncating;
    truncating.directory = root_.handle;
    truncating.name = "full";
    truncating.share_access = wire::kShareBoth;
    truncating.owner = "b";
    truncating.create = create;
    truncating.truncate = true;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, truncating));
    ASSERT_STATUS_OK(file);
    EXPECT_TRUE(create || !file->created);
    EXPECT_EQ(file->attributes.object_size, 0u);
    EXPECT_EQ(LocalContent("full"), "");
    closed = Await(files_->opens().Close(file->state_id));
    EXPECT_STATUS_OK(closed);
  }
  EXPECT_EQ(server_->open_count(), 0u);
}

TEST_P(FilesServerTest, FilesAreOpenedByHandle) {
  MakeLocal("named", "once");
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "named"));
  ASSERT_STATUS_OK(node);
  std::filesystem::rename(Local("named"), Local("renamed"));
  absl::StatusOr<OpenFile> file =
      Await(files_->opens().OpenByHandle(root_user_, node->handle, wire::kShareRead, "owner"));
  ASSERT_STATUS_OK(file);
  absl::StatusOr<std::string> read = Read(*file, 0, 100);
  ASSERT_STATUS_OK(read);
  EXPECT_EQ(*read, "once");
  absl::Status closed = Await(files_->opens().Close(file->state_id));
  EXPECT_STATUS_OK(closed);
}

TEST_P(FilesServerTest, DirectoriesAreListedCompletelyPageByPage) {
  std::map<std::string, bool> names;
  for (int i = 0; i < 500; ++i) {
    names["entry " + std::to_string(i)] = false;
    MakeLocal("entry " + std::to_string(i), "");
  }
  BufferLease lease = Lease(BufferUse::kReadTarget, 64 << 10);
  uint64_t cookie = 0;
  wire::Verifier cookieverf;
  int pages = 0;
  for (bool eof = false; !eof; ++pages) {
    ASSERT_LT(pages, 1000);
    absl::StatusOr<DirectoryPage> page = Await(
        files_->directories().ReadDirectory(root_user_, root_.handle, cookie, cookieverf, 16 << 10,
                                            kStatAttributes | wire::kFattrFilehandle, lease));
    ASSERT_STATUS_OK(page);
    wire::DirentView entry;
    while (page->entries.Next(entry)) {
      cookie = entry.cookie;
      auto it = names.find(std::string(entry.name));
      ASSERT_NE(it, names.end()) << entry.name;
      EXPECT_FALSE(it->second) << "listed twice: " << entry.name;
      it->second = true;
      EXPECT_TRUE(entry.attrs->has(wire::kFattrFilehandle | wire::kFattrFileId));
    }
    EXPECT_STATUS_OK(page->entries.status());
    cookieverf = page->cookieverf;
    eof = page->eof;
  }
  EXPECT_GT(pages, 1);
  for (const auto& [name, seen] : names) EXPECT_TRUE(seen) << name;
}

TEST_P(FilesServerTest, StatFsReportsSpace) {
  absl::StatusOr<wire::FsAttributes> fs =
      Await(files_->attributes().StatFs(root_user_, root_.handle));
  ASSERT_STATUS_OK(fs);
  EXPECT_TRUE(fs->has(wire::kFsattrSpaceTotal | wire::kFsattrFilesTotal));
  EXPECT_GT(fs->space_total, 0u);
}

Task<void> Stat(Files& files, const Identity& user, const wire::FileHandle& file, int* left,
                int* failed) {
  Task<absl::StatusOr<Attributes>> task = files.attributes().GetAttributes(user, file);
  absl::StatusOr<Attributes> result = co_await task;
  if (!result.ok()) ++*failed;
  --*left;
}

TEST_P(FilesServerTest, ManyOperationsRunInParallel) {
  int left = 300, failed = 0;
  for (int i = 0; i < 300; ++i) {
    Start(Stat(*files_, i % 2 == 0 ? root_user_ : user_, root_.handle, &left, &failed));
  }
  while (left > 0) loop_->RunOnce(absl::Seconds(1));
  EXPECT_EQ(failed, 0);
  WorkerReport report = files_->Report();
  EXPECT_EQ(report.session.slots_taken, 0u);
  EXPECT_EQ(report.session.max_requests, GetParam().requests);
  EXPECT_EQ(report.session.big_endian, GetParam().order == wire::ByteOrder::kBig);
  EXPECT_EQ(report.session.checksums, GetParam().checksums);
  EXPECT_EQ(report.session.transport.find("RDMA-read Channel") != std::string::npos,
            GetParam().rdma_read_channel);
}

class RestartTest : public ServerTest {};

// Idempotent calls resume after a server restart.
TEST_F(RestartTest, OperationsContinueAfterServerRestart) {
  StartClient(Options());
  MakeLocal("file", "content");
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "file"));
  ASSERT_STATUS_OK(node);
  server_.reset();
  StartServer();
  absl::StatusOr<Attributes> attributes =
      Await(files_->attributes().GetAttributes(root_user_, node->handle));
  ASSERT_STATUS_OK(attributes);
  EXPECT_EQ(attributes->object_size, 7u);
  EXPECT_EQ(files_->Report().connects, 2u);
}

TEST_F(RestartTest, SoftMountReportsWhyItWaited) {
  ClientOptions options = Options();
  options.soft = true;
  options.timeout = absl::Milliseconds(300);
  StartClient(std::move(options));
  server_.reset();
  absl::StatusOr<Attributes> attributes =
      Await(files_->attributes().GetAttributes(root_user_, root_.handle));
  EXPECT_TRUE(absl::IsDeadlineExceeded(attributes.status())) << attributes.status();
  EXPECT_THAT(std::string(attributes.status().message()), HasSubstr("no session for"));
}

TEST_F(RestartTest, ConnectReportsWhyItFails) {
  ClientOptions options = Options();
  server_.reset();
  auto client = Client::Create(std::move(options));
  ASSERT_STATUS_OK(client);
  auto loop = *Loop::Create();
  auto files = Files::Create(**client, *loop);
  ASSERT_STATUS_OK(files);
  absl::Status status = RunUntilDone(*loop, (*files)->Connect());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(dat::testing::HostUnderTest()));
}

// If the server requires the channel, the client opens it, and opens it again after a restart.
// Shows DAFS-6.2.5-05: the server accepts the identity with which the client binds the channel.
TEST_F(RestartTest, RequiredReadChannelIsOpenedWithEverySession) {
  server_read_channel_ = server::RdmaReadChannel::kRequired;
  server_.reset();
  StartServer();
  StartClient(Options());
  for (const char* name : {"one", "two"}) {
    OpenRequest request = ToOpen(name, name);
    request.create = true;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
    ASSERT_STATUS_OK(file);
    const std::string data = Pattern(300000);
    BufferLease lease = Lease(BufferUse::kWriteSource, 300000);
    std::memcpy(lease.payload(), data.data(), data.size());
    absl::StatusOr<WriteResult> written = Await(files_->data().Write(
        root_user_, file->handle, file->state_id, 0, lease, 0, 300000, wire::StableHow::kUnstable));
    ASSERT_STATUS_OK(written);
    EXPECT_EQ(written->count, data.size());
    EXPECT_TRUE(LocalContent(name) == data);
    const WorkerReport report = files_->Report();
    EXPECT_THAT(report.session.transport, HasSubstr("RDMA-read Channel"));
    server_.reset();
    StartServer();
  }
}

// Counts what the client posts, and the completions of it, on each of its connections, in the order
// in which it opens them.
class CountingProvider final : public ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;

  struct Counts {
    int sends = 0, receives = 0, transfers = 0, completions = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  std::deque<Counts> connections;

 private:
  class Endpoint final : public dat::ForwardingEndpoint {
   public:
    Endpoint(EndpointPtr inner, Counts& counts)
        : ForwardingEndpoint(std::move(inner)), counts_(counts) {}
    absl::Status PostReceive(uint64_t cookie, dat::Segment into) override {
      ++counts_.receives;
      return inner().PostReceive(cookie, into);
    }
    absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                          const SendOptions& options) override {
      ++counts_.sends;
      return inner().PostSend(cookie, from, options);
    }
    absl::Status PostRdmaWrite(uint64_t cookie, std::span<const dat::Segment> from,
                               dat::RemoteBuffer to, bool signaled) override {
      ++counts_.transfers;
      return inner().PostRdmaWrite(cookie, from, to, signaled);
    }
    absl::Status PostRdmaRead(uint64_t cookie, std::span<const dat::Segment> into,
                              dat::RemoteBuffer from) override {
      ++counts_.transfers;
      return inner().PostRdmaRead(cookie, into, from);
    }
    size_t Poll(std::span<dat::Completion> out) override {
      const size_t count = inner().Poll(out);
      counts_.completions += static_cast<int>(count);
      return count;
    }

   private:
    Counts& counts_;
  };
  Wrapper NextWrapper() override {
    Counts& counts = connections.emplace_back();
    return [&counts](EndpointPtr inner) -> EndpointPtr {
      return std::make_unique<Endpoint>(std::move(inner), counts);
    };
  }
};

// Shows DAFS-3.2.4.1-01 for the RDMA-read Channel. Shows FAST03-3.1-04 for the Operations Channel:
// data of any size costs the client its request and the response, and it is in the caller's buffer.
TEST_F(RestartTest, DirectTransfersCostTheClientARequestAndAResponse) {
  CountingProvider counting(*provider_);
  ClientOptions options = Options();
  options.rdma_read_channel = true;
  options.providers = {&counting};
  StartClient(std::move(options));
  ASSERT_EQ(counting.connections.size(), 2u);
  const CountingProvider::Counts bound = counting.connections[1];
  EXPECT_EQ(bound.sends, 1);
  OpenRequest request = ToOpen("f");
  request.create = true;
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
  ASSERT_STATUS_OK(file);
  for (const uint32_t size : {20000u, 300000u, 1000000u}) {
    const std::string data = Pattern(size);
    BufferLease lease = Lease(BufferUse::kWriteSource, size);
    std::memcpy(lease.payload(), data.data(), size);
    const CountingProvider::Counts before = counting.connections[0];
    ASSERT_STATUS_OK(Await(files_->data().Write(root_user_, file->handle, file->state_id, 0, lease,
                                                0, size, wire::StableHow::kFileSync)));
    std::memset(lease.payload(), 0, size);
    lease.Release();
    lease = Lease(BufferUse::kReadTarget, size);
    ASSERT_STATUS_OK(
        Await(files_->data().Read(root_user_, file->handle, file->state_id, 0, lease, size)));
    EXPECT_EQ(std::memcmp(lease.payload(), data.data(), size), 0);
    const CountingProvider::Counts now = counting.connections[0];
    EXPECT_EQ(now.sends - before.sends, 2) << size;
    EXPECT_EQ(now.receives - before.receives, 2) << size;
    EXPECT_EQ(now.transfers, 0);
    EXPECT_LE(now.completions - before.completions, 4) << size;  // the sends, and the responses
  }
  EXPECT_EQ(counting.connections[1], bound);
  StopClient();
}

TEST_F(RestartTest, UnknownExportReturnsNoent) {
  ClientOptions options = Options();
  options.export_path = {"no", "such"};
  auto client = Client::Create(std::move(options));
  ASSERT_STATUS_OK(client);
  auto loop = *Loop::Create();
  auto files = Files::Create(**client, *loop);
  ASSERT_STATUS_OK(files);
  absl::StatusOr<Node> root = RunUntilDone(*loop, (*files)->Mount(root_user_));
  EXPECT_EQ(wire::DafsFromStatus(root.status()), DafsStatus::kNoEnt) << root.status();
  RunUntilDone(*loop, (*files)->Disconnect());
}

}  // namespace
}  // namespace dafs::client
