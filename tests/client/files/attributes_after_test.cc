// Attributes that responses carry after their results take the place of GETATTRs. Spec: WIRE 9.8.
#include "wire/codec/attributes_after.h"

#include "client/state/promises.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

wire::FileAttributes WithNumber(uint64_t number) {
  wire::FileAttributes attributes;
  attributes.included = attributes.valid = wire::kFattrFileId;
  attributes.file_id = number;
  return attributes;
}

class AttributesAfterTest : public ScriptedTest {
 protected:
  void SetUp() override {
    ScriptedTest::SetUp();
    server_.extensions = wire::kExtensionAttributesAfter;
    child_.fileid.bytes[0] = 'c';
  }
  // Answers requests of this type, with the attributes that they want.
  template <class Args>
  void Answer(const wire::ResOf<Args>& res) {
    server_.script = [this, res](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != Args::kProc) return false;
      flags_ = request.header.chain_flags;
      std::vector<std::byte> bytes = c.Encoded(request, res, DafsStatus::kOk, {});
      const size_t size = bytes.size();
      bytes.resize(size + 4096);
      const auto whole = wire::AppendAttributes(after_, request.order, bytes, size, false);
      EXPECT_TRUE(whole.ok());
      bytes.resize(whole.value_or(0));
      c.Send(std::move(bytes));
      return true;
    };
  }
  void Begin() {
    client_->promises().Ask();
    EXPECT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  }

  wire::FileHandle dir_, child_;
  wire::AttributesAfter after_;
  uint16_t flags_ = 0;  // of the latest request
};

TEST_F(AttributesAfterTest, NoGetattrIsSentForWhatTheResponseCarries) {
  MakeFiles();
  Begin();
  after_.current = WithNumber(7);
  after_.current_promise = wire::kSpcondAttributes | wire::kSpcondOnlyClients;
  wire::LookupRes found;
  found.filehandle = child_;
  Answer<wire::LookupArgs>(found);
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_EQ(flags_, wire::kChfAttributes);
  EXPECT_EQ(node->attributes.file_id, 7u);
  EXPECT_TRUE(client_->promises().IsGood(node->attributes.promise, child_));
  EXPECT_TRUE(node->attributes.promise.only_clients);
  EXPECT_FALSE(node->names);

  after_.other = WithNumber(8);
  wire::CreateRes made;
  made.filehandle = child_;
  Answer<wire::CreateArgs>(made);
  Attributes after;
  node = Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes(), &after));
  ASSERT_OK(node);
  EXPECT_EQ(flags_, wire::kChfAnyAttributes);
  EXPECT_EQ(node->attributes.file_id, 7u);
  EXPECT_EQ(after.file_id, 8u);
  EXPECT_TRUE(node->attributes.promise);
  EXPECT_FALSE(after.promise);
  EXPECT_EQ(server_.Count(Proc::kGetattrInline), 0);
}

TEST_F(AttributesAfterTest, GetattrFollowsAResponseWithoutThem) {
  MakeFiles();
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_EQ(node->attributes.file_id, static_cast<uint64_t>('n'));
  EXPECT_EQ(server_.Count(Proc::kLookup), 1);
  EXPECT_EQ(server_.Count(Proc::kGetattrInline), 1);
  // Only those of the parent: the request that changes is not sent again.
  after_.other = WithNumber(8);
  wire::CreateRes made;
  made.filehandle = node->handle;
  Answer<wire::CreateArgs>(made);
  Attributes after;
  node = Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes(), &after));
  ASSERT_OK(node);
  EXPECT_EQ(node->attributes.file_id, static_cast<uint64_t>('n'));
  EXPECT_TRUE(after.valid != 0);
  EXPECT_EQ(server_.Count(Proc::kCreate), 1);
}

TEST_F(AttributesAfterTest, FailedRequestFailsAsInAChain) {
  MakeFiles();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLookup) return false;
    c.Refuse(request, DafsStatus::kNoEnt);
    return true;
  };
  const absl::Status status = Await(files_->names().Lookup(user_, dir_, "name")).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kNoEnt);
  EXPECT_EQ(server_.Count(Proc::kGetattrInline), 0);
}

TEST_F(AttributesAfterTest, MalformedOnesEndTheSession) {
  MakeFiles();
  int answers = 0;
  server_.script = [&answers](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLookup || answers++ > 0) return false;
    std::vector<std::byte> bytes = c.Encoded(request, wire::LookupRes(), DafsStatus::kOk, {});
    bytes[36] = static_cast<std::byte>(bytes.size());  // they would begin after the message
    c.Send(std::move(bytes));
    return true;
  };
  EXPECT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(server_.connections_made, 2);
}

// Otherwise the open of the response would stay, beside that of its repetition.
TEST_F(AttributesAfterTest, MalformedOnesLeaveNoOpen) {
  MakeFiles();
  int answers = 0;
  server_.script = [&answers](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen || answers++ > 0) return false;
    wire::OpenRes res;
    res.filehandle.fileid.bytes[0] = 'o';
    res.state_id.bytes[0] = 's';
    std::vector<std::byte> bytes = c.Encoded(request, res, DafsStatus::kOk, {});
    bytes[36] = static_cast<std::byte>(bytes.size());
    c.Send(std::move(bytes));
    return true;
  };
  OpenRequest request;
  request.directory = dir_;
  request.name = "name";
  ASSERT_OK(Await(files_->opens().Open(user_, request)));
  EXPECT_EQ(server_.connections_made, 2);
  EXPECT_EQ(client_->opens().size(), 1u);
}

}  // namespace
}  // namespace dafs::client::testing
