// Clients with a Back-control Channel that take part in promises, and clients that change things.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/server_fixture.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/header.h"

namespace dafs::server {

// A client whose sessions have a Back-control Channel. The test answers what arrives there.
struct PromisedClient {
  std::unique_ptr<RawClient> session;
  std::unique_ptr<RawClient> back;
  wire::ClientConnectAuthRes negotiated;
  wire::FileHandle directory;  // "a"

  ~PromisedClient() {
    back.reset();  // before the domain that it uses
  }

  struct Announcement {
    wire::RequestHeader header;
    std::vector<wire::Changed> changed;
  };
  // Waits for the next BC_CHANGED; nullopt if the channel has ended.
  std::optional<Announcement> Take() {
    std::optional<Bytes> message = back->Receive();
    if (!message) return std::nullopt;
    auto header = wire::DecodeRequestHeader(*message, back->order);
    EXPECT_TRUE(header.ok());
    EXPECT_EQ(header->header.procedure, wire::Proc::kBcChanged);
    wire::BcChangedArgs args;
    EXPECT_EQ(wire::DecodeArgs(*message, back->order, args), wire::DafsStatus::kOk);
    return Announcement{header->header, std::move(args.changed)};
  }
  void Answer(const Announcement& announcement, wire::DafsStatus status = wire::DafsStatus::kOk) {
    Bytes out(wire::kHeaderSize);
    wire::EncodeResponseHeaderOnly(wire::ResponseTo(announcement.header, status, 8), back->order,
                                   out, false);
    EXPECT_TRUE(back->Send(out));
  }
  bool IsVoid() {
    auto reply = session->Call(wire::NullArgs());
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return (reply.header.spec_cond & wire::kSpcondVoid) != 0;
  }
};

class PromisesTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    options_.recall_time = absl::Seconds(60);
    options_.max_requests = 64;
  }

  // Private data of the connections of one session, so that they reach one worker. WIRE 11.1.
  static Bytes PrivateData(uint32_t session, uint32_t channel_type) {
    const uint32_t words[4] = {wire::kRequestMagic, 7, session, channel_type};
    Bytes data(sizeof words);
    std::memcpy(data.data(), words, sizeof words);
    return data;
  }

  std::unique_ptr<PromisedClient> Connect(const std::string& name, uint64_t verifier = 1,
                                          uint32_t credits = 8) {
    auto client = std::make_unique<PromisedClient>();
    const uint32_t number = ++sessions_;
    client->session =
        RawClient::Connect(*provider_, address(), 80, PrivateData(number, wire::kChannelOperation));
    wire::ClientConnectAuthArgs args = ConnectArgs(name, verifier);
    args.use_back_control_channel = true;
    args.use_response_cache = true;
    args.max_requests = 64;
    args.fence_id_string = fence_id_;
    auto connected = client->session->Call(args);
    EXPECT_EQ(connected.name(), "DAFS_STATUS_OK");
    client->negotiated = connected.res;
    client->session->desired_nreq = 64;
    ActAsRoot(*client->session);
    client->directory = LookUp(*client->session, {"a"});
    client->back = RawClient::Connect(*provider_, address(), 20,
                                      PrivateData(number, wire::kChannelBackControl),
                                      &client->session->domain());
    wire::ConnectBindArgs bind;
    bind.session_id = connected.res.session_id;
    bind.channel_use = wire::ChannelUse::kBackControl;
    bind.max_request_size = 4096;
    bind.max_response_size = 1024;
    bind.max_requests = credits;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    EXPECT_EQ(client->back->Call(bind).name(), "DAFS_STATUS_OK");
    return client;
  }

  static uint32_t Admit(PromisedClient& client, uint32_t most = 1000) {
    wire::PromisesArgs args;
    args.most = most;
    auto reply = client.session->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.header.spec_cond & wire::kSpcondVoid, 0);
    return reply.res.granted;
  }

  // A client that was promised the names of "a".
  std::unique_ptr<PromisedClient> Holder(const std::string& name = "holder", uint32_t credits = 8) {
    auto client = Connect(name, 1, credits);
    EXPECT_GT(Admit(*client), 0u);
    EXPECT_TRUE(PromisedNames(*client, client->directory));
    return client;
  }
  // Looks up a name that is absent; whether the answer is promised.
  static bool PromisedNames(PromisedClient& client, const wire::FileHandle& directory) {
    wire::LookupArgs args;
    args.directory = directory;
    args.path = {"absent"};
    auto reply = client.session->Call(args);
    EXPECT_EQ(reply.name(), "DAFSERR_NOENT");
    return (reply.header.spec_cond & wire::kSpcondNames) != 0;
  }

  static wire::CreateArgs MakeDirectory(const wire::FileHandle& parent, const std::string& name) {
    wire::CreateArgs args;
    args.filehandle = parent;
    args.component = name;
    args.obj_type = wire::ObjectType::kDir;
    return args;
  }
  static wire::RemoveArgs Remove(const wire::FileHandle& parent, const std::string& name) {
    wire::RemoveArgs args;
    args.filehandle = parent;
    args.target = name;
    return args;
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  uint32_t sessions_ = 0;
  std::string fence_id_;  // of sessions that connect from now on
};

}  // namespace dafs::server
