// Asynchronous batches, and the Back-control Channel that reports their results.
#include <cstring>

#include "tests/server/procedures/batch_fixture.h"

namespace dafs::server {
namespace {

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Shows DAFS-3.1.2.3.3-02, DAFS-3.2.5-07, DAFS-3.2.6.1-01, DAFS-6.1.1.5-01, DAFS-6.1.7-03,
// DAFS-6.5.5-07, DAFS-6.5.5-16, DAFS-6.6.2-01, DAFS-6.6.2-02, DAFS-6.6.2-03; R59, R72, R74, R88.
TEST_F(BatchTest, ResultsArriveOnTheBackControlChannel) {
  for (const auto& [order, checksums] :
       {std::pair(ByteOrder::kLittle, false), std::pair(ByteOrder::kBig, true)}) {
    End();
    Start(/*read_channel=*/false, order, checksums);
    BindBackControl();
    const std::string data = Pattern(400000);
    const std::string fresh = "fresh data";
    std::memcpy(memory_.bytes.data() + 1000000, fresh.data(), fresh.size());
    wire::RwRequest write = Item(wire::RwFlag::kWrite, 2, 400000, 10, 1000000);
    if (checksums) write.direct_checksum = wire::ComputeChecksum(AsBytes(fresh), order);
    wire::RwRequest tail = Item(wire::RwFlag::kRead, 3, 390000, 300000, 2000000);
    wire::RwRequest stale = Item(wire::RwFlag::kRead, 4, 0, 10, 3000000);
    stale.filehandle.fileid.bytes[7] ^= 0x33;
    EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 1, 5, 300000), stale})), "DAFS_STATUS_OK");
    auto all = Collect(2);
    EXPECT_EQ(all[1].status, 0u);
    EXPECT_EQ(all[1].bytes_transferred, 300000u);
    EXPECT_EQ(std::memcmp(memory_.bytes.data(), data.data() + 5, 300000), 0);
    const wire::Checksum sum = wire::ComputeChecksum(AsBytes(data.substr(5, 300000)), order);
    EXPECT_EQ(all[1].direct_checksum, checksums ? sum : wire::Checksum());
    EXPECT_EQ(all[4].status, static_cast<uint32_t>(DafsStatus::kBadHandle));
    EXPECT_EQ(Submit(Batch({write})), "DAFS_STATUS_OK");
    all = Collect(1);
    EXPECT_EQ(all[2].status, 0u);
    EXPECT_EQ(all[2].bytes_transferred, 10u);
    EXPECT_EQ(all[2].direct_checksum, wire::Checksum());
    EXPECT_TRUE(ReadFile("a/f") == data + fresh);
    EXPECT_EQ(Submit(Batch({tail})), "DAFS_STATUS_OK");
    all = Collect(1);
    EXPECT_EQ(all[3].status, 0u);
    EXPECT_EQ(all[3].bytes_transferred, 10010u);  // short: the file ends there
    if (!checksums) continue;
    write.direct_checksum.s1 ^= 1;
    EXPECT_EQ(Submit(Batch({write})), "DAFS_STATUS_OK");
    EXPECT_EQ(Collect(1)[2].status, static_cast<uint32_t>(DafsStatus::kChksum));
  }
}

