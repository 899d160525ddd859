// Announcements that a lock is free: to which client they go, and what ends with its channel.
#include "tests/server/promises_fixture.h"
#include "wire/messages/promises.h"

namespace dafs::server {
namespace {

using wire::LockType;

class LockAnnouncerTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    std::ofstream(Path("a/f")) << "content";
    chmod(Path("a/f").c_str(), 0666);
    StartServer();
  }
  struct Locker {
    std::unique_ptr<PromisedClient> client;
    wire::LockArgs lock;  // of byte 0

    std::string Lock(uint32_t options) {
      lock.lock_type = LockType::kWriteBlocking;
      lock.options = options;
      return std::string(client->session->Call(lock).name());
    }
    void Unlock() {
      wire::LockuArgs args;
      args.filehandle = lock.filehandle;
      args.state_id = lock.state_id;
      args.lock_type = LockType::kWrite;
      args.length = 1;
      EXPECT_EQ(client->session->Call(args).name(), "DAFS_STATUS_OK");
    }
    // Whether the next directive announces the lock.
    bool IsAnnounced() {
      std::optional<Bytes> message = client->back->Receive();
      if (!message) return false;
      auto header = wire::DecodeRequestHeader(*message, client->back->order);
      wire::BcLockFreeArgs args;
      if (!header.ok() || header->header.procedure != wire::Proc::kBcLockFree ||
          wire::DecodeArgs(*message, client->back->order, args) != wire::DafsStatus::kOk) {
        return false;
      }
      Bytes out(wire::kHeaderSize);
      wire::EncodeResponseHeaderOnly(wire::ResponseTo(header->header, wire::DafsStatus::kOk, 8),
                                     client->back->order, out, false);
      EXPECT_TRUE(client->back->Send(out));
      return args.filehandle == lock.filehandle && args.offset == 0 && args.length == 1;
    }
  };
  Locker Open(const std::string& name, uint32_t promises = 1000) {
    Locker locker{Connect(name), {}};
    EXPECT_EQ(Admit(*locker.client, promises), promises);
    auto opened = locker.client->session->Call(OpenArgs(locker.client->directory, "f", false));
    EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
    locker.lock.filehandle = opened.res.filehandle;
    locker.lock.state_id = opened.res.state_id;
    locker.lock.length = 1;
    return locker;
  }
};

TEST_F(LockAnnouncerTest, FreeLockIsAnnouncedToTheFirstWaiter) {
  Locker holder = Open("holder"), first = Open("first"), second = Open("second");
  ASSERT_EQ(holder.Lock(0), "DAFS_STATUS_OK");
  EXPECT_EQ(first.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  EXPECT_EQ(second.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  holder.Unlock();
  EXPECT_TRUE(first.IsAnnounced());
  EXPECT_EQ(second.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  EXPECT_EQ(first.Lock(wire::kLockAwaits), "DAFS_STATUS_OK");
  first.Unlock();
  EXPECT_TRUE(second.IsAnnounced());
  EXPECT_EQ(second.Lock(0), "DAFS_STATUS_OK");
}

TEST_F(LockAnnouncerTest, FreeLockIsAnnouncedToAClientThatWantsNoPromises) {
  Locker holder = Open("holder"), waiter = Open("waiter", 0);
  ASSERT_EQ(holder.Lock(0), "DAFS_STATUS_OK");
  EXPECT_EQ(waiter.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  holder.Unlock();
  EXPECT_TRUE(waiter.IsAnnounced());
  EXPECT_EQ(waiter.Lock(wire::kLockAwaits), "DAFS_STATUS_OK");
}

// Neither a client that is gone nor one without a channel holds up the next waiter.
TEST_F(LockAnnouncerTest, WaiterWithoutAChannelIsSkipped) {
  Locker holder = Open("holder"), gone = Open("gone"), next = Open("next");
  ASSERT_EQ(holder.Lock(0), "DAFS_STATUS_OK");
  EXPECT_EQ(gone.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  EXPECT_EQ(next.Lock(wire::kLockAwaits), "DAFSERR_DENIED");
  gone.client.reset();
  holder.Unlock();
  EXPECT_TRUE(next.IsAnnounced());
  // If the server has noticed the end only now, the announcement follows that.
  EXPECT_EQ(next.Lock(0), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
