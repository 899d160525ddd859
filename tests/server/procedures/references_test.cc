// Reads by reference, by a client that does as it likes: what it can reach, and what it is refused.
#include "wire/messages/references.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/server/server_fixture.h"
#include "wire/codec/exported_block.h"

namespace dafs::server {
namespace {

constexpr uint32_t kBlock = wire::kExportedBlock;
constexpr size_t kSlab = 64 * wire::kExportedStride;

class ReferencesTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    options_.exports[0].only_clients_change = true;
    mkdir(Path("b").c_str(), 0777);
    Export other = options_.exports[0];
    other.name = "/b";
    other.directory = Path("b");
    options_.exports.push_back(other);
    options_.export_cache_bytes = kSlab;
  }

  static std::array<std::byte, 16> PrivateData(uint8_t number, uint8_t channel_type) {
    std::array<std::byte, 16> bytes{std::byte{0x53}, std::byte{0x46}, std::byte{0x41},
                                    std::byte{0x44}};
    bytes[8] = std::byte{number};
    bytes[12] = std::byte{channel_type};
    return bytes;
  }
  // A session that was granted references, and its channel.
  struct Reader {
    std::unique_ptr<RawClient> session;
    std::unique_ptr<RawClient> channel;
    wire::SessionId session_id;
  };
  Reader Start(uint8_t number, bool asks = true, bool binds = true) {
    Reader reader;
    reader.session =
        RawClient::Connect(*provider_, address(), 80, PrivateData(number, wire::kChannelOperation));
    EXPECT_NE(reader.session, nullptr);
    auto connected = reader.session->Call(ConnectArgs("c" + std::to_string(number)));
    EXPECT_EQ(connected.name(), "DAFS_STATUS_OK");
    reader.session_id = connected.res.session_id;
    ActAsRoot(*reader.session);
    if (asks) {
      wire::ExtensionsArgs args;
      args.wanted = wire::kExtensionReferences;
      EXPECT_EQ(reader.session->Call(args).res.granted, wire::kExtensionReferences);
    }
    if (binds) {
      reader.channel = Channel(reader, number);
      EXPECT_EQ(reader.channel->Call(Bind(reader)).name(), "DAFS_STATUS_OK");
    }
    return reader;
  }
  std::unique_ptr<RawClient> Channel(Reader& reader, uint8_t number,
                                     uint8_t type = wire::kChannelReferences) {
    return RawClient::Connect(*provider_, address(), 1, PrivateData(number, type),
                              &reader.session->domain());
  }
  static wire::ConnectBindArgs Bind(const Reader& reader) {
    wire::ConnectBindArgs bind;
    bind.session_id = reader.session_id;
    bind.channel_use = wire::ChannelUse::kReferences;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    return bind;
  }
  static wire::ExportCacheRes Where(Reader& reader, const wire::FileHandle& file) {
    wire::ExportCacheArgs args;
    args.filehandle = file;
    auto reply = reader.session->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.res.block_bytes, kBlock);
    return reply.res;
  }
  static std::vector<wire::BlockReference> References(Reader& reader, const wire::FileHandle& file,
                                                      uint32_t count) {
    wire::GetRefsArgs args;
    args.filehandle = file;
    args.count = count;
    auto reply = reader.session->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.references;
  }
  // Reads into `memory`. False: the channel has ended.
  static bool Read(RawClient& channel, DirectMemory& memory, uint32_t context, uint64_t address,
                   uint32_t size) {
    std::memset(memory.bytes.data(), 0xee, memory.bytes.size());
    memory.bytes[size - 1] = std::byte{0xee};
    const dat::Segment into{memory.bytes.data(), size, memory.region.get()};
    if (!channel.endpoint().PostRdmaRead(0, {&into, 1}, {address, context}).ok()) return false;
    const absl::Time end = Loop::Now() + kPatience;
    // The version at the end of a frame is never 0xeeee...
    while (!channel.closed() && memory.bytes[size - 1] == std::byte{0xee} && Loop::Now() < end) {
      channel.Poll();
    }
    return !channel.closed();
  }
};

