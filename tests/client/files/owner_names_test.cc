// Owners that a server sends as names are numbers of this machine for the callers of operations,
// and the reverse. Spec: 6.1.5, WIRE R90.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/state/promises.h"
#include "tests/client/fake_id_names.h"
#include "tests/client/scripted_fixture.h"
#include "wire/codec/attributes_after.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

wire::FileAttributes Owned(std::string owner, std::string group) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrOwner | wire::kFattrOwnerGroup);
  attributes.owner = std::move(owner);
  attributes.owner_group = std::move(group);
  return attributes;
}

class OwnerNamesTest : public ScriptedTest {
 protected:
  void SetUp() override {
    ScriptedTest::SetUp();
    names_ = std::make_shared<FakeIdNames>();
    options_.id_names = names_;
    server_.extensions = wire::kExtensionOwnerNames;
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      return Script(c, request);
    };
    file_.fileid.bytes[0] = 'f';
  }
  // Answers GETATTR with `owned_` and notes what SETATTR sets.
  bool Script(ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kGetattrInline) {
      wire::GetattrInlineRes res;
      res.obj_attributes = owned_;
      c.Answer(request, res);
      return true;
    }
    if (request.header.procedure == Proc::kSetattrInline) {
      sent_.push_back(request.Decode<wire::SetattrInlineArgs>().obj_attributes);
    }
    return false;
  }
  absl::StatusOr<Attributes> Stat() {
    return Await(files_->attributes().GetAttributes(user_, file_));
  }
  static void ExpectOwner(const absl::StatusOr<Attributes>& attributes, const std::string& owner,
                          const std::string& group) {
    ASSERT_OK(attributes);
    EXPECT_EQ(attributes->owner, owner);
    EXPECT_EQ(attributes->owner_group, group);
  }
  void Begin() {
    client_->promises().Ask();
    EXPECT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  }

  std::shared_ptr<FakeIdNames> names_;
  wire::FileAttributes owned_ = Owned("alice@example.com", "staff@example.com");
  std::vector<wire::FileAttributes> sent_;  // by SETATTR
  wire::FileHandle file_;
};

TEST_F(OwnerNamesTest, NamesOfGetattrAreNumbers) {
  MakeFiles();
  ExpectOwner(Stat(), "5001", "6001");
  EXPECT_EQ(names_->asked(), 2);
  ExpectOwner(Stat(), "5001", "6001");
  EXPECT_EQ(names_->asked(), 2);
}

TEST_F(OwnerNamesTest, NumbersAndOtherTextStay) {
  MakeFiles();
  owned_ = Owned("0", "100");
  ExpectOwner(Stat(), "0", "100");
  owned_ = Owned("OWNER@", "staff");
  ExpectOwner(Stat(), "OWNER@", "staff");
  EXPECT_EQ(names_->asked(), 0);
}

TEST_F(OwnerNamesTest, ClientWithoutAMapGetsTheText) {
  options_.id_names = nullptr;
  MakeFiles();
  ExpectOwner(Stat(), "alice@example.com", "staff@example.com");
  EXPECT_EQ(client_->limits().extensions & wire::kExtensionOwnerNames, 0u);
}

TEST_F(OwnerNamesTest, ServerThatDoesNotAnnounceNamesMaySendThem) {
  server_.extensions = 0;
  MakeFiles();
  ExpectOwner(Stat(), "5001", "6001");
}

TEST_F(OwnerNamesTest, NamesOfOpenAndOfItsDirectoryAreNumbers) {
  MakeFiles();
  OpenRequest request;
  request.directory = file_;
  request.name = "name";
  request.create = true;
  request.attributes = Owned("5001", "6001");
  Attributes after;
  const absl::StatusOr<OpenFile> open = Await(files_->opens().Open(user_, request, &after));
  ASSERT_OK(open);
  EXPECT_EQ(open->attributes.owner, "5001");
  EXPECT_EQ(after.owner_group, "6001");
}

