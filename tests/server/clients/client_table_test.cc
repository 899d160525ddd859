// Which client owns a name: a connected client, or one that an earlier instance of the server has
// recorded.
#include "server/clients/client_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/clients/client_records.h"

namespace dafs::server {
namespace {

using wire::AuthType;
using wire::DafsStatus;

class ClientTableTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dafs-clients-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    Start();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Starts a new instance of the server.
  void Start() {
    table_.reset();
    auto records = ClientRecords::Open(directory_, /*stable=*/false, /*has_served=*/false);
    ASSERT_TRUE(records.ok()) << records.status();
    records_ = *std::move(records);
    table_ = std::make_unique<ClientTable>(ClientTable::Options());
    table_->SetRecords(records_.get());
  }

  static Principal At(const char* address, AuthType method = AuthType::kNone) {
    return {.method = method, .host = *PeerAddress::Parse(address)};
  }
  // A client at `address` with a certificate for `name`.
  static Principal Certified(const char* address, const std::string& name) {
    return By({.has_certificate = true, .names = {name}}, address);
  }
  static Principal By(dat::TlsPeer tls, const char* address = "192.0.2.1") {
    return PrincipalOf(AuthType::kNone,
                       {.address = *PeerAddress::Parse(address),
                        .tls = std::make_shared<const dat::TlsPeer>(std::move(tls))});
  }
  // Opens a session for instance `verifier` of the client "c1".
  DafsStatus Connect(uint64_t verifier, const Principal& principal) {
    client_ = table_->Connect("c1", wire::OpaqueFromUint64<wire::Verifier>(verifier), 0);
    ClientTable::Confirmation result = table_->Confirm(client_, principal, now_);
    replaced_ = std::move(result.replaced);
    return result.status;
  }
  // The same, and the client holds one open.
  void ConnectAndOpen(uint64_t verifier, const Principal& principal) {
    ASSERT_EQ(Connect(verifier, principal), DafsStatus::kOk);
    ++client_->holdings()->opens;
  }

