// The client_id_string of a mount, which no other program can make.
#include "fuse/mount/client/client_id.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuse/mount/client/client_secret.h"
#include "runtime/host_name.h"

namespace dafs::fuse {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ClientIdTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dafs-client-id-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    options_.source.host = "files.example.com";
    options_.source.export_path = "/x";
    options_.mount_point = "/mnt/x";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  ClientIdPlaces Places(const std::string& machine = "machine") const {
    return {.locks = directory_ + "/locks", .secret = directory_ + "/" + machine};
  }
  std::string SecretPath() const { return Places().secret + "/client-secret"; }
  std::string Id() { return TakeClientId(options_, Places()).text; }

  std::string directory_;
  Options options_;
};

// Shows DAFS-2.4.3-01 (the client's part): mounts that exist at once have different strings.
TEST_F(ClientIdTest, IsReusedByTheNextMountButNotByAConcurrentOne) {
  std::string first;
  {
    const ClientId id = TakeClientId(options_, Places());
    first = id.text;
    EXPECT_THAT(first, testing::StartsWith(HostName() + ":/mnt/x/"));
    EXPECT_THAT(Id(), HasSubstr(":/mnt/x#1/"));
  }
  EXPECT_EQ(Id(), first);
  options_.source.export_path = "/y";
  EXPECT_NE(Id(), first);
}

// Shows DAFS-3.1.1.3-04: a client keeps to the principal that its name had. A mount that proves
// something else is another client.
TEST_F(ClientIdTest, DependsOnWhatTheMountProves) {
  const std::string plain = Id();
  options_.xprtsec = Xprtsec::kTls;
  const std::string tls = Id();
  EXPECT_NE(tls, plain);
  EXPECT_EQ(Id(), tls);
  options_.xprtsec = Xprtsec::kMtls;
  EXPECT_NE(Id(), plain);
  EXPECT_NE(Id(), tls);
}

// Every user of the machine, or of a copy of it, can read the other parts of an id.
TEST_F(ClientIdTest, CannotBeMadeWithoutTheSecret) {
  const std::string id = Id();
  EXPECT_NE(TakeClientId(options_, Places("copy")).text, id);
  struct stat found;
  ASSERT_EQ(stat(SecretPath().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  EXPECT_EQ(found.st_size, 16);
  ASSERT_EQ(stat(Places().secret.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700u);
  std::ifstream file(SecretPath(), std::ios::binary);
  const std::string secret{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(id, Not(HasSubstr(secret)));
  for (const auto& entry : std::filesystem::directory_iterator(Places().locks)) {
    EXPECT_THAT(id, Not(HasSubstr(entry.path().stem().string())));
  }
}

TEST_F(ClientIdTest, ASecretThatOthersCanReadIsNotUsed) {
  const std::string id = Id();
  ASSERT_EQ(chmod(SecretPath().c_str(), 0640), 0);
  EXPECT_FALSE(KeptSecret(Places().secret).has_value());
  EXPECT_NE(Id(), id);
  EXPECT_NE(Id(), Id());
  ASSERT_EQ(chmod(SecretPath().c_str(), 0600), 0);
  EXPECT_EQ(Id(), id);
  ASSERT_EQ(truncate(SecretPath().c_str(), 15), 0);
  EXPECT_FALSE(KeptSecret(Places().secret).has_value());
}

TEST_F(ClientIdTest, WithoutAPlaceForTheSecretEachMountHasANewId) {
  const ClientIdPlaces places = {.locks = directory_ + "/locks", .secret = "/dev/null/none"};
  EXPECT_NE(TakeClientId(options_, places).text, TakeClientId(options_, places).text);
}

TEST_F(ClientIdTest, BeginsWithTheGivenName) {
  const std::string id = Id();
  options_.client_id = "node-7";
  EXPECT_THAT(Id(), StartsWith("node-7:/mnt/x/"));
  EXPECT_THAT(Id(), Not(EndsWith(id.substr(id.size() - 32))));
}

}  // namespace
}  // namespace dafs::fuse