TEST_F(OwnerNamesTest, NamesOfAttachedAttributesAreNumbers) {
  server_.extensions |= wire::kExtensionAttributesAfter;
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLookup) return false;
    wire::LookupRes found;
    found.filehandle.fileid.bytes[0] = 'l';
    std::vector<std::byte> bytes = c.Encoded(request, found, DafsStatus::kOk, {});
    const size_t size = bytes.size();
    bytes.resize(size + 4096);
    wire::AttributesAfter after;
    after.current = Owned("alice@example.com", "staff@example.com");
    const auto whole = wire::AppendAttributes(after, request.order, bytes, size, false);
    EXPECT_TRUE(whole.ok());
    bytes.resize(whole.value_or(0));
    c.Send(std::move(bytes));
    return true;
  };
  MakeFiles();
  const absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, file_, "name"));
  ASSERT_OK(node);
  EXPECT_EQ(server_.Count(Proc::kGetattrInline), 0);
  EXPECT_EQ(node->attributes.owner, "5001");
  EXPECT_EQ(node->attributes.owner_group, "6001");
}

TEST_F(OwnerNamesTest, EntriesOfADirectoryShareQuestions) {
  MakeFiles();
  std::vector<wire::FileAttributes> entries = {Owned("alice@example.com", "0"), Owned("7", "8"),
                                               Owned("alice@example.com", "staff@example.com")};
  std::vector<wire::FileAttributes*> some = {&entries[0], &entries[1], &entries[2]};
  absl::StatusOr<bool> has_all = Await(files_->directories().NumberOwners(some));
  ASSERT_OK(has_all);
  EXPECT_TRUE(*has_all);
  EXPECT_EQ(names_->asked(), 2);
  EXPECT_EQ(entries[0], Owned("5001", "0"));
  EXPECT_EQ(entries[1], Owned("7", "8"));
  EXPECT_EQ(entries[2], Owned("5001", "6001"));
  entries[1] = Owned("bob@example.com", "8");
  has_all = Await(files_->directories().NumberOwners(some));
  ASSERT_OK(has_all);
  EXPECT_FALSE(*has_all);
  EXPECT_EQ(entries[1], Owned("65534", "8"));
}

TEST_F(OwnerNamesTest, UnknownNameIs65534WithoutAPromise) {
  MakeFiles();
  server_.spec_cond = [](const Request&) { return wire::kSpcondAttributes; };
  Begin();
  absl::StatusOr<Attributes> attributes = Stat();
  ExpectOwner(attributes, "5001", "6001");
  EXPECT_TRUE(attributes->promise);
  owned_ = Owned("alice@example.com", "bob@example.com");
  for (int i = 0; i < 2; ++i) {  // asked, and kept
    attributes = Stat();
    ExpectOwner(attributes, "5001", "65534");
    EXPECT_FALSE(attributes->promise);
  }
  EXPECT_EQ(names_->asked(), 3);
}

TEST_F(OwnerNamesTest, FailedLookupIs65534) {
  MakeFiles();
  names_->Fail();
  ExpectOwner(Stat(), "65534", "65534");
}

TEST_F(OwnerNamesTest, OtherRequestsRunDuringALookup) {
  MakeFiles();
  names_->Hold();
  bool has_owner = false;
  auto slow = [&]() -> Task<void> {
    Task<absl::StatusOr<Attributes>> getting = files_->attributes().GetAttributes(user_, file_);
    const absl::StatusOr<Attributes> attributes = co_await getting;
    ExpectOwner(attributes, "5001", "6001");
    has_owner = true;
  };
  Start(slow());
  ASSERT_TRUE(Until([&] { return names_->asked() == 2; }));
  for (int i = 0; i < 3; ++i) ASSERT_OK(Await(files_->Null()));
  EXPECT_FALSE(has_owner);
  names_->Answer();
  EXPECT_TRUE(Until([&] { return has_owner; }));
}