// Shows DAFS-6.5.5-09, DAFS-6.5.5-13, DAFS-6.5.5-14, DAFS-6.5.5-15, DAFS-6.6.2-04.
TEST_F(BatchTest, CompletionsArriveInGroupsOfTheRequestedSize) {
  Start();
  BindBackControl();
  auto seven = [&](uint64_t first) {
    std::vector<wire::RwRequest> items;
    for (uint64_t i = 0; i < 7; ++i) {
      items.push_back(Item(wire::RwFlag::kRead, first + i, i * 10, 10, i * 10));
    }
    return items;
  };
  EXPECT_EQ(Submit(Batch(seven(1), 0, 3)), "DAFS_STATUS_OK");
  Collect(7);
  EXPECT_EQ(sizes_, (std::vector<size_t>{3, 3, 1}));
  // The size 0 keeps the previous size. A synchronous batch does not change it; an empty batch
  // does.
  wire::BatchSubmitArgs synchronous = Batch({Item(wire::RwFlag::kRead, 90, 0, 5)}, 77, 1);
  synchronous.synchronous = true;
  EXPECT_EQ(session_->Call(synchronous).res.completions.size(), 1u);
  sizes_.clear();
  EXPECT_EQ(Submit(Batch(seven(11))), "DAFS_STATUS_OK");
  Collect(7);
  EXPECT_EQ(sizes_, (std::vector<size_t>{3, 3, 1}));
  EXPECT_EQ(Submit(Batch({}, 0, 5)), "DAFS_STATUS_OK");
  sizes_.clear();
  EXPECT_EQ(Submit(Batch(seven(21))), "DAFS_STATUS_OK");
  Collect(7);
  EXPECT_EQ(sizes_, (std::vector<size_t>{5, 2}));
  // One group may hold several batches. The size requested last counts, however large it is.
  sizes_.clear();
  EXPECT_EQ(Submit(Batch({}, 0, 0xffffffff)), "DAFS_STATUS_OK");
  EXPECT_EQ(Submit(Batch(seven(31))), "DAFS_STATUS_OK");
  Collect(7);
  EXPECT_EQ(sizes_, (std::vector<size_t>{7}));
}

// Shows DAFS-3.2.6.2-01 (the server's part), DAFS-3.2.6.4.1-03, DAFS-3.2.6.3-06, DAFS-3.2.6.3-10,
// and 3.2.6.4.2 for this direction: the server sends no more directives, and no larger ones, than
// the client granted. It also follows the client's request for fewer.
TEST_F(BatchTest, ClientGrantsTheCreditsOfDirectives) {
  Start();
  back_ = Channel();
  wire::ConnectBindArgs bind = Bind(wire::ChannelUse::kBackControl);
  bind.max_requests = 2;
  bind.max_request_size = 87;  // rounded down to 80: one completion
  auto bound = back_->Call(bind);
  ASSERT_EQ(bound.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(bound.res.max_requests, 2u);
  EXPECT_EQ(bound.res.max_request_size, 80u);
  std::vector<wire::RwRequest> items;
  for (uint64_t i = 1; i <= 6; ++i) items.push_back(Item(wire::RwFlag::kRead, i, 0, 10, i * 10));
  EXPECT_EQ(Submit(Batch(items)), "DAFS_STATUS_OK");
  std::optional<Directive> first = Take();
  std::optional<Directive> second = Take();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->completions.size(), 1u);
  EXPECT_NE(first->header.stream_id, second->header.stream_id);
  EXPECT_TRUE(NothingReported());
  // From here one at a time: only the directive that was answered last is outstanding.
  EXPECT_TRUE(Answer(*first, DafsStatus::kOk, 1));
  EXPECT_TRUE(NothingReported());
  EXPECT_TRUE(Answer(*second, DafsStatus::kOk, 1));
  for (int i = 0; i < 4; ++i) {
    std::optional<Directive> next = Take();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->header.stream_id, 0u);
    EXPECT_TRUE(NothingReported());
    EXPECT_TRUE(Answer(*next, DafsStatus::kOk, 1));
  }
}

