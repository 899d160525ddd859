// The requests that the client sends with an OPEN, and how it handles errors of OPEN. Spec: 6.5.24.
#include <utility>
#include <vector>

#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class OpeningTest : public ScriptedTest {
 protected:
  static OpenRequest ToCreate(wire::CreateMode mode) {
    OpenRequest request;
    request.name = "f";
    request.owner = "owner";
    request.share_access = wire::kShareBoth;
    request.create = true;
    request.create_mode = mode;
    request.attributes.set(wire::kFattrMode);
    request.attributes.mode = 0640;
    return request;
  }
};

// Shows DAFS-6.5.24-08, DAFS-6.5.24-12, DAFS-4.4.1.2-03: a SETATTR without a state id sets the
// attributes after the OPEN, in the same chain. A GETATTR follows it.
TEST_F(OpeningTest, ExclusiveCreationIsFollowedBySetattr) {
  MakeFiles();
  std::vector<std::pair<Proc, int>> seen;  // with the chain flags
  wire::OpenArgs open;
  wire::SetattrInlineArgs set;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    const Proc proc = request.header.procedure;
    if (proc == Proc::kOpen) open = request.Decode<wire::OpenArgs>();
    if (proc == Proc::kSetattrInline) set = request.Decode<wire::SetattrInlineArgs>();
    if (proc == Proc::kOpen || proc == Proc::kSetattrInline || proc == Proc::kGetattrInline) {
      seen.emplace_back(proc, request.header.chain_flags);
    }
    return false;
  };
  OpenRequest request = ToCreate(wire::CreateMode::kExclusive);
  request.verifier = wire::OpaqueFromUint64<wire::Verifier>(77);
  ASSERT_OK(Await(files_->opens().Open(user_, request)));
  const std::pair<Proc, int> expected[] = {
      {Proc::kOpen, wire::kChfForw},
      {Proc::kSetattrInline, wire::kChfForw | wire::kChfBack | wire::kChfFh},
      {Proc::kGetattrInline, wire::kChfBack | wire::kChfFh}};
  EXPECT_THAT(seen, ::testing::ElementsAreArray(expected));
  EXPECT_EQ(open.createmode, wire::CreateMode::kExclusive);
  EXPECT_EQ(open.create_verifier, request.verifier);
  EXPECT_TRUE(set.obj_attributes.has(wire::kFattrMode));
  EXPECT_EQ(set.obj_attributes.mode, 0640u);
  EXPECT_TRUE(set.state_id.is_zero());
}

// Shows DAFS-6.5.24-33
TEST_F(OpeningTest, ErrorsThatTheListOfOpenOmitsAreHandled) {
  MakeFiles();
  DafsStatus refusal = DafsStatus::kOk;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen || refusal == DafsStatus::kOk) return false;
    c.Refuse(request, refusal);
    if (refusal == DafsStatus::kGrace) refusal = DafsStatus::kOk;  // the grace period ends
    return true;
  };
  const OpenRequest request = ToCreate(wire::CreateMode::kUnchecked);
  for (const DafsStatus status : {DafsStatus::kDenied, DafsStatus::kKeyMismatch}) {
    refusal = status;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
    EXPECT_EQ(wire::DafsFromStatus(file.status()), status);
  }
  EXPECT_EQ(server_.Count(Proc::kOpen), 2);
  refusal = DafsStatus::kGrace;
  EXPECT_OK(Await(files_->opens().Open(user_, request)));
  EXPECT_EQ(server_.Count(Proc::kOpen), 4);
  EXPECT_EQ(server_.connections_made, 1);
}

}  // namespace
}  // namespace dafs::client::testing
