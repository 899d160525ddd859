#include "fuse/files/user_clients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::fuse {
namespace {

class UserClientsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<client::Client>> Make(const std::string& name) {
    client::ClientOptions options;
    options.addresses = {(*dat::ResolveHost("127.0.0.1", 1))[0]};
    options.providers = {provider_.get()};
    options.client_id_string = name;
    return client::Client::Create(std::move(options));
  }
  UserClients Of(size_t most) {
    return UserClients(
        most, [this](uint32_t uid) { return Make(absl::StrCat("uid:", uid)); }, nullptr);
  }
  std::vector<uint32_t> Users(const UserClients& users) {
    std::vector<uint32_t> all;
    for (const auto& user : users.All()) all.push_back(user->uid);
    std::sort(all.begin(), all.end());
    return all;
  }
  absl::Time At(int seconds) const { return start_ + absl::Seconds(seconds); }

  const std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  const absl::Time start_ = absl::FromUnixSeconds(1'000'000);
};

TEST_F(UserClientsTest, UserKeepsOneClient) {
  UserClients users = Of(2);
  ASSERT_TRUE(users.Enter(1, At(0)).ok());
  const auto first = users.Find(1);
  ASSERT_TRUE(users.Enter(1, At(1)).ok());
  EXPECT_EQ(users.Find(1), first);
  EXPECT_EQ(users.Find(2), nullptr);
  EXPECT_EQ(first->client->options().client_id_string, "uid:1");
}

TEST_F(UserClientsTest, LeastRecentlyUsedClientMakesRoom) {
  UserClients users = Of(2);
  ASSERT_TRUE(users.Enter(1, At(0)).ok());
  ASSERT_TRUE(users.Enter(2, At(1)).ok());
  ASSERT_TRUE(users.Enter(1, At(2)).ok());
  const auto second = users.Find(2);
  const uint64_t version = users.version();
  ASSERT_TRUE(users.Enter(3, At(3)).ok());
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{1, 3}));
  EXPECT_TRUE(second->has_ended);
  EXPECT_GT(users.version(), version);
}

TEST_F(UserClientsTest, ClientsInUseAreNotEvicted) {
  UserClients users = Of(2);
  absl::StatusOr<UserClients::Pin> one = users.Enter(1, At(0));
  absl::StatusOr<UserClients::Pin> two = users.Enter(2, At(1));
  EXPECT_EQ(users.Enter(3, At(2)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(users.Enter(1, At(2)).ok());  // this one has a place
  two->reset();
  ASSERT_TRUE(users.Enter(3, At(3)).ok());
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{1, 3}));
}

TEST_F(UserClientsTest, ClientWithOpensIsUsed) {
  UserClients users = Of(1);
  ASSERT_TRUE(users.Enter(1, At(0)).ok());
  wire::StateId at_server;
  at_server.bytes[0] = 1;
  const wire::StateId open = users.Find(1)->client->opens().Add({}, at_server, wire::ClientId());
  EXPECT_FALSE(users.Enter(2, At(1)).ok());
  users.Find(1)->client->opens().Remove(open);
  EXPECT_TRUE(users.Enter(2, At(2)).ok());
}

TEST_F(UserClientsTest, ClientEndsTenMinutesAfterItsLastUse) {
  UserClients users = Of(2);
  absl::StatusOr<UserClients::Pin> used = users.Enter(1, At(0));
  ASSERT_TRUE(users.Enter(2, At(0)).ok());
  users.EndUnused(At(599));
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{1, 2}));
  users.EndUnused(At(600));
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{1}));
  used->reset();
  users.EndUnused(At(1199));
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{1}));
  users.EndUnused(At(1200));
  EXPECT_EQ(Users(users), (std::vector<uint32_t>{}));
}

TEST_F(UserClientsTest, PinOutlivesTheTable) {
  absl::StatusOr<UserClients::Pin> pin = absl::UnknownError("");
  {
    UserClients users = Of(1);
    pin = users.Enter(1, At(0));
  }
  EXPECT_TRUE(pin.ok());
}

}  // namespace
}  // namespace dafs::fuse