// The session is busy while data of the client does not arrive (its RDMA-read Channel is not
// polled). Shows DAFS-4.2.3-03, DAFS-6.5.5-09, DAFS-6.5.16-01, DAFS-6.5.16-05. Also
// DAFS-3.1.2.3.4-02 and DAFS-3.1.2.3.5-01: the data arrives only on that channel.
TEST_F(BatchTest, WindowsAreRespectedAndHurryUpEndsThem) {
  StartBusy(100000);
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 1, 0, 10)}, kHour)), "DAFS_STATUS_OK");
  EXPECT_EQ(HurryUp(2), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
  EXPECT_TRUE(NothingReported());
  EXPECT_EQ(HurryUp(1), "DAFS_STATUS_OK");
  EXPECT_EQ(Collect(1)[1].bytes_transferred, 10u);
  EXPECT_EQ(HurryUp(1), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
  // A request whose window has expired runs like any other.
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 3, 0, 10)}, 20000)), "DAFS_STATUS_OK");
  EXPECT_EQ(Collect(1)[3].bytes_transferred, 10u);
  // A request with a window also runs when the session has nothing else to do.
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 4, 0, 10)}, kHour, 2)), "DAFS_STATUS_OK");
  EXPECT_TRUE(NothingReported());
  read_channel_polled_ = true;
  EXPECT_EQ(Collect(1)[4].bytes_transferred, 10u);
  EXPECT_EQ(session_->ReceiveReply<wire::WriteDirectArgs>().name(), "DAFS_STATUS_OK");
}

// Shows DAFS-4.2.3-05, DAFS-6.5.5-18 (WHOA_COWBOY): outstanding requests are bounded. After they
// are done, the session may submit again.
TEST_F(BatchTest, TooManyOutstandingRequestsAreThrottled) {
  options_.max_batch_requests = 4;
  Start(/*read_channel=*/true);
  BindBackControl();
  read_channel_polled_ = false;
  std::vector<wire::RwRequest> six;
  for (uint64_t i = 1; i <= 6; ++i) {
    six.push_back(Item(wire::RwFlag::kWrite, i, i * 1000, 1000, i * 1000));
  }
  EXPECT_EQ(Submit(Batch(six)), "DAFS_STATUS_OK");
  const wire::BatchSubmitArgs one = Batch({Item(wire::RwFlag::kRead, 7, 0, 10)});
  EXPECT_EQ(Submit(one), "DAFSERR_WHOA_COWBOY");
  EXPECT_EQ(HurryUp(7), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
  read_channel_polled_ = true;
  Collect(6);
  EXPECT_EQ(Submit(one), "DAFS_STATUS_OK");
  Collect(1);
}

// Shows DAFS-6.6.1-02, DAFS-7-19, R78: a batch with an invalid request is refused as a whole, and
// an asynchronous one before the Back-control Channel is bound.
TEST_F(BatchTest, WrongBatchesAreRefusedAsAWhole) {
  Start(/*read_channel=*/true);
  const wire::RwRequest good = Item(wire::RwFlag::kRead, 1, 0, 10);
  EXPECT_EQ(Submit(Batch({good})), "DAFSERR_BACK_CHANNEL_UNUSABLE");
  BindBackControl();
  read_channel_polled_ = false;
  // Outstanding: its data does not arrive.
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kWrite, 9, 0, 1000)})), "DAFS_STATUS_OK");
  const wire::RwRequest used = Item(wire::RwFlag::kRead, 9, 0, 10);
  EXPECT_EQ(Submit(Batch({good, used})), "DAFSERR_INVAL");
  wire::BatchSubmitArgs synchronous = Batch({good, used});
  synchronous.synchronous = true;
  EXPECT_EQ(Submit(synchronous), "DAFSERR_INVAL");
  EXPECT_EQ(Submit(Batch({good, good})), "DAFSERR_INVAL");
  wire::RwRequest longer = good;
  longer.chunks[0].byte_count = 11;
  EXPECT_EQ(Submit(Batch({longer})), "DAFSERR_INVAL");
  wire::RwRequest huge = good;
  huge.chunks = {{.byte_count = 0xffffffff}, {.byte_count = 1}};
  huge.request_buffers = {memory_.At(0, 0xffffffff), memory_.At(0, 1)};
  EXPECT_EQ(Submit(Batch({huge})), "DAFSERR_INVAL");
  // None of them was begun, and their ids are free.
  EXPECT_EQ(Submit(Batch({good})), "DAFS_STATUS_OK");
  EXPECT_EQ(Collect(1)[1].status, 0u);
  read_channel_polled_ = true;
  Collect(1);
}

