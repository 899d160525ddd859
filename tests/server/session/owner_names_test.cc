// A server with an ID-mapping domain. The helper is the real one, with the users of this machine.
// Spec: 4.4.3, 6.1.5; WIRE R90.
#include "server/session/owner_names.h"

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

constexpr uint64_t kOwners = wire::kFattrOwner | wire::kFattrOwnerGroup;
constexpr uint32_t kWithoutName = 54321;

class OwnerNamesTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    options_.ids = std::make_shared<auth::IdMap>(
        auth::IdMapOptions{.helper = DAFS_IDMAP, .domain = "dafs.test", .config = "/dev/null"});
    WriteFile("a/file", "content");
    StartServer();
    client_ = Session();
    ActAsRoot(*client_);
    file_ = LookUp(*client_, {"a", "file"});
  }
  // Sends the request until its status is not DELAY.
  template <class Args>
  auto Ask(const Args& args) {
    auto reply = client_->Call(args);
    const absl::Time end = Loop::Now() + absl::Seconds(20);
    while (reply.name() == "DAFSERR_DELAY" && Loop::Now() < end) {
      ++delays_;
      absl::SleepFor(absl::Milliseconds(5));
      reply = client_->Call(args);
    }
    return reply;
  }
  wire::FileAttributes Get(uint64_t bitmap) {
    wire::GetattrInlineArgs args;
    args.filehandle = file_;
    args.attr_request_bitmap = bitmap;
    auto reply = Ask(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.obj_attributes;
  }
  wire::SetattrInlineArgs ToSet(const std::string& owner, const std::string& group) const {
    wire::SetattrInlineArgs args;
    args.filehandle = file_;
    args.obj_attributes.set(wire::kFattrOwner);
    args.obj_attributes.owner = owner;
    args.obj_attributes.set(wire::kFattrOwnerGroup);
    args.obj_attributes.owner_group = group;
    return args;
  }
  struct stat Stat() const {
    struct stat st = {};
    EXPECT_EQ(stat(Path("a/file").c_str(), &st), 0);
    return st;
  }

  std::unique_ptr<RawClient> client_;
  wire::FileHandle file_;
  int delays_ = 0;
};

TEST_F(OwnerNamesTest, OwnersAreNamesOnceTheyWereLookedUp) {
  EXPECT_EQ(chown(Path("a/file").c_str(), 1, 2), 0);
  wire::FileAttributes attributes = Get(kOwners);
  EXPECT_EQ(attributes.owner, "daemon@dafs.test");
  EXPECT_EQ(attributes.owner_group, "bin@dafs.test");
  EXPECT_GT(delays_, 0) << "a name was there before its lookup";
  delays_ = 0;
  attributes = Get(kOwners);
  EXPECT_EQ(attributes.owner, "daemon@dafs.test");
  EXPECT_EQ(delays_, 0);
  EXPECT_EQ(chown(Path("a/file").c_str(), kWithoutName, kWithoutName), 0);
  attributes = Get(kOwners);
  EXPECT_EQ(attributes.owner, std::to_string(kWithoutName));
  EXPECT_EQ(attributes.owner_group, std::to_string(kWithoutName));
}

TEST_F(OwnerNamesTest, OwnersAreSetByNameOrNumber) {
  EXPECT_EQ(Ask(ToSet("daemon@dafs.test", "bin@dafs.test")).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Stat().st_uid, 1u);
  EXPECT_EQ(Stat().st_gid, 2u);
  EXPECT_EQ(Ask(ToSet("2", "daemon@dafs.test")).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Stat().st_uid, 2u);
  EXPECT_EQ(Stat().st_gid, 1u);
  for (const char* unknown : {"no-such-user@dafs.test", "daemon@elsewhere.test", "daemon", ""}) {
    EXPECT_EQ(Ask(ToSet(unknown, "1")).name(), "DAFSERR_INVAL") << unknown;
  }
  EXPECT_EQ(Stat().st_uid, 2u);
}

TEST_F(OwnerNamesTest, OwnersAreComparedAsNumbers) {
  EXPECT_EQ(chown(Path("a/file").c_str(), 1, 2), 0);
  wire::VerifyArgs args;
  args.filehandle = file_;
  args.obj_attributes.set(wire::kFattrOwner);
  args.obj_attributes.owner = "daemon@dafs.test";
  EXPECT_EQ(Ask(args).name(), "DAFS_STATUS_OK");
  args.obj_attributes.owner = "1";
  EXPECT_EQ(Ask(args).name(), "DAFS_STATUS_OK");
  args.obj_attributes.owner = "bin@dafs.test";
  EXPECT_EQ(Ask(args).name(), "DAFSERR_NOT_SAME");
}

