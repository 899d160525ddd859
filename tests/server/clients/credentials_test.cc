// The users that REGISTER_CRED describes.
#include "server/clients/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dafs::server {
namespace {

using wire::CredType;
using wire::DafsStatus;

// Shows DAFS-6.2.8-04: this host decides which ids belong to a name. Ids that the request states
// beside the name are ignored.
TEST(CredentialsTest, NameResolvesToTheIdsOfThisHost) {
  wire::RegisterCredArgs args;
  args.cred_type = CredType::kName;
  args.name = "root";
  args.uid = args.gid = 1000;
  args.groups = {1001};
  Credential credential;
  ASSERT_EQ(MakeCredential(args, &credential), DafsStatus::kOk);
  EXPECT_EQ(credential.uid, 0u);
  EXPECT_EQ(credential.gid, 0u);
  EXPECT_THAT(credential.groups, testing::Contains(0u));
  EXPECT_THAT(credential.groups, testing::Not(testing::Contains(1001u)));
  for (const std::string& name : {std::string("no such user here"), std::string()}) {
    args.name = name;
    EXPECT_EQ(MakeCredential(args, &credential), DafsStatus::kNotAuthorized);
    EXPECT_EQ(credential.uid, kAnonymousId);
  }
  args.name = std::string("root\0x", 6);
  EXPECT_EQ(MakeCredential(args, &credential), DafsStatus::kInval);
  EXPECT_EQ(credential.uid, kAnonymousId);
}

// Shows DAFS-6.2.8-02 (ids, and the default).
TEST(CredentialsTest, IdsAreUsedUnchangedAndMinusOneIsRefused) {
  wire::RegisterCredArgs args;
  args.cred_type = CredType::kId;
  args.uid = 1000;
  args.gid = -2;
  args.groups = {4, 5};
  Credential credential;
  ASSERT_EQ(MakeCredential(args, &credential), DafsStatus::kOk);
  EXPECT_EQ(credential.uid, 1000u);
  EXPECT_EQ(credential.gid, 0xfffffffe);
  EXPECT_THAT(credential.groups, testing::ElementsAre(4u, 5u));
  args.groups = {4, -1};
  EXPECT_EQ(MakeCredential(args, &credential), DafsStatus::kInval);
  args.cred_type = CredType::kDefault;
  ASSERT_EQ(MakeCredential(args, &credential), DafsStatus::kOk);
  EXPECT_EQ(credential.uid, kAnonymousId);
}

}  // namespace
}  // namespace dafs::server