// Shows DAFS-6.5.16-03, R78: the requests of a synchronous batch are outstanding until its
// response. HURRY_UP does not wait for the data.
TEST_F(BatchTest, SynchronousBatchIsOutstandingUntilItsResponse) {
  Start(/*read_channel=*/true);
  BindBackControl();
  wire::BatchSubmitArgs synchronous = Batch({Item(wire::RwFlag::kWrite, 11, 0, 1000)});
  synchronous.synchronous = true;
  ASSERT_TRUE(session_->SendRequest(synchronous, 1));  // its data does not arrive yet
  const wire::RwRequest used = Item(wire::RwFlag::kRead, 11, 0, 10);
  EXPECT_EQ(Submit(Batch({used})), "DAFSERR_INVAL");
  EXPECT_EQ(Submit(synchronous), "DAFSERR_INVAL");
  wire::HurryUpArgs hurry;
  hurry.request_id = 11;
  EXPECT_EQ(session_->Call(hurry).name(), "DAFS_STATUS_OK");
  const absl::Time deadline = Loop::Now() + kPatience;
  while (!session_->ready() && Loop::Now() < deadline) {
    read_channel_->Poll();
    session_->Poll();
  }
  auto reply = session_->ReceiveReply<wire::BatchSubmitArgs>();
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  ASSERT_EQ(reply.res.completions.size(), 1u);
  EXPECT_EQ(reply.res.completions[0].bytes_transferred, 1000u);
  EXPECT_EQ(session_->Call(hurry).name(), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
  EXPECT_EQ(Submit(Batch({used})), "DAFS_STATUS_OK");
  EXPECT_EQ(Collect(1)[11].status, 0u);
}

// Extreme values each get a status of their own. The session continues.
TEST_F(BatchTest, ExtremeValuesGetAStatusAndKeepTheSession) {
  Start();
  BindBackControl();
  std::vector<wire::RwRequest> items;
  items.push_back(Item(wire::RwFlag::kRead, 0, ~uint64_t{0} - 3, 100));
  items.push_back(Item(wire::RwFlag::kWrite, ~uint64_t{0}, ~uint64_t{0} - 3, 100));
  items.push_back(Item(wire::RwFlag::kWrite, 2, 0, (1 << 20) + 1));
  items.push_back(Item(wire::RwFlag::kRead, 3, 0, 0));
  items.back().chunks.clear();
  items.back().request_buffers.clear();
  items.push_back(items.back());
  items.back().request_id = 4;
  items.back().rw_flag = wire::RwFlag::kWrite;
  items.push_back(Item(wire::RwFlag::kRead, 5, 0, 0));
  items.back().chunks.clear();
  items.back().request_buffers = {memory_.At(0, 512)};
  for (uint64_t i = 0; i < 256; ++i) {  // each overlaps the previous one
    items.back().chunks.push_back({.offset = i, .byte_count = 2, .cache_hint = ~0u});
  }
  items.push_back(Item(wire::RwFlag::kRead, 6, 0, 10));
  items.back().state_id.bytes[0] ^= 0x44;
  EXPECT_EQ(Submit(Batch(items, 0xffffffff, 1)), "DAFS_STATUS_OK");
  auto all = Collect(7);
  EXPECT_EQ(all[0].status, 0u);
  EXPECT_EQ(all[0].bytes_transferred, 0u);
  EXPECT_EQ(all[~uint64_t{0}].status, static_cast<uint32_t>(DafsStatus::kFbig));
  EXPECT_EQ(all[2].status, static_cast<uint32_t>(DafsStatus::kWriteTooBig));
  EXPECT_EQ(all[3].status, 0u);
  EXPECT_EQ(all[4].status, 0u);
  EXPECT_EQ(all[5].status, 0u);
  EXPECT_EQ(all[5].bytes_transferred, 512u);
  EXPECT_EQ(all[6].status, static_cast<uint32_t>(DafsStatus::kBadStateId));
  EXPECT_TRUE(ReadFile("a/f") == Pattern(400000));
}

// The server keeps nothing of a batch, neither memory nor a response.
TEST_F(BatchTest, NothingIsKeptOfALostSession) {
  Start(/*read_channel=*/true);
  BindBackControl();
  read_channel_polled_ = false;
  std::vector<wire::RwRequest> items;
  for (uint64_t i = 1; i <= 40; ++i) {
    items.push_back(Item(wire::RwFlag::kWrite, i, i * 1000, 1000, i * 1000));
  }
  const wire::RequestHeader header = session_->Header(3);
  ASSERT_TRUE(session_->Send(session_->Encode(header, Batch(items))));
  ASSERT_EQ(session_->ReceiveReply<wire::BatchSubmitArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 50, 0, 10)}, kHour)), "DAFS_STATUS_OK");
  const wire::SessionId lost = negotiated_.session_id;
  session_->Vanish();
  EXPECT_TRUE(back_->AwaitClosed());
  EXPECT_TRUE(read_channel_->AwaitClosed());
  AwaitNoConnection();
  EXPECT_EQ(server_->message_bytes(), 0u);
  wire::ClientConnectAuthArgs args = ConnectArgs("batch");
  args.use_response_cache = true;
  auto next = Session(args);
  wire::CheckResponseArgs check;
  check.session_id = lost;
  check.xid_stream = header.stream_id;
  check.xid_seq = header.seq_number;
  check.procedure = static_cast<uint32_t>(wire::Proc::kBatchSubmit);
  EXPECT_EQ(next->Call(check).name(), "DAFSERR_NOXID_MATCH");
}

