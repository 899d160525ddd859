// A server that runs out of resources in the middle of a chain. Spec: 7 RESOURCE.
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class ShortChainsTest : public ScriptedTest {
 protected:
  // The server executes at most `most` members of a chain.
  void Take(int most) {
    server_.script = [most, member = 0](ScriptedConnection& c, const Request& request) mutable {
      member = (request.header.chain_flags & wire::kChfBack) != 0 ? member + 1 : 1;
      if (member != most + 1) return false;
      c.Refuse(request, DafsStatus::kResource);
      return true;
    };
  }
};

TEST_F(ShortChainsTest, MembersRefusedForResourcesAreReissuedAsNewChain) {
  for (int most : {1, 2}) {
    files_.reset();
    server_.log.clear();
    server_.executed.clear();
    MakeFiles();
    Take(most);
    OpenRequest request;
    request.name = "f";
    request.owner = "owner";
    request.share_access = wire::kShareBoth;
    request.create = true;
    request.create_mode = wire::CreateMode::kExclusive;
    request.attributes.set(wire::kFattrMode);
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
    ASSERT_OK(file);
    EXPECT_EQ(file->attributes.file_id, static_cast<uint64_t>('f'));
    EXPECT_EQ(server_.executed[Proc::kOpen], 1);
    EXPECT_EQ(server_.executed[Proc::kSetattrInline], 1);
    EXPECT_EQ(server_.executed[Proc::kGetattrInline], 1);
    ASSERT_OK(Await(files_->opens().Close(file->state_id)));
    files_->Shutdown();
  }
}

TEST_F(ShortChainsTest, SingleRequestRefusedForResourcesFails) {
  MakeFiles();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kGetattrInline) return false;
    c.Refuse(request, DafsStatus::kResource);
    return true;
  };
  absl::Status status = Await(files_->names().Lookup(user_, {}, "f")).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kResource);
  EXPECT_EQ(server_.Count(Proc::kLookup), 1);
  EXPECT_EQ(server_.Count(Proc::kGetattrInline), 2);  // in the chain, and alone
}

}  // namespace
}  // namespace dafs::client::testing
