// How often a client fetches alternate locations from a server that says in each answer that they
// have changed.
#include "client/status/failover_keeper.h"

#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

class FailoverKeeperTest : public ScriptedTest {
 protected:
  ~FailoverKeeperTest() override {
    if (keeper_ != nullptr) keeper_->Shutdown();
  }

  // Returns how many fetches there are in two seconds.
  int FetchesInTwoSeconds() {
    server_.spec_cond = [](const Request&) { return wire::kSpcondFailover; };
    MakeFiles();
    keeper_ = std::make_unique<FailoverKeeper>(*client_, *loop_);
    keeper_->Start();
    wire::FileHandle handle;
    handle.fshandle.bytes[0] = 1;
    client_->failover().Saw(handle);
    const absl::Time end = Loop::Now() + absl::Seconds(2);
    while (Loop::Now() < end) {
      EXPECT_OK(Await(files_->Null()));
      loop_->RunOnce(absl::Milliseconds(20));
    }
    return server_.Count(wire::Proc::kGetFsattr);
  }

  std::unique_ptr<FailoverKeeper> keeper_;
};

// With equal pauses of 200 ms there are ten.
TEST_F(FailoverKeeperTest, AFlagThatIsNeverClearedIsFollowedLessAndLessOften) {
  const int fetches = FetchesInTwoSeconds();
  EXPECT_GE(fetches, 2);
  EXPECT_LE(fetches, 4);
}

TEST_F(FailoverKeeperTest, AStaleHandleIsNotFetchedAgain) {
  server_.script = [](ScriptedConnection& connection, const Request& request) {
    if (request.header.procedure != wire::Proc::kGetFsattr) return false;
    connection.Refuse(request, wire::DafsStatus::kStale);
    return true;
  };
  EXPECT_EQ(FetchesInTwoSeconds(), 1);
}

}  // namespace
}  // namespace dafs::client::testing
