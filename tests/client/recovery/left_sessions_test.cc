// The sessions of a killed program end at the server before the next one sends a request.
#include <memory>
#include <utility>
#include <vector>

#include "client/state/records/session_records.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class LeftSessionsTest : public ScriptedTest {
 protected:
  LeftSessionsTest() {
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      const auto proc = static_cast<Proc>(request.header.procedure);
      if (proc == Proc::kCreate) ++before_end_;
      if (proc != Proc::kFetchResponse) return false;
      asked_.push_back(request.Decode<wire::FetchResponseArgs>().session_id);
      c.Refuse(request,
               asked_.size() < kAsked ? DafsStatus::kBadSession : DafsStatus::kUnknownSession);
      before_end_ = 0;
      return true;
    };
  }

  // Runs a change in a client of which a killed program has left a session.
  absl::Status RunAfter(wire::AuthType auth) {
    MakeClient();
    client_->sessions().AddLeft({kLeft, auth});
    auto files = Files::Create(*client_, *loop_);
    if (!files.ok()) return files.status();
    files_ = *std::move(files);
    const wire::FileAttributes none;
    return Await(files_->names().MakeDirectory(user_, {}, "d", none)).status();
  }

  static constexpr size_t kAsked = 3;
  const wire::SessionId kLeft = wire::OpaqueFromUint64<wire::SessionId>(77);
  std::vector<wire::SessionId> asked_;
  int before_end_ = 0;  // changes since the server was asked last
};

TEST_F(LeftSessionsTest, ChangesWaitUntilTheServerHasEndedThem) {
  EXPECT_OK(RunAfter(wire::AuthType::kNone));
  EXPECT_THAT(asked_, ::testing::ElementsAre(kLeft, kLeft, kLeft));
  EXPECT_EQ(before_end_, 1);
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_FALSE(client_->sessions().FindLeft().has_value());
}

// The server, which has been restarted since, takes that session for one of another client.
TEST_F(LeftSessionsTest, SessionOfAnotherAuthenticationMethodHasEnded) {
  EXPECT_OK(RunAfter(wire::AuthType::kGss));
  EXPECT_THAT(asked_, ::testing::ElementsAre(kLeft));
}

}  // namespace
}  // namespace dafs::client::testing