TEST_F(OwnerNamesTest, EntriesOfAListHaveNames) {
  const auto at = [this](const std::string& name) { return Path("a/" + name); };
  for (uint32_t i = 0; i < 6; ++i) {
    const std::string name = "of-" + std::to_string(i);
    WriteFile("a/" + name, "");
    EXPECT_EQ(chown(at(name).c_str(), i % 3, kWithoutName), 0);
  }
  wire::ReaddirInlineArgs args;
  args.filehandle = LookUp(*client_, {"a"});
  args.maxcount = 8000;
  args.attr_request_bitmap = kOwners;
  auto reply = Ask(args);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  const std::string names[] = {"root@dafs.test", "daemon@dafs.test", "bin@dafs.test"};
  size_t seen = 0;
  for (const auto& entry : reply.res.entries) {
    if (entry.name.rfind("of-", 0) != 0) continue;
    ++seen;
    EXPECT_EQ(entry.attrs.owner, names[static_cast<size_t>(entry.name[3] - '0') % 3]);
    EXPECT_EQ(entry.attrs.owner_group, std::to_string(kWithoutName));
  }
  EXPECT_EQ(seen, 6u);
}

TEST_F(OwnerNamesTest, ClientsLearnThatOwnersAreNames) {
  wire::ExtensionsArgs args;
  args.wanted = wire::kExtensionOwnerNames;
  EXPECT_EQ(client_->Call(args).res.granted, wire::kExtensionOwnerNames);
  options_.ids = nullptr;
  StartServer();
  auto other = Session();
  EXPECT_EQ(other->Call(args).res.granted, 0u);
}

TEST_F(OwnerNamesTest, NamesInAListOfRightsAreConverted) {
  auth::IdMap& ids = *options_.ids;
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrAcl);
  const auto add = [&](const char* who, uint32_t flag) {
    attributes.acl.push_back(
        {.type = wire::kAceAllowed, .flag = flag, .access_mask = 1, .who = who});
  };
  add("OWNER@", 0);
  add("daemon@dafs.test", 0);
  add("bin@dafs.test", wire::kAceIdentifierGroup);
  add("12345", 0);
  ASSERT_TRUE(ids.Id(auth::IdKind::kUser, "daemon@dafs.test").ok());
  ASSERT_TRUE(ids.Id(auth::IdKind::kGroup, "bin@dafs.test").ok());
  EXPECT_EQ(NumberOwners(&ids, attributes), wire::DafsStatus::kOk);
  const auto who = [&] {
    std::vector<std::string> all;
    for (const wire::Ace& ace : attributes.acl) all.push_back(ace.who);
    return all;
  };
  EXPECT_THAT(who(), testing::ElementsAre("OWNER@", "1", "2", "12345"));
  for (const uint32_t id : {1u, 12345u}) static_cast<void>(ids.Name(auth::IdKind::kUser, id));
  ASSERT_TRUE(ids.Name(auth::IdKind::kGroup, 2).ok());
  EXPECT_EQ(NameOwners(&ids, attributes, nullptr), wire::DafsStatus::kOk);
  EXPECT_THAT(who(), testing::ElementsAre("OWNER@", "daemon@dafs.test", "bin@dafs.test", "12345"));
}

TEST_F(OwnerNamesTest, FailedLookupSendsNoNumberAndNoPromise) {
  auth::IdMap ids({.helper = "/nowhere/dafs-idmap", .domain = "dafs.test"});
  EXPECT_FALSE(ids.Name(auth::IdKind::kUser, 1).ok());
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrOwner);
  attributes.owner = "1";
  uint16_t promises = wire::kSpcondAttributes | wire::kSpcondNames;
  EXPECT_EQ(NameOwners(&ids, attributes, &promises), wire::DafsStatus::kOk);
  EXPECT_EQ(attributes.owner, "nobody@dafs.test");
  EXPECT_EQ(promises, wire::kSpcondNames);
  attributes.owner = "daemon@dafs.test";
  EXPECT_EQ(NumberOwners(&ids, attributes), wire::DafsStatus::kServerFault);
  wire::FileAttributes listed;  // to be written back
  listed.set(wire::kFattrAcl);
  listed.acl.push_back({.type = wire::kAceAllowed, .access_mask = 1, .who = "1"});
  EXPECT_EQ(NameOwners(&ids, listed, &promises), wire::DafsStatus::kOk);
  EXPECT_EQ(listed.acl[0].who, "1");
}

TEST_F(OwnerNamesTest, ServerDoesNotStartWithoutItsHelper) {
  options_.ids = std::make_shared<auth::IdMap>(
      auth::IdMapOptions{.helper = "/nowhere/dafs-idmap", .domain = "dafs.test"});
  server_.reset();
  const auto started = Server::Start(options_, {.tcp = provider_.get()});
  EXPECT_EQ(started.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(started.status().message()), testing::HasSubstr("/nowhere/dafs-idmap"));
}

}  // namespace
}  // namespace dafs::server
