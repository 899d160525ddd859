// File data and structured content, inline and by RDMA, over a live session.
#include <algorithm>
#include <tuple>

#include "tests/server/server_fixture.h"
#include "wire/codec/checksum.h"
#include "wire/codec/direct.h"

namespace dafs::server {
namespace {

using wire::ByteOrder;
using wire::DirectOpBuffers;

// Byte order, checksums.
class DataTest : public ServerTest,
                 public testing::WithParamInterface<std::tuple<ByteOrder, bool>> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    StartServer();
    WriteFile("a/f", "");
    wire::ClientConnectAuthArgs args = ConnectArgs("data");
    args.use_checksums = std::get<1>(GetParam());
    args.max_request_size = args.max_response_size = 60000;
    client_ = Session(args, std::get<0>(GetParam()));
    ActAsRoot(*client_);
    directory_ = LookUp(*client_, {"a"});
    auto opened = client_->Call(OpenArgs(directory_, "f", false));
    ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
    file_ = opened.res.filehandle;
    state_id_ = opened.res.state_id;
  }
  void TearDown() override {
    client_.reset();
    ServerTest::TearDown();
  }

  wire::Checksum Sum(std::span<const std::byte> bytes) const {
    return client_->checksums ? wire::ComputeChecksum(bytes, client_->order) : wire::Checksum();
  }
  static std::span<const std::byte> AsBytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  wire::ReadDirectArgs ReadArgs(uint64_t offset, uint32_t count, DirectOpBuffers buffers) const {
    wire::ReadDirectArgs args;
    args.filehandle = file_;
    args.state_id = state_id_;
    args.offset = offset;
    args.byte_count = count;
    args.read_data_buffers = std::move(buffers);
    return args;
  }
  wire::WriteDirectArgs WriteArgs(uint64_t offset, const std::string& data,
                                  DirectOpBuffers buffers) const {
    wire::WriteDirectArgs args;
    args.filehandle = file_;
    args.state_id = state_id_;
    args.offset = offset;
    args.byte_count = static_cast<uint32_t>(data.size());
    args.direct_checksum = Sum(AsBytes(data));
    args.write_data_buffers = std::move(buffers);
    return args;
  }

  std::unique_ptr<RawClient> client_;
  wire::FileHandle directory_;
  wire::FileHandle file_;
  wire::StateId state_id_;
};

