// EXTENSIONS: our clients and this server agree on what the protocol does not define. Spec: R15;
// wire/messages/posix.h.
#include "tests/server/files_in.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

constexpr int64_t kOld = 1'000'000'000;

class ExtensionsTest : public ServerTest {
 protected:
  static uint64_t Ask(RawClient& client, uint64_t wanted, const wire::FileHandle& handle = {}) {
    wire::ExtensionsArgs args;
    args.wanted = wanted;
    args.filehandle = handle;
    auto reply = client.Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.granted;
  }
  static std::string LookupStatus(RawClient& client, const wire::FileHandle& directory,
                                  const std::string& name) {
    wire::LookupArgs args;
    args.directory = directory;
    args.path = {name};
    return client.Call(args).name();
  }
  // Exports the directory again with `squash`. Returns the granted extensions.
  uint64_t SquashedWith(Squash squash) {
    options_.exports[0].squash = squash;
    StartServer();
    auto client = Session();
    return Ask(*client, wire::kExtensionSquashed, LookUp(*client, {"a"}));
  }
  // Sets an old access time and reads the whole file. Returns whether the read moved the time.
  bool ReadMovesAtime(RawClient& client, uint32_t cache_hint) {
    const std::string path = Path("a/file");
    const timespec times[2] = {{kOld, 0}, {kOld, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    wire::ReadInlineArgs read;
    read.filehandle = LookUp(client, {"a", "file"});
    read.byte_count = 100;
    read.cache_hint = cache_hint;
    auto reply = client.Call(read);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    struct stat st;
    EXPECT_EQ(stat(path.c_str(), &st), 0);
    return st.st_atim.tv_sec != kOld;
  }
};

TEST_F(ExtensionsTest, GrantsOnlyKnownAndRequestedOnes) {
  StartServer();
  auto client = Session();
  EXPECT_EQ(Ask(*client, 0), 0u);
  EXPECT_EQ(Ask(*client, uint64_t{1} << 63), 0u);
  EXPECT_EQ(Ask(*client, wire::kExtensionByteNames | uint64_t{1} << 40), wire::kExtensionByteNames);
}

// Shows WIRE 2.7 (R79) for a client that has not requested byte names, and for one that has.
TEST_F(ExtensionsTest, NamesAreBytesOnlyOnSessionsThatRequestIt) {
  WriteFile("a/caf\xe9", "there");
  StartServer();
  auto asked = Session("asked");
  auto other = Session("other");
  ActAsRoot(*asked);
  ActAsRoot(*other);
  const wire::FileHandle a = LookUp(*asked, {"a"});
  EXPECT_EQ(LookupStatus(*asked, a, "caf\xe9"), "DAFSERR_INVAL");
  EXPECT_EQ(Ask(*asked, wire::kExtensionByteNames), wire::kExtensionByteNames);
  EXPECT_EQ(Ask(*asked, 0), 0u);  // an empty request withdraws nothing
  EXPECT_EQ(LookupStatus(*asked, a, "caf\xe9"), "DAFS_STATUS_OK");
  EXPECT_EQ(LookupStatus(*asked, a, "\xff"), "DAFSERR_NOENT");
  for (const std::string& bad : {std::string("a/b"), std::string("a\0b", 3), std::string("/")}) {
    EXPECT_EQ(LookupStatus(*asked, a, bad), "DAFSERR_INVAL");
  }
  EXPECT_EQ(LookupStatus(*other, a, "caf\xe9"), "DAFSERR_INVAL");
  auto again = Session("asked");  // another session of the same client
  EXPECT_EQ(LookupStatus(*again, a, "caf\xe9"), "DAFSERR_INVAL");
}

// Shows DAFS-3.2.3.2.2-02 (READLINK, inline).
TEST_F(ExtensionsTest, EveryProcedureAcceptsByteNames) {
  StartServer();
  auto client = Session();
  ActAsRoot(*client);
  Ask(*client, wire::kExtensionByteNames);
  const wire::FileHandle a = LookUp(*client, {"a"});
  auto opened = client->Call(OpenArgs(a, "\xff.open", true));
  EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
  wire::CreateArgs create;
  create.filehandle = a;
  create.component = "\xff.dir";
  create.obj_type = wire::ObjectType::kDir;
  EXPECT_EQ(client->Call(create).name(), "DAFS_STATUS_OK");
  create.component = "\xff.link";
  create.obj_type = wire::ObjectType::kLnk;
  create.linkdata = "\xfe/\xfd";
  auto made = client->Call(create);
  EXPECT_EQ(made.name(), "DAFS_STATUS_OK");
  wire::ReadlinkInlineArgs readlink;
  readlink.filehandle = made.res.filehandle;
  EXPECT_EQ(client->Call(readlink).res.link, "\xfe/\xfd");
  wire::MakeNodeArgs node;
  node.filehandle = a;
  node.component = "\xff.fifo";
  node.obj_type = wire::ObjectType::kFifo;
  EXPECT_EQ(client->Call(node).name(), "DAFS_STATUS_OK");
  wire::LinkArgs link;
  link.source_object = opened.res.filehandle;
  link.destination_object = a;
  link.newname = "\xff.second";
  EXPECT_EQ(client->Call(link).name(), "DAFS_STATUS_OK");
  wire::RenameArgs rename;
  rename.sourcedir = rename.targetdir = a;
  rename.oldname = "\xff.second";
  rename.newname = "\xff.moved";
  EXPECT_EQ(client->Call(rename).name(), "DAFS_STATUS_OK");
  wire::Rename2Args exchange;
  exchange.sourcedir = exchange.targetdir = a;
  exchange.oldname = "\xff.moved";
  exchange.newname = "\xff.dir";
  exchange.flags = wire::kRenameExchange;
  EXPECT_EQ(client->Call(exchange).name(), "DAFS_STATUS_OK");
  wire::CloseArgs close;
  close.filehandle = opened.res.filehandle;
  close.state_id = opened.res.state_id;
  EXPECT_EQ(client->Call(close).name(), "DAFS_STATUS_OK");
  wire::RemoveArgs remove;
  remove.filehandle = a;
  for (const char* name : {"\xff.open", "\xff.dir", "\xff.link", "\xff.fifo", "\xff.moved"}) {
    remove.target = name;
    EXPECT_EQ(client->Call(remove).name(), "DAFS_STATUS_OK");
  }
  EXPECT_EQ(FilesIn(Path("a")), 1u) << "more than the directory of removed open files";
}

TEST_F(ExtensionsTest, ReportsWhetherAnExportSquashesAllUsers) {
  EXPECT_EQ(SquashedWith(Squash::kNone), 0u);
  EXPECT_EQ(SquashedWith(Squash::kRoot), 0u);
  EXPECT_EQ(SquashedWith(Squash::kAll), wire::kExtensionSquashed);
  auto client = Session();
  EXPECT_EQ(Ask(*client, wire::kExtensionSquashed, Root(*client)), wire::kExtensionSquashed);
  EXPECT_EQ(Ask(*client, wire::kExtensionSquashed), 0u);  // without an export
  wire::ExtensionsArgs args;
  args.wanted = wire::kExtensionSquashed;
  args.filehandle.fileid.bytes[0] = 1;
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_BADHANDLE");
}

TEST_F(ExtensionsTest, PseudoDirectoryReportsTheExportsBelowThatAdmitTheClient) {
  constexpr uint64_t kBoth = wire::kExtensionSquashed | wire::kExtensionSquashedInPart;
  const auto exported = [&](const std::string& name, Squash squash) {
    Export e = options_.exports[0];
    e.name = name;
    e.squash = squash;
    return e;
  };
  options_.exports = {exported("/one/all", Squash::kAll), exported("/one/root", Squash::kRoot),
                      exported("/two/all", Squash::kAll), exported("/two/closed", Squash::kNone),
                      exported("/three", Squash::kNone)};
  options_.exports[3].clients = {*Cidr::Parse("192.0.2.0/24")};
  StartServer();
  auto client = Session();
  EXPECT_EQ(Ask(*client, kBoth, Root(*client)), wire::kExtensionSquashedInPart);
  EXPECT_EQ(Ask(*client, wire::kExtensionSquashed, Root(*client)), 0u);
  EXPECT_EQ(Ask(*client, kBoth, LookUp(*client, {"one"})), wire::kExtensionSquashedInPart);
  EXPECT_EQ(Ask(*client, kBoth, LookUp(*client, {"two"})), wire::kExtensionSquashed);
  EXPECT_EQ(Ask(*client, kBoth, LookUp(*client, {"one", "all"})), wire::kExtensionSquashed);
  EXPECT_EQ(Ask(*client, kBoth, LookUp(*client, {"three"})), 0u);
}

TEST_F(ExtensionsTest, ReadsKeepTheAccessTimeIfRequested) {
  WriteFile("a/file", "content");
  StartServer();
  auto client = Session();
  ActAsRoot(*client);
  if (!ReadMovesAtime(*client, 0)) GTEST_SKIP() << "the file system keeps no access times";
  EXPECT_TRUE(ReadMovesAtime(*client, wire::kCacheHintKeepAtime));  // not negotiated
  Ask(*client, wire::kExtensionReadKeepsAtime);
  EXPECT_FALSE(ReadMovesAtime(*client, wire::kCacheHintKeepAtime));
  EXPECT_TRUE(ReadMovesAtime(*client, 0));
  Ask(*client, wire::kExtensionKeepAtime);
  EXPECT_FALSE(ReadMovesAtime(*client, 0));
  auto other = Session("other");
  ActAsRoot(*other);
  EXPECT_TRUE(ReadMovesAtime(*other, 0));
}

}  // namespace
}  // namespace dafs::server