// Shows DAFS-3.1.2.2-05, DAFS-3.1.2.3.3-02, DAFS-6.2.5-03, DAFS-6.2.5-04: the bound channel takes
// no requests from the client, except a repeated bind.
TEST_F(BatchTest, BackControlChannelIsBoundOnceAndOnlyIfNegotiated) {
  Start();
  auto channel = Channel();
  for (auto field :
       {&wire::ConnectBindArgs::max_request_size, &wire::ConnectBindArgs::max_response_size}) {
    wire::ConnectBindArgs bind = Bind(wire::ChannelUse::kBackControl);
    bind.*field = 39;  // too small for any directive, and for any response
    EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_INVAL");
  }
  EXPECT_EQ(channel->Call(Bind(wire::ChannelUse::kRdmaRead)).name(), "DAFSERR_ILLEGAL_STATE");
  wire::ConnectBindArgs greedy = Bind(wire::ChannelUse::kBackControl);
  greedy.max_requests = greedy.max_request_size = greedy.max_response_size = 0xffffffff;
  auto bound = channel->Call(greedy);
  ASSERT_EQ(bound.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(bound.res.max_requests, 8u);
  EXPECT_EQ(bound.res.max_request_size, 4096u);
  EXPECT_EQ(bound.res.max_response_size, 4096u);
  EXPECT_EQ(channel->Call(wire::NullArgs()).name(), "DAFSERR_NOTSUPP");
  auto renewed = channel->Call(greedy);
  EXPECT_EQ(renewed.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(renewed.res.max_requests, 8u);
  EXPECT_EQ(channel->Call(Bind(wire::ChannelUse::kRdmaRead)).name(), "DAFSERR_ILLEGAL_STATE");
  EXPECT_EQ(Channel()->Call(Bind(wire::ChannelUse::kBackControl)).name(), "DAFSERR_ILLEGAL_STATE");
  channel->Close();
  channel.reset();
  EXPECT_TRUE(session_->AwaitClosed());
  // A session that did not negotiate the channel cannot bind it.
  End();
  session_ = Session(ConnectArgs("other"));
  EXPECT_FALSE(negotiated_.use_back_control_channel);
  EXPECT_EQ(Channel()->Call(Bind(wire::ChannelUse::kBackControl)).name(), "DAFSERR_ILLEGAL_STATE");
}

// Shows DAFS-6.2.5-02: the sizes are those of the channel, whatever the session has, and 0 asks for
// the default.
TEST_F(BatchTest, BindNegotiatesTheSizesOfItsChannelAlone) {
  Start(/*read_channel=*/true);
  const uint32_t of_session = negotiated_.max_request_size;
  ASSERT_NE(of_session, 4096u);
  wire::ConnectBindArgs bind = Bind(wire::ChannelUse::kBackControl);
  bind.max_requests = bind.max_request_size = bind.max_response_size = 0;
  back_ = Channel();
  auto bound = back_->Call(bind);
  ASSERT_EQ(bound.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(bound.res.max_requests, 8u);
  EXPECT_EQ(bound.res.max_request_size, 4096u);
  EXPECT_EQ(bound.res.max_response_size, 4096u);
  // As the session still allows: larger than a message of the channel.
  Bytes message = session_->Encode(session_->Header(), wire::NullArgs());
  message.resize(of_session);
  std::memcpy(&message[36], &of_session, sizeof(of_session));
  ASSERT_TRUE(session_->Send(message));
  auto reply = session_->ReceiveReply<wire::NullArgs>();
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.header.target_nreq, negotiated_.max_requests);
  EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 1, 0, 10)})), "DAFS_STATUS_OK");
  Collect(1);
}