TEST_F(OwnerNamesTest, ShutdownEndsALookup) {
  MakeFiles();
  names_->Hold();
  absl::Status ended;
  auto slow = [&]() -> Task<void> {
    Task<absl::StatusOr<Attributes>> getting = files_->attributes().GetAttributes(user_, file_);
    const absl::StatusOr<Attributes> attributes = co_await getting;
    ended = attributes.status();
  };
  Start(slow());
  ASSERT_TRUE(Until([&] { return names_->asked() == 2; }));
  files_->Shutdown();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  files_.reset();
  loop_.reset();
  names_->Answer();  // uses neither of them
}

TEST_F(OwnerNamesTest, SoftMountWaitsForALookupUntilItsDeadline) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(200);
  MakeFiles();
  names_->Hold();
  ExpectOwner(Stat(), "65534", "65534");
  names_->Answer();
  ExpectOwner(Stat(), "5001", "6001");
}

TEST_F(OwnerNamesTest, ChownSendsNames) {
  MakeFiles();
  const wire::StateId none;
  const auto set = [&](const wire::FileAttributes& attributes) {
    return Await(files_->attributes().SetAttributes(user_, file_, none, attributes));
  };
  ASSERT_OK(set(Owned("5001", "6001")));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0], Owned("alice@example.com", "staff@example.com"));
  // A number without a name.
  ASSERT_OK(set(Owned("5001", "4")));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1], Owned("alice@example.com", "4"));
}

// The number may be that of another user at the server.
TEST_F(OwnerNamesTest, ChownSendsNoNumberWhoseLookupFailed) {
  MakeFiles();
  names_->Fail();
  const auto set = Await(
      files_->attributes().SetAttributes(user_, file_, wire::StateId(), Owned("5001", "6001")));
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(sent_.size(), 0u);
}

TEST_F(OwnerNamesTest, ChownWaitsForNames) {
  MakeFiles();
  ASSERT_OK(Await(files_->Null()));
  names_->Hold();
  bool has_set = false;
  auto slow = [&]() -> Task<void> {
    const wire::FileAttributes owner = Owned("5001", "6001");
    Task<absl::StatusOr<Attributes>> setting =
        files_->attributes().SetAttributes(user_, file_, wire::StateId(), owner);
    const absl::StatusOr<Attributes> attributes = co_await setting;
    EXPECT_OK(attributes);
    has_set = true;
  };
  Start(slow());
  ASSERT_TRUE(Until([&] { return names_->asked() == 2; }));
  ASSERT_OK(Await(files_->Null()));
  EXPECT_EQ(sent_.size(), 0u);
  names_->Answer();
  ASSERT_TRUE(Until([&] { return has_set; }));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0], Owned("alice@example.com", "staff@example.com"));
}

TEST_F(OwnerNamesTest, ChownSendsNumbersToAServerWithoutNames) {
  server_.extensions = 0;
  MakeFiles();
  const wire::FileAttributes owner = Owned("5001", "6001");
  ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, wire::StateId(), owner)));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0], owner);
}

// Another server, after a failover, may use numbers.
TEST_F(OwnerNamesTest, RepetitionSendsWhatItsServerPrefers) {
  MakeFiles();
  int tries = 0;
  server_.script = [this, &tries](ScriptedConnection& c, const Request& request) {
    const bool is_first = request.header.procedure == Proc::kSetattrInline && tries++ == 0;
    if (!is_first) return Script(c, request);
    sent_.push_back(request.Decode<wire::SetattrInlineArgs>().obj_attributes);
    server_.extensions = 0;
    server_.Restart();
    return true;
  };
  const wire::FileAttributes owner = Owned("5001", "6001");
  ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, wire::StateId(), owner)));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0], Owned("alice@example.com", "staff@example.com"));
  EXPECT_EQ(sent_[1], owner);
}

}  // namespace
}  // namespace dafs::client::testing