// Shows DAFS-3.2.3.2.2-02 (APPEND, READ, WRITE, inline), DAFS-4.2.1.1-01; R84, R85.
TEST_P(DataTest, InlineReadsReturnWhatInlineWritesStored) {
  const std::string data = Pattern(50001);
  wire::WriteInlineArgs write;
  write.filehandle = file_;
  write.state_id = state_id_;
  write.byte_count = static_cast<uint32_t>(data.size());
  auto written = client_->Call(write, AsBytes(data));
  ASSERT_EQ(written.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(written.res.count, data.size());
  EXPECT_EQ(ReadFile("a/f"), data);
  wire::ReadInlineArgs read;
  read.filehandle = file_;
  read.state_id = state_id_;
  read.byte_count = 0xffffffff;
  std::string got;
  for (int i = 0; i < 10 && got.size() < data.size(); ++i) {
    read.offset = got.size();
    auto reply = client_->Call(read);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    auto part = wire::FindInlineData(reply.message, reply.res);
    ASSERT_TRUE(part.ok());
    got.append(reinterpret_cast<const char*>(part->data()), part->size());
    EXPECT_EQ(reply.res.eof, got.size() == data.size());
  }
  EXPECT_EQ(got, data);
  // Stable writes and appends, which run in the pool.
  write.stable_how = wire::StableHow::kFileSync;
  written = client_->Call(write, AsBytes(data));
  ASSERT_EQ(written.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(written.res.committed, wire::StableHow::kFileSync);
  wire::AppendInlineArgs append;
  append.filehandle = file_;
  append.state_id = state_id_;
  append.byte_count = 3;
  auto appended = client_->Call(append, AsBytes("end"));
  ASSERT_EQ(appended.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(appended.res.offset, data.size());
  EXPECT_EQ(ReadFile("a/f"), data + "end");
  wire::CommitArgs commit;
  commit.filehandle = file_;
  auto committed = client_->Call(commit);
  ASSERT_EQ(committed.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(committed.res.writeverf, written.res.verifier);
}

// Shows DAFS-3.2.3.2-01, DAFS-3.2.3.2.1-01, DAFS-3.2.3.2.2-01, DAFS-3.2.3.2.2-02 (READ, WRITE,
// direct), DAFS-3.2.5-02; WIRE 10.1: a list of buffers is one byte string, values straddle buffers,
// nothing outside is touched.
TEST_P(DataTest, DirectTransfersStraddleBuffersOfAnyShape) {
  const std::string data = Pattern(700001);
  DirectMemory memory = client_->NewMemory(1 << 20, dat::Access::kRemoteBoth);
  // Pieces out of order and not aligned, one of them empty. There are enough of them to be signaled
  // one by one.
  for (const size_t pieces : std::vector<size_t>{1, 2, 7, 8, 9, 100}) {
    SCOPED_TRACE(pieces);
    DirectOpBuffers buffers;
    std::vector<std::pair<size_t, size_t>> places;
    const size_t each = data.size() / pieces;
    for (size_t i = 0; i < pieces; ++i) {
      const size_t size = i + 1 == pieces ? data.size() - each * i : each;
      // Last to first, 3 bytes apart.
      const size_t at = (1 << 20) - (each + 3) * (i + 1) - (i + 1 == pieces ? pieces : 0) - 100;
      places.push_back({at, size});
      buffers.push_back(memory.At(at, size));
      if (i == pieces / 2) buffers.push_back(memory.At(0, 0));
    }
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0x5a});
    size_t from = 0;
    for (auto [at, size] : places) {
      std::memcpy(memory.bytes.data() + at, data.data() + from, size);
      from += size;
    }
    auto written = client_->Call(WriteArgs(5, data, buffers));
    ASSERT_EQ(written.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(written.res.count, data.size());
    EXPECT_EQ(ReadFile("a/f").substr(5), data);

    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0x5a});
    auto read = client_->Call(ReadArgs(5, static_cast<uint32_t>(data.size()), buffers));
    ASSERT_EQ(read.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(read.res.bytes_read, data.size());
    EXPECT_TRUE(read.res.eof);
    EXPECT_EQ(read.res.direct_checksum, Sum(AsBytes(data)));
    std::string got;
    size_t touched = 0;
    for (auto [at, size] : places) {
      got.append(reinterpret_cast<const char*>(memory.bytes.data() + at), size);
      std::fill_n(memory.bytes.begin() + static_cast<std::ptrdiff_t>(at), size, std::byte{0x5a});
    }
    for (std::byte b : memory.bytes) touched += b != std::byte{0x5a};
    EXPECT_EQ(touched, 0u);
    EXPECT_TRUE(got == data);
  }
}

// Shows DAFS-3.2.5-04 for direct data. A read that ends early reports that and writes no more.
TEST_P(DataTest, ShortReadsBadChecksumsAndExceededLimitsAreReported) {
  const std::string data = Pattern(10000);
  WriteFile("a/f", data);
  DirectMemory memory = client_->NewMemory(2 << 20, dat::Access::kRemoteBoth);
  auto read = client_->Call(ReadArgs(9000, 5000, {memory.At(0, 5000)}));
  ASSERT_EQ(read.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(read.res.bytes_read, 1000u);
  EXPECT_TRUE(read.res.eof);
  EXPECT_EQ(read.res.direct_checksum, Sum(AsBytes(data.substr(9000))));
  EXPECT_EQ(memory.bytes[1000], std::byte{0});
  read = client_->Call(ReadArgs(20000, 10, {memory.At(0, 10)}));
  ASSERT_EQ(read.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(read.res.bytes_read, 0u);
  EXPECT_TRUE(read.res.eof);
  read = client_->Call(ReadArgs(0, 0, {}));
  ASSERT_EQ(read.name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(read.res.eof);
  EXPECT_EQ(client_->Call(ReadArgs(0, 11, {memory.At(0, 10)})).name(), "DAFSERR_INVAL");
  // More than the server moves at once: a short read, and WRITE_TOOBIG.
  std::ofstream(Path("a/f")) << Pattern(3 << 20);
  read = client_->Call(ReadArgs(0, 2 << 20, {memory.At(0, 2 << 20)}));
  ASSERT_EQ(read.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(read.res.bytes_read, options_.max_transfer_bytes);
  EXPECT_FALSE(read.res.eof);
  const std::string big = Pattern(2 << 20);
  EXPECT_EQ(client_->Call(WriteArgs(0, big, {memory.At(0, 2 << 20)})).name(),
            "DAFSERR_WRITE_TOOBIG");
  if (client_->checksums) {
    WriteFile("a/f", data);
    wire::WriteDirectArgs write = WriteArgs(0, data, {memory.At(0, data.size())});
    std::memset(memory.bytes.data(), 7, data.size());
    EXPECT_EQ(client_->Call(write).name(), "DAFSERR_CHKSUM");
    EXPECT_TRUE(ReadFile("a/f") == data);
  }
}

// Many transfers at once. They need more memory than the worker has, so some wait.
TEST_P(DataTest, TransfersWaitForMemoryAndAllComplete) {
  const std::string data = Pattern(1 << 20);
  WriteFile("a/f", data);
  const uint32_t count = negotiated_.max_requests;
  std::vector<DirectMemory> memory;
  for (uint16_t s = 0; s < count; ++s) {
    memory.push_back(client_->NewMemory(1 << 20, dat::Access::kRemoteBoth));
    ASSERT_TRUE(client_->SendRequest(ReadArgs(0, 1 << 20, {memory[s].At(0, 1 << 20)}), s));
  }
  for (uint16_t s = 0; s < count; ++s) {
    auto reply = client_->ReceiveReply<wire::ReadDirectArgs>();
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.res.bytes_read, 1u << 20);
    const Bytes& got = memory[reply.header.stream_id].bytes;
    EXPECT_EQ(std::memcmp(got.data(), data.data(), data.size()), 0);
  }
}

// Shows DAFS-3.2.3.2.2-02 (GETATTR, SETATTR, READLINK, direct), DAFS-6.5.14-01, DAFS-6.5.36-01;
// WIRE 10.2.
TEST_P(DataTest, StructuredContentIsTransferredByRdma) {
  DirectMemory memory = client_->NewMemory(64 << 10, dat::Access::kRemoteBoth);
  ASSERT_EQ(symlink("to somewhere", Path("a/link").c_str()), 0);
  WriteFile("a/f", "12345");
  wire::GetattrDirectArgs getattr;
  getattr.filehandle = file_;
  getattr.attr_request_bitmap = wire::kFattrObjectSize | wire::kFattrOwner;
  getattr.data_buffer = memory.At(40, 1000);
  auto attributes = client_->Call(getattr);
  ASSERT_EQ(attributes.name(), "DAFS_STATUS_OK");
  wire::FileAttributes got;
  auto extent = wire::DecodeDirect(std::span(memory.bytes).subspan(40, 1000), client_->order, got);
  ASSERT_TRUE(extent.ok());
  EXPECT_EQ(got.object_size, 5u);
  EXPECT_EQ(got.owner, "0");
  EXPECT_EQ(attributes.res.direct_checksum, Sum(std::span(memory.bytes).subspan(40, *extent)));
  getattr.data_buffer = memory.At(40, 20);
  EXPECT_EQ(client_->Call(getattr).name(), "DAFSERR_TOOSMALL");

  wire::FileAttributes wanted;
  wanted.mode = 0600;
  wanted.set(wire::kFattrMode);
  extent = wire::EncodeDirect(wanted, client_->order, memory.bytes);
  ASSERT_TRUE(extent.ok());
  wire::SetattrDirectArgs setattr;
  setattr.filehandle = file_;
  setattr.obj_attributes = memory.At(0, *extent);
  setattr.direct_checksum = Sum(std::span(memory.bytes).first(*extent));
  auto set = client_->Call(setattr);
  ASSERT_EQ(set.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(set.res.attr_request_bitmap, wire::kFattrMode);
  struct stat st;
  ASSERT_EQ(stat(Path("a/f").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  memory.bytes[8] ^= std::byte{0xff};  // valid outside included, and a wrong checksum
  EXPECT_EQ(client_->Call(setattr).name(), client_->checksums ? "DAFSERR_CHKSUM" : "DAFSERR_INVAL");

  wire::LookupArgs lookup;
  lookup.directory = directory_;
  lookup.path = {"link"};
  wire::ReadlinkDirectArgs readlink;
  readlink.filehandle = client_->Call(lookup).res.filehandle;
  readlink.buffer = memory.At(8, 16);
  auto linked = client_->Call(readlink);
  ASSERT_EQ(linked.name(), "DAFS_STATUS_OK");
  auto text = wire::DecodeDirectString(std::span(memory.bytes).subspan(8, 16), client_->order);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "to somewhere");
  readlink.buffer = memory.At(8, 15);
  EXPECT_EQ(client_->Call(readlink).name(), "DAFSERR_TOOSMALL");
}

// Shows DAFS-3.2.3.2.2-02 (READDIR, inline and direct).
TEST_P(DataTest, DirectoriesAreReadInlineAndByRdma) {
  for (int i = 0; i < 300; ++i) WriteFile("a/entry" + std::to_string(i), "");
  DirectMemory memory = client_->NewMemory(64 << 10, dat::Access::kRemoteBoth);
  size_t inline_count = 0, direct_count = 0;
  wire::ReaddirInlineArgs listing;
  listing.filehandle = directory_;
  listing.maxcount = 4000;
  listing.attr_request_bitmap = wire::kFattrObjectType | wire::kFattrFileId;
  for (int i = 0; i < 100; ++i) {
    auto reply = client_->Call(listing);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    inline_count += reply.res.entries.size();
    if (reply.res.eof) break;
    ASSERT_FALSE(reply.res.entries.empty());
    listing.cookie = reply.res.entries.back().cookie;
    listing.cookieverf = reply.res.cookieverf;
  }
  EXPECT_EQ(inline_count, 301u);
  wire::ReaddirDirectArgs direct;
  direct.filehandle = directory_;
  direct.maxcount = 5000;
  direct.attr_request_bitmap = wire::kFattrObjectType;
  // Entries straddle three adjacent buffers.
  direct.readdir_data_buffers = {memory.At(0, 1001), memory.At(1001, 999), memory.At(2000, 9000)};
  for (int i = 0; i < 100; ++i) {
    auto reply = client_->Call(direct);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    wire::DirentReader reader;
    ASSERT_TRUE(reader.OpenDirect(memory.bytes, client_->order).ok());
    wire::DirentView entry;
    while (reader.Next(entry)) {
      ++direct_count;
      direct.cookie = entry.cookie;
    }
    ASSERT_TRUE(reader.status().ok());
    EXPECT_EQ(reply.res.direct_checksum, Sum(std::span(memory.bytes).first(reader.extent())));
    direct.cookieverf = reply.res.cookieverf;
    if (reply.res.eof) break;
  }
  EXPECT_EQ(direct_count, 301u);
  listing.cookie = 0;
  listing.cookieverf = {};
  listing.maxcount = 10;
  EXPECT_EQ(client_->Call(listing).name(), "DAFSERR_READDIR_NOSPC");
}

// Shows R59, R78, R88. An asynchronous batch has no channel to report on.
TEST_P(DataTest, SynchronousBatchReturnsTheResultOfEachRequest) {
  const std::string data = Pattern(300000);
  WriteFile("a/f", data);
  DirectMemory memory = client_->NewMemory(1 << 20, dat::Access::kRemoteBoth);
  wire::BatchSubmitArgs batch;
  batch.synchronous = true;
  wire::RwRequest read;
  read.filehandle = file_;
  read.state_id = state_id_;
  read.request_id = 7;
  read.rw_flag = wire::RwFlag::kRead;
  read.chunks = {{.offset = 100000, .byte_count = 3}, {.offset = 5, .byte_count = 270000}};
  read.request_buffers = {memory.At(10, 200000), memory.At(300000, 70003)};
  wire::RwRequest write = read;
  write.request_id = 8;
  write.rw_flag = wire::RwFlag::kWrite;
  write.chunks = {{.offset = 0, .byte_count = 2}, {.offset = 300000, .byte_count = 4}};
  write.request_buffers = {memory.At(900000, 6)};
  const std::string fresh = "ABcdef";
  std::memcpy(memory.bytes.data() + 900000, fresh.data(), fresh.size());
  write.direct_checksum = Sum(AsBytes(fresh));
  wire::RwRequest stale = read;
  stale.request_id = 9;
  stale.filehandle.fileid.bytes[3] ^= 0x55;
  batch.requests = {read, write, stale};
  auto reply = client_->Call(batch);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  ASSERT_EQ(reply.res.completions.size(), 3u);
  const std::string expected = data.substr(100000, 3) + data.substr(5, 270000);
  EXPECT_EQ(reply.res.completions[0].request_id, 7u);
  EXPECT_EQ(reply.res.completions[0].status, 0u);
  EXPECT_EQ(reply.res.completions[0].bytes_transferred, 270003u);
  EXPECT_EQ(reply.res.completions[0].direct_checksum, Sum(AsBytes(expected)));
  EXPECT_EQ(std::memcmp(memory.bytes.data() + 10, expected.data(), 200000), 0);
  EXPECT_EQ(std::memcmp(memory.bytes.data() + 300000, expected.data() + 200000, 70003), 0);
  EXPECT_EQ(reply.res.completions[1].bytes_transferred, 6u);
  EXPECT_TRUE(ReadFile("a/f") == "AB" + data.substr(2) + "cdef");
  EXPECT_EQ(reply.res.completions[2].status, static_cast<uint32_t>(wire::DafsStatus::kBadHandle));
  batch.synchronous = false;
  EXPECT_EQ(client_->Call(batch).name(), "DAFSERR_BACK_CHANNEL_UNUSABLE");
  batch.requests.clear();
  EXPECT_EQ(client_->Call(batch).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(client_->Call(wire::HurryUpArgs()).name(), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
}

// A client that names buffers it does not own loses its session. The server continues.
TEST_P(DataTest, WrongKeyEndsTheSession) {
  WriteFile("a/f", Pattern(5000));
  auto bystander = Session("bystander");
  DirectMemory memory = client_->NewMemory(8192, dat::Access::kLocal);
  EXPECT_EQ(client_->Call(ReadArgs(0, 5000, {memory.At(0, 8192)})).name(), "closed");
  EXPECT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

INSTANTIATE_TEST_SUITE_P(
    All, DataTest,
    testing::Combine(testing::Values(ByteOrder::kLittle, ByteOrder::kBig), testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == ByteOrder::kLittle ? "Little" : "Big") +
             (std::get<1>(info.param) ? "Summed" : "Plain");
    });

}  // namespace
}  // namespace dafs::server