// Shows DAFS-6.5.5-18 (the other errors): a write that is too large, or that cannot be fetched,
// fails alone.
TEST_F(BatchTest, WritesThatCannotBeDoneFailWithTheirReason) {
  options_.rdma_read_channel = RdmaReadChannel::kRequired;
  options_.max_transfer_bytes = 2 << 20;
  Start();
  BindBackControl();
  EXPECT_EQ(
      Submit(Batch({Item(wire::RwFlag::kWrite, 1, 0, 10), Item(wire::RwFlag::kWrite, 2, 0, 3 << 20),
                    Item(wire::RwFlag::kRead, 3, 0, 10)})),
      "DAFS_STATUS_OK");
  auto results = Collect(3);
  const auto name = [&](uint64_t id) {
    return wire::Name(static_cast<DafsStatus>(results[id].status));
  };
  EXPECT_EQ(name(1), "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE");
  EXPECT_EQ(name(2), "DAFSERR_WRITE_TOOBIG");
  EXPECT_EQ(name(3), "DAFS_STATUS_OK");
}

// The client answers with an unknown number, with a refusal, twice, or with garbage. This session
// ends, and no other.
TEST_F(BatchTest, WrongAnswersToDirectivesEndTheSession) {
  for (int fault = 0; fault < 4; ++fault) {
    End();
    Start();
    BindBackControl();
    auto bystander = Session("bystander");
    EXPECT_EQ(Submit(Batch({Item(wire::RwFlag::kRead, 1, 0, 10)})), "DAFS_STATUS_OK");
    std::optional<Directive> directive = Take();
    ASSERT_TRUE(directive);
    switch (fault) {
      case 0:
        directive->header.seq_number ^= 1;
        Answer(*directive);
        break;
      case 1:
        Answer(*directive, DafsStatus::kInval);
        break;
      case 2:
        Answer(*directive);
        Answer(*directive);
        break;
      default:
        back_->Send(Bytes(48, std::byte{0x5a}));
        break;
    }
    EXPECT_TRUE(back_->AwaitClosed()) << fault;
    EXPECT_TRUE(session_->AwaitClosed()) << fault;
    EXPECT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  }
}

}  // namespace
}  // namespace dafs::server
