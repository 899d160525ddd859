// Which clients are admitted.
#include "server/store/holdings/delegations/admitted_clients.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/server/store/holdings/delegations/delegations_fixture.h"

namespace dafs::server {
namespace {

using AdmittedClientsTest = DelegationsFixture;

TEST_F(AdmittedClientsTest, AClientIsAdmittedUntilItIsForgotten) {
  EXPECT_FALSE(admitted_.IsAdmitted(Id(9)));
  admitted_.Admit(Id(9), "client");
  EXPECT_TRUE(admitted_.IsAdmitted(Id(9)));
  admitted_.Forget(Id(9));
  EXPECT_FALSE(admitted_.IsAdmitted(Id(9)));
}

// Several share a place of the atomic reads.
TEST_F(AdmittedClientsTest, EachOfManyClientsIsAdmitted) {
  constexpr uint64_t kClients = 5'000;
  for (uint64_t client = 1; client <= kClients; ++client) admitted_.Admit(Id(client), "client");
  for (uint64_t client = 1; client <= kClients; ++client) {
    EXPECT_TRUE(admitted_.IsAdmitted(Id(client))) << client;
  }
  for (uint64_t client = 1; client <= kClients; client += 2) admitted_.Forget(Id(client));
  for (uint64_t client = 1; client <= kClients; ++client) {
    EXPECT_EQ(admitted_.IsAdmitted(Id(client)), client % 2 == 0) << client;
  }
}

}  // namespace
}  // namespace dafs::server
