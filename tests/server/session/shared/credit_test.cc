// Flow control: the calculation on its own, and over live sessions.
#include "server/session/shared/credit.h"

#include <algorithm>

#include "server/session/connection/streams.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

// Shows DAFS-3.2.6.4.2-06 (receives are posted to keep Nreq, none to lower it), DAFS-3.2.6.4.2-07,
// DAFS-3.2.6.4.2-08.
TEST(CreditTest, GrowsImmediatelyAndShrinksByOne) {
  CreditBudget budget(100 * 1000);
  {
    Credit credit(budget, 1000, 16);
    EXPECT_EQ(credit.Open(4), 4u);
    EXPECT_EQ(budget.used_bytes(), 4000u);
    EXPECT_EQ(credit.Target(12), 12);
    EXPECT_TRUE(credit.ResponseSent(12));
    EXPECT_EQ(credit.nreq(), 12u);
    EXPECT_EQ(credit.Target(200), 16);  // the server's limit
    EXPECT_TRUE(credit.ResponseSent(16));
    EXPECT_EQ(budget.used_bytes(), 16000u);
    for (uint32_t left = 15; left >= 2; --left) {
      EXPECT_EQ(credit.Target(2), 2);
      EXPECT_FALSE(credit.ResponseSent(2));
      EXPECT_EQ(credit.nreq(), left);
      EXPECT_EQ(budget.used_bytes(), left * 1000);
    }
    EXPECT_EQ(credit.Target(2), 2);
    EXPECT_TRUE(credit.ResponseSent(2));
    EXPECT_EQ(credit.Target(0), 2);  // no desired value
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

// Shows DAFS-3.2.6.3-05, DAFS-3.2.6.4.2-02, DAFS-3.2.6.4.2-03, DAFS-3.2.6.4.2-04.
TEST(CreditTest, ScarceMemoryIsSharedAndEverySessionGetsOne) {
  CreditBudget budget(10 * 1000);
  Credit first(budget, 1000, 64);
  EXPECT_EQ(first.Open(8), 8u);
  Credit second(budget, 1000, 64);
  EXPECT_GE(second.Open(8), 1u);
  Credit third(budget, 1000, 64);
  EXPECT_GE(third.Open(8), 1u);
  EXPECT_LE(budget.used_bytes(), 11u * 1000);
  // The target of the first session falls to its third.
  uint16_t target = first.Target(64);
  EXPECT_LE(target, 3);
  while (first.nreq() > target) {
    EXPECT_FALSE(first.ResponseSent(target));
    if (!budget.tight()) break;
    target = first.Target(0);
  }
  EXPECT_LT(first.nreq(), 8u);

  // Also if the share of a session is less than one request.
  CreditBudget least(1000);
  Credit one(least, 1000, 64);
  Credit two(least, 1000, 64);
  for (Credit* each : {&one, &two}) {
    EXPECT_EQ(each->Open(8), 1u);
    EXPECT_EQ(each->Target(64), 1u);
    EXPECT_TRUE(each->ResponseSent(1));
    EXPECT_EQ(each->nreq(), 1u);
  }
}

// Shows DAFS-5.2.1-06, DAFS-5.2.2-01.
TEST(StreamsTest, SequenceNumbersAreConsecutiveUntilAStreamExpires) {
  Streams streams;
  streams.Grant(4);
  EXPECT_FALSE(streams.Begin(4, 1));
  EXPECT_TRUE(streams.Begin(3, 65535));
  EXPECT_FALSE(streams.Begin(3, 0));  // busy
  streams.End(3);
  EXPECT_FALSE(streams.Begin(3, 7));
  EXPECT_TRUE(streams.Begin(3, 0));
  streams.Grant(2);
  streams.End(3);
  streams.Grant(4);
  EXPECT_TRUE(streams.Begin(3, 7));
}

class CreditSessionTest : public ServerTest {};

// The client calculates Nreq = max(previous - 1, target). Shows DAFS-3.2.6.4.2-01,
// DAFS-3.2.6.4.2-06 (more receives raise Nreq), DAFS-3.2.6.2-03, DAFS-5.2.2-01 (the
// lower streams remain), DAFS-6.5.1-03.
TEST_F(CreditSessionTest, CreditsFollowTheDesiredValueOfTheClient) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("credit");
  args.max_requests = 2;
  auto client = Session(args);
  uint32_t nreq = negotiated_.max_requests;
  ASSERT_EQ(nreq, 2u);
  for (const uint16_t wish : std::vector<uint16_t>{20, 3, 64, 1, 1000, 5}) {
    const uint32_t goal = std::min<uint32_t>(wish, options_.max_requests);
    client->desired_nreq = wish;
    for (int i = 0; i < 200 && nreq != goal; ++i) {
      auto reply = client->Call(wire::NullArgs());
      ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
      EXPECT_EQ(reply.header.target_nreq, goal);
      nreq = std::max<uint32_t>(nreq - 1, reply.header.target_nreq);
    }
    ASSERT_EQ(nreq, goal);
    // As many requests as granted, all at once, on as many streams.
    for (uint32_t s = 0; s < nreq; ++s) {
      ASSERT_TRUE(client->SendRequest(wire::NullArgs(), static_cast<uint16_t>(s)));
    }
    for (uint32_t s = 0; s < nreq; ++s) {
      EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
    }
    // A stream that was never granted.
    wire::RequestHeader header = client->Header(0);
    header.stream_id = 4000;
    ASSERT_TRUE(client->Send(client->Encode(header, wire::NullArgs())));
    EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFSERR_INVAL");
    client->Header(0);  // this number is used below
    auto skipped = client->Call(wire::NullArgs());
    EXPECT_EQ(skipped.name(), "DAFSERR_INVAL");
    client = Session(args);
    nreq = negotiated_.max_requests;
  }
}

// Shows DAFS-3.2.6.4.2-01 if requests are as large as the connect exchange may be: the server frees
// the receive of that exchange and counts the others separately.
TEST_F(CreditSessionTest, ReceiveOfTheConnectExchangeIsNotASessionReceive) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("credit");
  args.max_request_size = wire::kFirstReceiveBytes;
  args.max_requests = 2;
  auto client = Session(args);
  ASSERT_EQ(negotiated_.max_request_size, wire::kFirstReceiveBytes);
  client->desired_nreq = 20;
  EXPECT_EQ(client->Call(wire::NullArgs()).header.target_nreq, 20u);
  for (uint16_t s = 0; s < 20; ++s) ASSERT_TRUE(client->SendRequest(wire::NullArgs(), s));
  for (uint16_t s = 0; s < 20; ++s) {
    EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
  }
  client->desired_nreq = 1;
  EXPECT_EQ(client->Call(wire::NullArgs()).header.target_nreq, 1u);
}

// A client that sends more than granted loses the session.
TEST_F(CreditSessionTest, MoreRequestsThanGrantedEndTheSession) {
  options_.pool_threads = 1;
  StartServer();
  auto bystander = Session("bystander");
  wire::ClientConnectAuthArgs args = ConnectArgs("greedy");
  args.max_requests = 1;
  auto client = Session(args);
  bool alive = true;
  // The server answers immediately, so it may take some tries to find its receive queue empty.
  for (int i = 0; i < 20000 && alive; ++i) {
    alive = client->Send(client->Encode(client->Header(0), wire::NullArgs()));
  }
  EXPECT_TRUE(client->AwaitClosed());
  EXPECT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
