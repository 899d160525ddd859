// A server that is restarted, and short forms of the calls of its clients before and after that.
#pragma once

#include <memory>
#include <string>

#include "tests/server/files_in.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {

inline constexpr const char* kOk = "DAFS_STATUS_OK";
inline constexpr const char* kGrace = "DAFSERR_GRACE";
inline constexpr const char* kExpired = "DAFSERR_EXPIRED";

class GraceTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    WriteFile("a/f", "file f");
    WriteFile("a/g", "file g");
    StartServer();
  }

  std::unique_ptr<RawClient> Client(const std::string& name, uint64_t verifier = 1) {
    auto client = Session(ConnectArgs(name, verifier));
    if (client != nullptr) ActAsRoot(*client);
    return client;
  }
  // The client has a response cache.
  std::unique_ptr<RawClient> Cached(const std::string& name) {
    wire::ClientConnectAuthArgs args = ConnectArgs(name);
    args.use_response_cache = true;
    auto client = Session(args);
    if (client != nullptr) ActAsRoot(*client);
    return client;
  }
  static Reply<wire::CloseRes> Close(RawClient& client, const wire::OpenRes& open,
                                     const wire::FileHandle& file) {
    wire::CloseArgs args;
    args.filehandle = file;
    args.state_id = open.state_id;
    return client.Call(args);
  }
  Reply<wire::OpenRes> Open(RawClient& client, const std::string& name, uint32_t deny = 0) {
    wire::OpenArgs args = OpenArgs(LookUp(client, {"a"}), name, false);
    args.share_deny = deny;
    return client.Call(args);
  }
  Reply<wire::OpenRes> Reclaim(RawClient& client, const wire::FileHandle& file, uint32_t deny = 0) {
    wire::OpenArgs args;
    args.claim_type = wire::OpenClaimType::kPrevious;
    args.filehandle = file;
    args.share_access = 3;
    args.share_deny = deny;
    return client.Call(args);
  }
  Reply<wire::ReadInlineRes> Read(RawClient& client, const wire::FileHandle& file,
                                  const wire::StateId& state_id = {}) {
    wire::ReadInlineArgs args;
    args.filehandle = file;
    args.state_id = state_id;
    args.byte_count = 100;
    return client.Call(args);
  }
  Reply<wire::RemoveRes> Remove(RawClient& client, const std::string& name) {
    wire::RemoveArgs args;
    args.filehandle = LookUp(client, {"a"});
    args.target = name;
    return client.Call(args);
  }
  Reply<wire::LockRes> Lock(RawClient& client, const wire::OpenRes& open, uint64_t offset,
                            uint32_t options = 0) {
    wire::LockArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.offset = offset;
    args.length = 10;
    args.lock_type = wire::LockType::kWrite;
    args.options = options;
    return client.Call(args);
  }
  // Two locks on f: from byte 0 and from byte 20.
  Reply<wire::OpenRes> OpenWithTwoLocks(RawClient& client) {
    auto held = Open(client, "f");
    EXPECT_EQ(Lock(client, held.res, 0).name(), kOk);
    EXPECT_EQ(Lock(client, held.res, 20).name(), kOk);
    return held;
  }
  // Opens `name`, and retries until the open no longer has to wait for other clients.
  std::string OpenWhenPossible(RawClient& client, const std::string& name, uint32_t deny) {
    std::string status;
    do {
      status = Open(client, name, deny).name();
    } while (status == kGrace || status == "DAFSERR_DENIED");
    return status;
  }
  void AwaitNoOrphans() {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (FilesIn(Path("a/.dafsd-orphans")) != 0 && Loop::Now() < deadline) {
    }
    EXPECT_EQ(FilesIn(Path("a/.dafsd-orphans")), 0u);
  }
};

}  // namespace dafs::server