// Shows ODAFS-02, ODAFS-07: a client reads the whole slab of its export, and finds only blocks of
// that export there. A read beyond it ends the channel, not the session.
TEST_F(ReferencesTest, AClientReachesTheSlabOfItsExportAndNothingElse) {
  StartServer();
  WriteFile("a/file", std::string(3 * kBlock, 'a'));
  WriteFile("b/file", std::string(3 * kBlock, 'b'));
  Reader one = Start(1), two = Start(2);
  const wire::FileHandle in_a = LookUp(*one.session, {"a", "file"});
  const wire::FileHandle in_b = LookUp(*two.session, {"b", "file"});
  const wire::ExportCacheRes cache_a = Where(one, in_a), cache_b = Where(two, in_b);
  EXPECT_EQ(cache_a.size_bytes, kSlab);
  const auto references = References(one, in_a, 10);
  ASSERT_EQ(references.size(), 2u);  // not the block that ends the file
  ASSERT_EQ(References(two, in_b, 10).size(), 2u);
  DirectMemory memory = one.session->NewMemory(kSlab, dat::Access::kLocal);
  for (const wire::BlockReference& each : references) {
    ASSERT_TRUE(Read(*one.channel, memory, cache_a.context, cache_a.address + each.position,
                     wire::kExportedFrame));
    const auto frame = std::span(memory.bytes).first<wire::kExportedFrame>();
    EXPECT_TRUE(wire::IsExported(frame, each.version));
    EXPECT_EQ(frame[wire::kExportedEdge], std::byte{'a'});
    EXPECT_FALSE(wire::IsExported(frame, each.version + 2));
  }
  // All frames: the last one ends before the end of the slab.
  const auto all = static_cast<uint32_t>(63 * wire::kExportedStride + wire::kExportedFirst +
                                         wire::kExportedFrame);
  ASSERT_TRUE(Read(*one.channel, memory, cache_a.context, cache_a.address, all));
  // It contains no part of the other's blocks; single bytes may be those of a checksum.
  EXPECT_EQ(std::search_n(memory.bytes.begin(), memory.bytes.end(), 16, std::byte{'b'}),
            memory.bytes.end());
  EXPECT_GE(std::count(memory.bytes.begin(), memory.bytes.end(), std::byte{'a'}), 2 * kBlock);
  // With the key of another client it reads nothing.
  EXPECT_FALSE(Read(*one.channel, memory, cache_b.context, cache_b.address, 64) &&
               cache_b.context != cache_a.context);
  EXPECT_EQ(one.session->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  // Beyond the end.
  EXPECT_FALSE(Read(*two.channel, memory, cache_b.context, cache_b.address + kSlab - 32, 64));
  EXPECT_EQ(two.session->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  // The channel can be bound again, and its memory must be requested again.
  two.channel = Channel(two, 2);
  EXPECT_EQ(two.channel->Call(Bind(two)).name(), "DAFS_STATUS_OK");
  wire::GetRefsArgs early;
  early.filehandle = in_b;
  early.count = 1;
  EXPECT_EQ(two.session->Call(early).name(), "DAFSERR_ILLEGAL_STATE");
  Where(two, in_b);
  EXPECT_EQ(References(two, in_b, 10).size(), 2u);
}

TEST_F(ReferencesTest, WrongRequestsAreRefused) {
  StartServer();
  WriteFile("a/file", std::string(3 * kBlock, 'a'));
  Reader none = Start(1, /*asks=*/false, /*binds=*/false);
  const wire::FileHandle file = LookUp(*none.session, {"a", "file"});
  wire::ExportCacheArgs where;
  where.filehandle = file;
  EXPECT_EQ(none.session->Call(where).name(), "DAFSERR_NOTSUPP");
  auto channel = Channel(none, 1);
  EXPECT_EQ(channel->Call(Bind(none)).name(), "DAFSERR_ILLEGAL_STATE");  // not granted
  Reader reader = Start(2, true, /*binds=*/false);
  EXPECT_EQ(reader.session->Call(where).name(), "DAFSERR_ILLEGAL_STATE");
  // A connection of another type cannot become one, nor one of this type something else.
  auto other = Channel(reader, 2, wire::kChannelRdmaRead);
  EXPECT_EQ(other->Call(Bind(reader)).name(), "DAFSERR_ILLEGAL_STATE");
  auto session_like = Channel(reader, 2);
  EXPECT_NE(session_like->Call(ConnectArgs("c9")).name(), "DAFS_STATUS_OK");
  reader.channel = Channel(reader, 2);
  EXPECT_EQ(reader.channel->Call(Bind(reader)).name(), "DAFS_STATUS_OK");
  where.filehandle = Root(*reader.session);
  EXPECT_EQ(reader.session->Call(where).name(), "DAFSERR_NOTSUPP");  // above the exports
  Where(reader, file);
  wire::GetRefsArgs args;
  args.filehandle = file;
  args.count = 1;
  args.offset = 100;
  EXPECT_EQ(reader.session->Call(args).name(), "DAFSERR_INVAL");
  args.offset = 0;
  args.count = 0;
  EXPECT_EQ(reader.session->Call(args).name(), "DAFSERR_INVAL");
  args.count = wire::kReferencesMax + 1;
  EXPECT_EQ(reader.session->Call(args).name(), "DAFSERR_INVAL");
  args.count = 1;
  args.offset = uint64_t{1} << 62;
  EXPECT_EQ(reader.session->Call(args).res.references.size(), 0u);
  args.offset = 0;
  args.filehandle.fileid.bytes[0] ^= 1;
  EXPECT_NE(reader.session->Call(args).name(), "DAFS_STATUS_OK");
}

TEST_F(ReferencesTest, AServerWithoutTheCacheGrantsNothing) {
  options_.export_cache_bytes = 0;
  StartServer();
  Reader reader = Start(1, /*asks=*/false, /*binds=*/false);
  wire::ExtensionsArgs args;
  args.wanted = wire::kExtensionReferences;
  EXPECT_EQ(reader.session->Call(args).res.granted, 0u);
  auto channel = Channel(reader, 1);
  EXPECT_NE(channel->Call(Bind(reader)).name(), "DAFS_STATUS_OK");
}

// A file that its reader may lose access to without an open is not in the cache.
TEST_F(ReferencesTest, AFileWithAFencingListHasNoReferences) {
  StartServer();
  WriteFile("a/file", std::string(3 * kBlock, 'a'));
  Reader reader = Start(1);
  const wire::FileHandle file = LookUp(*reader.session, {"a", "file"});
  const wire::ExportCacheRes cache = Where(reader, file);
  const auto before = References(reader, file, 2);
  ASSERT_EQ(before.size(), 2u);
  wire::SetFencingListArgs fence;
  fence.filehandle = file;
  fence.object = wire::FenceObject::kFile;
  fence.access = wire::FenceAccess::kAllow;
  fence.update = wire::FenceUpdate::kOverwrite;
  fence.fence_list = {"node1"};
  EXPECT_EQ(reader.session->Call(fence).name(), "DAFS_STATUS_OK");
  DirectMemory memory = reader.session->NewMemory(wire::kExportedFrame, dat::Access::kLocal);
  ASSERT_TRUE(Read(*reader.channel, memory, cache.context, cache.address + before[0].position,
                   wire::kExportedFrame));
  EXPECT_FALSE(
      wire::IsExported(std::span(memory.bytes).first<wire::kExportedFrame>(), before[0].version));
  wire::GetRefsArgs args;
  args.filehandle = file;
  args.count = 2;
  EXPECT_EQ(reader.session->Call(args).res.references.size(), 0u);
}

}  // namespace
}  // namespace dafs::server