  std::string directory_;
  std::unique_ptr<ClientRecords> records_;  // Must outlive the table.
  std::unique_ptr<ClientTable> table_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::shared_ptr<Client> client_;
  std::shared_ptr<Client> replaced_;
};

// A client that presents the verifier may come from another address, also after a restart of the
// server. Any other client must come from the same address.
TEST_F(ClientTableTest, RecognisesAClientByItsVerifierAlsoAfterARestart) {
  ConnectAndOpen(1, At("192.0.2.1"));
  EXPECT_EQ(Connect(1, At("192.0.2.2")), DafsStatus::kOk);
  EXPECT_EQ(Connect(2, At("192.0.2.2")), DafsStatus::kClidInUse);
  Start();
  EXPECT_EQ(Connect(2, At("192.0.2.2")), DafsStatus::kClidInUse);
  EXPECT_EQ(Connect(1, At("192.0.2.2", AuthType::kDefault)), DafsStatus::kClidInUse);
  EXPECT_EQ(Connect(1, At("192.0.2.2")), DafsStatus::kOk);
  EXPECT_EQ(client_->holdings()->lost_opens, 1u);
}

// After a reboot of the machine the server assumes that a client holds the maximum. Another restart
// before the client has reclaimed does not raise that.
TEST_F(ClientTableTest, StateToReclaimAfterARebootOutlivesAnotherRestart) {
  ConnectAndOpen(1, At("192.0.2.1"));
  {  // the second word of the file is the boot id of the machine
    std::fstream file(directory_ + "/clients", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8).write("another.", 8);
  }
  Start();
  ConnectAndOpen(1, At("192.0.2.1"));
  EXPECT_EQ(client_->holdings()->lost_opens, UINT32_MAX);
  Start();
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  EXPECT_EQ(client_->holdings()->lost_opens, UINT32_MAX);
}

// Others may have had what the client held in an export that was served, while it still expects to
// reclaim in a late one.
TEST_F(ClientTableTest, ClientThatWasAbsentWhenThePeriodEndedReclaimsNothingAfterAnotherRestart) {
  ConnectAndOpen(1, At("192.0.2.1"));
  Start();
  records_->ExpireAbsent();
  ASSERT_EQ(records_->Owed().size(), 1u);  // may reclaim in the late export
  Start();
  EXPECT_TRUE(records_->Owed().empty());
}

TEST_F(ClientTableTest, ClientThatIsPresentWhenThePeriodEndsReclaimsAlsoAfterAnotherRestart) {
  ConnectAndOpen(1, At("192.0.2.1"));
  Start();
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  records_->ExpireAbsent();
  Start();
  EXPECT_EQ(records_->Owed().size(), 1u);
}

TEST_F(ClientTableTest, ClientThatComesBackAfterThePeriodReclaimsAlsoAfterAnotherRestart) {
  ConnectAndOpen(1, At("192.0.2.1"));
  Start();
  records_->ExpireAbsent();
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  Start();
  EXPECT_EQ(records_->Owed().size(), 1u);
}

// It came back in an instance of the server, and reclaimed one of two opens.
TEST_F(ClientTableTest, ClientWhoseLeaseExpiresReclaimsOnlyWhatItStillHeld) {
  ConnectAndOpen(1, At("192.0.2.1"));
  ++client_->holdings()->opens;
  Start();
  ConnectAndOpen(1, At("192.0.2.1"));
  --client_->holdings()->lost_opens;
  table_->Expire(now_ + ClientTable::Options().lease_time);
  Start();
  ASSERT_EQ(records_->Owed().size(), 1u);
  EXPECT_EQ(records_->Owed()[0].holdings->lost_opens, 1u);
}

// Shows DAFS-3.1.1.3-05: an instance with a valid lease, or another authentication method, is not
// replaced. After the lease has expired, the new instance takes over the state that the server
// keeps for the old one. The host's address may have changed meanwhile.
TEST_F(ClientTableTest, InstanceWithoutALeaseIsReplacedFromAnotherAddress) {
  ConnectAndOpen(1, At("192.0.2.1"));
  const std::shared_ptr<Client> old = client_;
  now_ += ClientTable::Options().lease_time - absl::Seconds(1);
  EXPECT_EQ(Connect(2, At("192.0.2.2")), DafsStatus::kClidInUse);
  EXPECT_EQ(replaced_, nullptr);
  EXPECT_FALSE(old->superseded());
  now_ += absl::Seconds(1);
  EXPECT_EQ(Connect(2, At("192.0.2.2", AuthType::kDefault)), DafsStatus::kClidInUse);
  EXPECT_EQ(Connect(2, At("192.0.2.2")), DafsStatus::kOk);
  EXPECT_EQ(replaced_, old);
  EXPECT_TRUE(old->superseded());
}

// Shows DAFS-3.1.1.3-03, DAFS-3.1.1.3-05 and DAFS-4.4.1.2-25: what a connection proves by TLS is
// part of the principal. One that proves something else from the same address neither joins the
// client nor takes its name, with the right verifier or a new one, before and after a restart.
TEST_F(ClientTableTest, ConnectionThatProvesSomethingElseIsAnotherPrincipal) {
  const Principal all[] = {At("192.0.2.1"), By({}), Certified("192.0.2.1", "a.example"),
                           Certified("192.0.2.1", "b.example")};
  for (const Principal& owner : all) {
    for (const Principal& other : all) {
      SCOPED_TRACE(testing::Message() << NameOf(owner.proof) << ", " << NameOf(other.proof));
      const bool is_same = &owner == &other;
      const DafsStatus expected = is_same ? DafsStatus::kOk : DafsStatus::kClidInUse;
      std::filesystem::remove(directory_ + "/clients");
      Start();
      ConnectAndOpen(1, owner);
      EXPECT_EQ(Connect(1, other), expected);
      now_ += ClientTable::Options().lease_time;  // what it holds is now kept as a courtesy
      EXPECT_EQ(is_same ? expected : Connect(2, other), expected);
      Start();
      EXPECT_EQ(Connect(1, other), expected);
      EXPECT_EQ(Connect(3, other), expected);
    }
  }
}

// A client with a certificate is its names, wherever it is. Their order means nothing.
TEST_F(ClientTableTest, ClientWithACertificateIsReplacedFromAnotherAddress) {
  ConnectAndOpen(1, Certified("192.0.2.1", "a.example"));
  const std::shared_ptr<Client> old = client_;
  EXPECT_EQ(Connect(2, Certified("192.0.2.2", "a.example")), DafsStatus::kOk);
  EXPECT_EQ(replaced_, old);
  EXPECT_EQ(By({.has_certificate = true, .names = {"a", "b"}}),
            By({.has_certificate = true, .names = {"b", "a"}}));
  EXPECT_NE(By({.has_certificate = true, .names = {"ab"}}),
            By({.has_certificate = true, .names = {"a", "b"}}));
  // A certificate without names does not name its owner.
  EXPECT_NE(By({.has_certificate = true, .names = {}}),
            By({.has_certificate = true, .names = {}}, "192.0.2.2"));
}

// A version that did not record what a client had proven wrote the file. Its clients may reclaim.
TEST_F(ClientTableTest, RecordOfAnOlderVersionFitsWhateverTheClientProves) {
  ConnectAndOpen(
      1, {.host = *PeerAddress::Parse("192.0.2.1"), .proof = Principal::Proof::kUnrecorded});
  Start();
  EXPECT_EQ(Connect(1, Certified("192.0.2.1", "a.example")), DafsStatus::kOk);
  EXPECT_EQ(client_->holdings()->lost_opens, 1u);
  Start();
  EXPECT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kClidInUse);
}

