// A Server in this process, over temporary directories and loopback TCP, and RawClients of it.
// Tests that need root report a skip without it.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "server/daemon/server.h"
#include "tests/server/raw_client.h"
#include "tests/wire/dat/transport_under_test.h"
#include "wire/messages/messages.h"

namespace dafs::server {

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: opens file handles and takes other identities";
    PrepareProcess();
    char name[] = "/tmp/dafs-server-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = name;
    chmod(base_.c_str(), 0755);
    mkdir(Path("state").c_str(), 0700);
    mkdir(Path("a").c_str(), 0777);
    options_.state_dir = Path("state");
    Export e;
    e.name = "/a";
    e.directory = Path("a");
    e.squash = Squash::kNone;
    options_.exports = {e};
    auto addresses = dat::ResolveHost(dat::testing::HostUnderTest(), 0);
    ASSERT_TRUE(addresses.ok());
    options_.listen = {
        {dat::testing::OverRdma() ? Transport::kRdma : Transport::kTcp, addresses->front()}};
    options_.workers = 2;
    options_.pool_threads = 2;
    options_.direct_memory_bytes = 4 << 20;
  }

  void TearDown() override {
    server_.reset();
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  std::string Path(const std::string& name) const { return base_ + "/" + name; }

  void StartServer() {
    server_.reset();
    auto server = Server::Start(options_, Providers());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Server::Providers Providers() const {
    Server::Providers providers;
    (dat::testing::OverRdma() ? providers.rdma : providers.tcp) = provider_.get();
    return providers;
  }

  const dat::Address& address() const { return server_->bound()[0].address; }

  // Opens a connection without a session.
  std::unique_ptr<RawClient> Connection() {
    auto client = RawClient::Connect(*provider_, address());
    EXPECT_NE(client, nullptr);
    return client;
  }

  static wire::ClientConnectAuthArgs ConnectArgs(const std::string& name, uint64_t verifier = 1) {
    wire::ClientConnectAuthArgs args;
    args.client_id_string = name;
    args.client_verifier = wire::OpaqueFromUint64<wire::Verifier>(verifier);
    args.auth_req.auth_type = wire::AuthType::kNone;
    return args;
  }

  // Opens a connection with an authenticated session.
  std::unique_ptr<RawClient> Session(const wire::ClientConnectAuthArgs& args,
                                     wire::ByteOrder order = wire::ByteOrder::kLittle) {
    auto client = Connection();
    if (client == nullptr) return nullptr;
    client->order = order;
    auto reply = client->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_TRUE(reply.res.trusted);
    client->checksums = reply.res.use_checksums;
    negotiated_ = reply.res;
    return client;
  }
  std::unique_ptr<RawClient> Session(const std::string& name = "c1") {
    return Session(ConnectArgs(name));
  }
  // Registers uid 0 and makes it the client's credential.
  static void ActAsRoot(RawClient& client) {
    wire::RegisterCredArgs args;
    args.cred_type = wire::CredType::kId;
    auto reply = client.Call(args);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    client.cred_handle = reply.res.cred_handle;
  }

  static wire::FileHandle Root(RawClient& client) {
    auto reply = client.Call(wire::GetRootHandleArgs());
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.root_handle;
  }

  static wire::FileHandle LookUp(RawClient& client, const std::vector<std::string>& path) {
    wire::LookupArgs args;
    args.directory = Root(client);
    args.path = path;
    auto reply = client.Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.filehandle;
  }

  static wire::OpenArgs OpenArgs(const wire::FileHandle& directory, const std::string& name,
                                 bool create) {
    wire::OpenArgs args;
    args.dir_handle = directory;
    args.pathname = {name};
    args.open_type = create ? wire::OpenType::kCreate : wire::OpenType::kNoCreate;
    args.share_access = 3;
    return args;
  }

  void WriteFile(const std::string& name, const std::string& content) {
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  std::string ReadFile(const std::string& name) {
    std::ifstream in(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Returns bytes that depend on their position.
  static std::string Pattern(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 253);
    return text;
  }

  std::shared_ptr<dat::Provider> provider_ =  // see ProviderUnderTest
      dat::testing::ProviderUnderTest();
  std::string base_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  wire::ClientConnectAuthRes negotiated_;
};

}  // namespace dafs::server
