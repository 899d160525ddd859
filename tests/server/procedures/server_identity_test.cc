// SERVER_IDENTITY: clients learn which server answers at an address. Spec: R15;
// wire/messages/server_identity.h.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/store/system/server_id.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

class ServerIdentityTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (!IsSkipped()) StartServer();
  }
  wire::ServerIdentityRes Identity() {
    auto client = Session();
    auto reply = client->Call(wire::ServerIdentityArgs());
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res;
  }
  std::string IdFile() const { return Path("state/server-id"); }
};

// Shows DAFS-A.5-01: several locations of one server are known to be one by its id.
TEST_F(ServerIdentityTest, IdStaysAndInstanceGrowsOverRestarts) {
  const wire::ServerIdentityRes first = Identity();
  EXPECT_FALSE(first.server_id.is_zero());
  EXPECT_EQ(first.cluster_id, wire::HexOf(first.server_id));
  EXPECT_EQ(first.flags, 0u);
  EXPECT_EQ(Identity(), first);
  StartServer();
  const wire::ServerIdentityRes second = Identity();
  EXPECT_EQ(second.server_id, first.server_id);
  EXPECT_EQ(second.instance, first.instance + 1);
}

TEST_F(ServerIdentityTest, AnotherStateDirectoryIsAnotherServerOfTheSameCluster) {
  options_.cluster_id = "files";
  StartServer();
  const wire::ServerIdentityRes first = Identity();
  EXPECT_EQ(first.cluster_id, "files");
  ASSERT_EQ(mkdir(Path("other").c_str(), 0700), 0);
  options_.state_dir = Path("other");
  StartServer();
  const wire::ServerIdentityRes second = Identity();
  EXPECT_EQ(second.cluster_id, "files");
  EXPECT_NE(second.server_id, first.server_id);
}

TEST_F(ServerIdentityTest, DamagedIdIsReplaced) {
  const wire::ServerId before = Identity().server_id;
  const std::string zeros(32, '0');
  for (const std::string& damaged :
       {std::string(), std::string("short\n"), std::string(32, 'x') + "\n", zeros + "\n",
        std::string(33, 'a'), std::string(100, 'a')}) {
    server_.reset();
    std::ofstream(IdFile(), std::ios::trunc) << damaged;
    StartServer();
    const wire::ServerId after = Identity().server_id;
    EXPECT_FALSE(after.is_zero());
    EXPECT_NE(after, before);
    StartServer();
    EXPECT_EQ(Identity().server_id, after) << "it is kept";
  }
}

TEST_F(ServerIdentityTest, LinkInPlaceOfTheFileIsRefused) {
  server_.reset();
  std::filesystem::remove(IdFile());
  ASSERT_EQ(symlink("/etc/hostname", IdFile().c_str()), 0);
  EXPECT_FALSE(LoadOrCreateServerId(Path("state")).ok());
}

}  // namespace
}  // namespace dafs::server