// Shows DAFS-4.4.1.2-07: the client has no session left on which it could use its old id. Its next
// session gets a new id.
TEST_F(ClientTableTest, ForgetsAClientWithoutSessionsAndState) {
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  const wire::ClientId old = client_->client_id();
  now_ += ClientTable::Options().lease_time;
  EXPECT_TRUE(table_->Expire(now_).empty());
  EXPECT_EQ(table_->count(), 1u);  // its session still exists
  table_->SessionClosed(client_);
  client_.reset();
  EXPECT_TRUE(table_->Expire(now_).empty());
  EXPECT_EQ(table_->count(), 0u);
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  EXPECT_NE(client_->client_id(), old);
  // A client that holds state is kept, even without a session.
  ++client_->holdings()->opens;
  now_ += ClientTable::Options().lease_time;
  table_->SessionClosed(client_);
  table_->Expire(now_);
  EXPECT_EQ(table_->count(), 1u);
}

// Shows DAFS-6.2.8-06: the credentials outlive each session, and then the lease.
TEST_F(ClientTableTest, ForgetsCredentialsAfterTheLastSessionAndTheLease) {
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  wire::CredHandle handle;
  ASSERT_EQ(client_->credentials().Register({}, &handle), DafsStatus::kOk);
  const auto is_known = [&] { return client_->credentials().Find(handle) != nullptr; };
  now_ += 2 * ClientTable::Options().lease_time;
  EXPECT_TRUE(table_->Expire(now_).empty());
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);  // beside the first session
  EXPECT_TRUE(is_known());
  table_->SessionClosed(client_);
  table_->SessionClosed(client_);
  now_ += ClientTable::Options().lease_time - absl::Seconds(1);
  EXPECT_TRUE(table_->Expire(now_).empty());
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  EXPECT_TRUE(is_known());
  table_->SessionClosed(client_);
  now_ += ClientTable::Options().lease_time;
  client_.reset();
  EXPECT_TRUE(table_->Expire(now_).empty());
  EXPECT_EQ(table_->count(), 0u);
  ASSERT_EQ(Connect(1, At("192.0.2.1")), DafsStatus::kOk);
  EXPECT_FALSE(is_known());
}

// The refusal names the host that owns the name.
TEST_F(ClientTableTest, InstanceWithALeaseIsReplacedOnlyFromItsOwnAddress) {
  ConnectAndOpen(1, At("192.0.2.1"));
  const std::shared_ptr<Client> old = client_;
  const auto other = table_->Connect("c1", wire::OpaqueFromUint64<wire::Verifier>(2), 0);
  const ClientTable::Confirmation refused = table_->Confirm(other, At("192.0.2.2"), now_);
  EXPECT_EQ(refused.status, DafsStatus::kClidInUse);
  ASSERT_TRUE(refused.holder.has_value());
  EXPECT_EQ(refused.holder->host.ToString(), "192.0.2.1");
  EXPECT_FALSE(old->superseded());
  EXPECT_EQ(Connect(2, At("192.0.2.1")), DafsStatus::kOk);
  EXPECT_EQ(replaced_, old);
}

// The state kept for clients with expired leases is bounded in total. The client that has been
// silent longest loses its state first.
TEST_F(ClientTableTest, LongestSilentClientLosesItsStateWhenTheBoundIsReached) {
  ClientTable::Options options;
  options.max_courtesy = 10;
  table_ = std::make_unique<ClientTable>(options);
  std::vector<std::shared_ptr<Client>> clients;
  for (uint64_t i = 0; i < 3; ++i) {
    clients.push_back(table_->Connect("c" + std::to_string(i), wire::Verifier(), 0));
    ASSERT_EQ(table_->Confirm(clients[i], At("192.0.2.1"), now_ + absl::Seconds(i)).status,
              DafsStatus::kOk);
    clients[i]->holdings()->opens = 3;
    wire::CredHandle handle;
    ASSERT_EQ(clients[i]->credentials().Register({}, &handle), DafsStatus::kOk);
    table_->SessionClosed(clients[i]);
  }
  now_ += options.lease_time + absl::Seconds(1);
  EXPECT_TRUE(table_->Expire(now_).empty());  // two of the clients
  now_ += absl::Seconds(1);
  EXPECT_THAT(table_->Expire(now_), testing::ElementsAre(clients[0]->client_id()));
  clients[0]->holdings()->opens = 0;
  EXPECT_TRUE(table_->Expire(now_).empty());
  EXPECT_EQ(table_->count(), 2u);
}

}  // namespace
}  // namespace dafs::server
