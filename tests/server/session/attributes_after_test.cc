// Attributes that responses carry after their results. Spec: WIRE 9.8.
#include "wire/codec/attributes_after.h"

#include <string>

#include "absl/time/clock.h"
#include "tests/server/promises_fixture.h"

namespace dafs::server {
namespace {

class AttributesAfterTest : public PromisesTest {
 protected:
  void Serve() {
    options_.exports[0].only_clients_change = true;
    StartServer();
    WriteFile("a/f", "content");
    client_ = Connect("client");
    EXPECT_GT(Admit(*client_), 0u);
  }
  void Extend() {
    wire::ExtensionsArgs args;
    args.wanted = wire::kExtensionAttributesAfter;
    EXPECT_EQ(client_->session->Call(args).res.granted, args.wanted);
  }
  template <class Args>
  auto Call(const Args& args, uint16_t flags) {
    EXPECT_TRUE(client_->session->SendRequest(args, 0, flags));
    return client_->session->ReceiveReply<Args>();
  }
  wire::AttributesAfter After(const auto& reply) {
    wire::AttributesAfter after;
    EXPECT_NE(reply.header.attributes_at, 0u);
    EXPECT_TRUE(wire::DecodeAttributes(reply.message, reply.header.attributes_at,
                                       client_->session->order, after)
                    .ok());
    return after;
  }
  wire::FileAttributes Getattr(const wire::FileHandle& file) {
    wire::GetattrInlineArgs args;
    args.filehandle = file;
    args.attr_request_bitmap = wire::kAttributesAfter;
    auto reply = client_->session->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.obj_attributes;
  }
  wire::LookupArgs Lookup(const std::string& name) {
    wire::LookupArgs args;
    args.directory = client_->directory;
    args.path = {name};
    return args;
  }

  static constexpr uint16_t kPromised = wire::kSpcondAttributes | wire::kSpcondOnlyClients;
  std::unique_ptr<PromisedClient> client_;
};

TEST_F(AttributesAfterTest, ComeOnlyToSessionsThatWantThem) {
  Serve();
  EXPECT_EQ(Call(Lookup("f"), wire::kChfAttributes).name(), "DAFSERR_CHAIN_FORM");
  Extend();
  auto reply = Call(Lookup("f"), wire::kChfAttributes);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  const wire::AttributesAfter after = After(reply);
  EXPECT_EQ(after.current, Getattr(reply.res.filehandle));
  EXPECT_EQ(after.current_promise, kPromised);
  EXPECT_EQ(after.other.included, 0u);
  EXPECT_EQ(Call(Lookup("f"), 0).header.attributes_at, 0u);
  reply = Call(Lookup("absent"), wire::kChfAttributes);
  EXPECT_EQ(reply.name(), "DAFSERR_NOENT");
  EXPECT_EQ(reply.header.attributes_at, 0u);
}

// The request has changed what it reports, and other clients are not promised that any more.
TEST_F(AttributesAfterTest, NewDirectoryAndItsParentArePromised) {
  Serve();
  Extend();
  auto reply = Call(MakeDirectory(client_->directory, "d"), wire::kChfAnyAttributes);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_NE(reply.header.spec_cond & wire::kSpcondNames, 0);
  const wire::AttributesAfter after = After(reply);
  EXPECT_EQ(after.current, Getattr(reply.res.filehandle));
  EXPECT_EQ(after.other, Getattr(client_->directory));
  EXPECT_EQ(after.current_promise, kPromised);
  EXPECT_EQ(after.other_promise, kPromised);
}

// The promise is kept: the client is called before another changes the file.
TEST_F(AttributesAfterTest, PromiseOfASetattrIsKept) {
  Serve();
  Extend();
  wire::SetattrInlineArgs set;
  set.filehandle = LookUp(*client_->session, {"a", "f"});
  set.obj_attributes.mode = 0640;
  set.obj_attributes.set(wire::kFattrMode);
  auto reply = Call(set, wire::kChfAttributes);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  const wire::AttributesAfter after = After(reply);
  EXPECT_EQ(after.current.mode, 0640u);
  EXPECT_EQ(after.current_promise, kPromised);
  auto other = Connect("other");
  set.obj_attributes.mode = 0600;
  ASSERT_TRUE(other->session->SendRequest(set));
  auto announced = client_->Take();
  ASSERT_TRUE(announced);
  ASSERT_EQ(announced->changed.size(), 1u);
  EXPECT_EQ(announced->changed[0].filehandle, set.filehandle);
  EXPECT_EQ(Getattr(set.filehandle).mode, 0640u);
  client_->Answer(*announced);
  EXPECT_EQ(other->session->ReceiveReply<wire::SetattrInlineArgs>().name(), "DAFS_STATUS_OK");
}

// Another client writes the file: no promise, as in the response to a GETATTR.
TEST_F(AttributesAfterTest, FileThatAnotherClientWritesIsNotPromised) {
  Serve();
  Extend();
  auto other = Connect("other");
  wire::OpenHandleArgs open;
  open.filehandle = LookUp(*other->session, {"a", "f"});
  open.share_access = wire::kShareWrite;
  EXPECT_EQ(other->session->Call(open).name(), "DAFS_STATUS_OK");
  const wire::AttributesAfter after = After(Call(Lookup("f"), wire::kChfAttributes));
  EXPECT_NE(after.current.included, 0u);
  EXPECT_EQ(after.current_promise, 0);
}

// The Response Cache has the response without them: they may be old when it is fetched.
TEST_F(AttributesAfterTest, AreNotPartOfTheRecordedResponse) {
  Serve();
  Extend();
  const wire::RequestHeader header = client_->session->Header(0, wire::kChfAnyAttributes);
  ASSERT_TRUE(client_->session->Send(
      client_->session->Encode(header, MakeDirectory(client_->directory, "d"))));
  auto made = client_->session->ReceiveReply<wire::CreateArgs>();
  ASSERT_EQ(made.name(), "DAFS_STATUS_OK");
  wire::FetchResponseArgs fetch;
  fetch.session_id = client_->negotiated.session_id;
  fetch.xid_stream = header.stream_id;
  fetch.xid_seq = header.seq_number;
  fetch.procedure = static_cast<uint32_t>(wire::Proc::kCreate);
  client_->back.reset();
  client_->session.reset();
  auto again = Connect("client");
  ASSERT_TRUE(again->session->SendRequest(fetch));
  auto fetched = again->session->ReceiveReply<wire::CreateArgs>();
  const absl::Time end = absl::Now() + kPatience;
  // Until the server has seen the end of the session.
  while (fetched.name() == "DAFSERR_BAD_SESSION" && absl::Now() < end) {
    ASSERT_TRUE(again->session->SendRequest(fetch));
    fetched = again->session->ReceiveReply<wire::CreateArgs>();
  }
  ASSERT_EQ(fetched.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(fetched.res, made.res);
  EXPECT_EQ(fetched.header.attributes_at, 0u);
  EXPECT_EQ(fetched.message.size(), made.header.attributes_at);
}

}  // namespace
}  // namespace dafs::server
