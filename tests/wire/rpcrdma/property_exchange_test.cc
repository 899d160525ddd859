// The operations on transport properties between an end of ours and a scripted peer, and between
// two ends of ours.
#include "wire/rpcrdma/property_exchange.h"

#include <gtest/gtest.h>

#include "tests/wire/rpcrdma/hex.h"
#include "tests/wire/rpcrdma/rig.h"

namespace dafs::rpcrdma {
namespace {

using testing::CallMessage;
using testing::HeaderOf;
using testing::Hex;
using testing::ReplyMessage;
using testing::Script;

class RpcRdmaPropertyExchange : public testing::Rig {
 protected:
  // A scripted client that has made a call and has the server's announcement.
  void BeginServer() {
    ConnectScript();
    ASSERT_NE(Exchange(HeaderOf(Proc::kMessage, 9), CallMessage(9), Proc::kMessage), nullptr);
    if (!server_options_.properties) return;
    ASSERT_TRUE(Until([&] { return client_script_->Count(Proc::kConnectionProperties) == 1; }));
  }
  Header Announcement(PropertySet values, PropertySubset no_change = {}) {
    Header header = HeaderOf(Proc::kConnectionProperties, 70);
    header.properties.values = std::move(values);
    header.properties.no_change = std::move(no_change);
    return header;
  }
  void Announce(PropertySet values, PropertySubset no_change = {}) {
    client_script_->Send(Announcement(std::move(values), std::move(no_change)));
    ASSERT_TRUE(Until([&] { return server_->properties().announced().has_value(); }));
  }
  PropertiesBody AnswerTo(PropertySet wanted, uint32_t xid = 9) {
    Header header = HeaderOf(Proc::kRequestProperties, xid);
    header.properties.values = std::move(wanted);
    const Script::Message* const answer = Exchange(header, {}, Proc::kRespondProperties);
    if (answer == nullptr) {
      ADD_FAILURE() << "no response";
      return {};
    }
    EXPECT_EQ(answer->header.xid, xid);
    return answer->header.properties;
  }
  ErrorCode ErrorFor(const Header& header) {
    const Script::Message* const answer = Exchange(header, {}, Proc::kError);
    return answer == nullptr ? ErrorCode{} : answer->header.error.code;
  }
  // The outcome of the server's request to the scripted client, which `respond` answers.
  absl::StatusOr<std::vector<Change>> Ask(PropertySet wanted,
                                          std::function<void(const Script::Message&)> respond) {
    client_script_->answer = [respond](const Script::Message& got) {
      if (got.header.proc == Proc::kRequestProperties) respond(got);
    };
    std::optional<absl::StatusOr<std::vector<Change>>> result;
    server_->properties().Ask(std::move(wanted),
                              [&](auto changes) { result = std::move(changes); });
    EXPECT_TRUE(Until([&] { return result.has_value(); }));
    client_script_->answer = nullptr;
    return *std::move(result);
  }
  Header ResponseTo(const Script::Message& request) {
    return HeaderOf(Proc::kRespondProperties, request.header.xid);
  }
};

// Shows RPCRDMA2-6.3.1-01, RPCRDMA2-6.3.1-04, RPCRDMA2-6.2.1-01: messages of the size arrive.
TEST_F(RpcRdmaPropertyExchange, BothEndsAnnounceTheirs) {
  server_options_.receive_size = 8192;
  server_options_.backward = BackwardSupport::kNone;
  BeginServer();
  const Script::Message& got = *client_script_->Last(Proc::kConnectionProperties);
  EXPECT_LE(got.size, 1024u);
  EXPECT_EQ(got.header.properties.values,
            (PropertySet{ReceiveSizeValue(8192), BackwardValue(BackwardSupport::kNone)}));
  EXPECT_TRUE(InSubset(got.header.properties.no_change, 1));
  EXPECT_FALSE(InSubset(got.header.properties.no_change, 0));
  const Bytes large = CallMessage(10, 8192 - 36 - CallMessage(10).size());
  for (uint32_t i = 0; i < 40; ++i) {  // more than there are receives
    ASSERT_NE(Exchange(HeaderOf(Proc::kMessage, 10), large, Proc::kMessage), nullptr);
  }
  EXPECT_EQ(calls_.back(), large);
}

// Shows RPCRDMA2-3.3-02, RPCRDMA2-6.2.1-02.
TEST_F(RpcRdmaPropertyExchange, ALargerReceiveSizeIsUsed) {
  server_options_.receive_size = 8192;
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  ASSERT_TRUE(Until([&] { return client_->peer_properties().receive_size == 8192; }));
  ASSERT_TRUE(Run({.message = CallMessage(2, 8000)}).ok());
  EXPECT_FALSE(requests_.back().was_long);
  ASSERT_TRUE(Run({.message = CallMessage(3, 8192)}).ok());
  EXPECT_TRUE(requests_.back().was_long);
}

// Shows RPCRDMA2-6.3.1-02: the peer answers with an error, or not at all.
TEST_F(RpcRdmaPropertyExchange, APeerWithoutPropertiesKeepsTheDefaults) {
  client_options_.receive_size = 8192;
  for (const ErrorCode code : {ErrorCode::kInvalidOption, ErrorCode::kInvalidProcedure}) {
    ConnectToScript();
    server_script_->answer = [&](const Script::Message& got) {
      if (got.header.proc == Proc::kMessage) {
        server_script_->Send(ReplyTo(got), ReplyMessage(got.header.xid));
      } else {
        server_script_->Send(ErrorTo(got, {.code = code}));
      }
    };
    ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
    ASSERT_TRUE(Until([&] { return client_->properties().peer_lacks_them(); }));
    // A reply of more than 4096 bytes gets a chunk, although our receives are larger.
    ASSERT_TRUE(Run({.message = CallMessage(2), .max_reply_bytes = 5000}).ok());
    EXPECT_TRUE(server_script_->Last(Proc::kMessage)->header.chunks.reply.has_value());
    EXPECT_TRUE(client_->status().ok());
    client_.reset();
    server_script_.reset();
  }
}

// Shows RPCRDMA2-5.1-03, RPCRDMA2-6.3-01, RPCRDMA2-6.3-02, RPCRDMA2-6.3-05: all four or none.
TEST_F(RpcRdmaPropertyExchange, AnEndWithoutThemKnowsNone) {
  server_options_.properties = false;
  BeginServer();
  for (const Proc proc : {Proc::kConnectionProperties, Proc::kRequestProperties,
                          Proc::kRespondProperties, Proc::kUpdateProperties}) {
    EXPECT_EQ(ErrorFor(HeaderOf(proc, 5)), ErrorCode::kInvalidOption);
  }
  EXPECT_EQ(client_script_->Count(Proc::kConnectionProperties), 0u);
}

// Shows RPCRDMA2-6.1.1-02, RPCRDMA2-6.1.1-03.
TEST_F(RpcRdmaPropertyExchange, WrongValuesAreErrors) {
  BeginServer();
  EXPECT_EQ(ErrorFor(Announcement({{1, Hex("0020")}})), ErrorCode::kBadXdr);
  EXPECT_EQ(ErrorFor(Announcement({{2, Hex("00000009")}})), ErrorCode::kBadXdr);
  Bytes cut = EncodeHeader(Announcement({ReceiveSizeValue(8192)}));
  cut.resize(cut.size() - 8);
  const size_t before = client_script_->Count(Proc::kError);
  ASSERT_TRUE(client_script_->channel->Send(cut, {}).ok());
  ASSERT_TRUE(Until([&] { return client_script_->Count(Proc::kError) > before; }));
  EXPECT_EQ(client_script_->Last(Proc::kError)->header.error.code, ErrorCode::kBadXdr);
  EXPECT_EQ(server_->peer_properties(), Properties());
}

// Shows RPCRDMA2-6.3.1-06, RPCRDMA2-6.1.1-04.
TEST_F(RpcRdmaPropertyExchange, UnknownPropertiesOfAnAnnouncementAreIgnored) {
  BeginServer();
  Announce({{4711, Hex("aa")}, ReceiveSizeValue(9000), {kFirstExperimentalProperty, {}}});
  EXPECT_EQ(server_->peer_properties().receive_size, 9000u);
  EXPECT_EQ(client_script_->Count(Proc::kError), 0u);
}

// Shows RPCRDMA2-6.3.2-01, RPCRDMA2-6.3.2-02, RPCRDMA2-6.3.3-01, RPCRDMA2-6.3.3-03,
// RPCRDMA2-6.3.3-06, RPCRDMA2-6.2-02: also with the XID of a call.
TEST_F(RpcRdmaPropertyExchange, ARequestIsAlwaysAnswered) {
  BeginServer();
  PropertiesBody answer = AnswerTo({{4711, {}},
                                    ReceiveSizeValue(8192),
                                    BackwardValue(BackwardSupport::kNone),
                                    ReceiveSizeValue(100)});
  EXPECT_EQ(answer.done, PropertySubset{0b0010});
  EXPECT_EQ(answer.rejected, PropertySubset{0b1101});
  EXPECT_TRUE(answer.values.empty());
  EXPECT_EQ(server_->own_properties().receive_size, 8192u);
  EXPECT_EQ(server_->own_properties().backward, BackwardSupport::kGeneral);
  answer = AnswerTo({});
  EXPECT_TRUE(answer.done.empty() && answer.rejected.empty() && answer.values.empty());
}

// Shows RPCRDMA2-6.3.3-04, RPCRDMA2-6.2.1-03: messages of the new size arrive at once.
TEST_F(RpcRdmaPropertyExchange, AReceiveSizeBeyondTheCapacityIsGrantedInPart) {
  BeginServer();
  const PropertiesBody answer = AnswerTo({ReceiveSizeValue(1 << 20)});
  EXPECT_EQ(answer.values, PropertySet{ReceiveSizeValue(server_options_.receive_capacity)});
  EXPECT_TRUE(answer.done.empty() && answer.rejected.empty());
  const size_t bytes = server_options_.receive_capacity - 36 - CallMessage(3).size();
  ASSERT_NE(Exchange(HeaderOf(Proc::kMessage, 3), CallMessage(3, bytes), Proc::kMessage), nullptr);
}

// Shows RPCRDMA2-6.2.1-04, RPCRDMA2-6.2-03, RPCRDMA2-6.3.4-01.
TEST_F(RpcRdmaPropertyExchange, AnEndRaisesItsReceiveSizeAndLowersItOnRequestOnly) {
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  ASSERT_TRUE(Until([&] {
    return client_->properties().announced().has_value() &&
           server_->properties().announced().has_value();
  }));
  EXPECT_FALSE(server_->properties().RaiseReceiveSize(1 << 20).ok());
  ASSERT_TRUE(server_->properties().RaiseReceiveSize(8192).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(server_->properties().RaiseReceiveSize(4096)));
  ASSERT_TRUE(Until([&] { return client_->peer_properties().receive_size == 8192; }));
  ASSERT_TRUE(Run({.message = CallMessage(2, 8000)}).ok());
  EXPECT_FALSE(requests_.back().was_long);
  std::optional<absl::StatusOr<std::vector<Change>>> changes;
  client_->properties().Ask({ReceiveSizeValue(4096)},
                            [&](auto done) { changes = std::move(done); });
  ASSERT_TRUE(Until([&] { return changes.has_value(); }));
  ASSERT_TRUE(changes->ok()) << changes->status();
  EXPECT_EQ(**changes, std::vector<Change>{Change::kDone});
  EXPECT_EQ(server_->own_properties().receive_size, 4096u);
  EXPECT_EQ(client_->peer_properties().receive_size, 4096u);
}

// Shows RPCRDMA2-6.2.1-05, RPCRDMA2-6.3-04.
TEST_F(RpcRdmaPropertyExchange, AskingForASmallerSizeLimitsOurSendsUntilItIsRejected) {
  BeginServer();
  Announce({ReceiveSizeValue(16384)});
  const auto changes = Ask({ReceiveSizeValue(8192)}, [&](const Script::Message& request) {
    EXPECT_EQ(server_->peer_properties().receive_size, 8192u);
    Header response = ResponseTo(request);
    response.properties.rejected = {1};
    client_script_->Send(response);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(*changes, std::vector<Change>{Change::kRejected});
  EXPECT_EQ(server_->peer_properties().receive_size, 16384u);
}

TEST_F(RpcRdmaPropertyExchange, AnUpdateToALargerSizeEndsThatLimit) {
  BeginServer();
  Announce({ReceiveSizeValue(12000)});
  const auto changes = Ask({ReceiveSizeValue(8192)}, [&](const Script::Message& request) {
    Header update = HeaderOf(Proc::kUpdateProperties, 3);
    update.properties.values = {ReceiveSizeValue(16000)};
    client_script_->Send(update);
    EXPECT_TRUE(Until([&] { return server_->peer_properties().receive_size == 16000; }));
    Header response = ResponseTo(request);
    response.properties.rejected = {1};
    client_script_->Send(response);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(server_->peer_properties().receive_size, 16000u);
}

// Shows RPCRDMA2-6.3.3-02, RPCRDMA2-6.3.3-05, RPCRDMA2-6.3.3-07.
TEST_F(RpcRdmaPropertyExchange, AResponseTakesEffectForWhatWasRequested) {
  BeginServer();
  Announce({ReceiveSizeValue(4096), BackwardValue(BackwardSupport::kNone)});
  auto changes = Ask({ReceiveSizeValue(8192)}, [&](const Script::Message& request) {
    Header response = ResponseTo(request);
    response.properties.done = {1};
    response.properties.values = {BackwardValue(BackwardSupport::kGeneral)};
    client_script_->Send(response);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(*changes, std::vector<Change>{Change::kDone});
  EXPECT_EQ(server_->peer_properties(), (Properties{8192, BackwardSupport::kNone}));
  changes = Ask({ReceiveSizeValue(9000)}, [&](const Script::Message& request) {
    Header response = ResponseTo(request);
    response.properties.done = response.properties.rejected = {1};
    client_script_->Send(response);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(*changes, std::vector<Change>{Change::kRejected});
  EXPECT_EQ(server_->peer_properties().receive_size, 8192u);
  changes = Ask({ReceiveSizeValue(9000)}, [&](const Script::Message& request) {
    Header response = ResponseTo(request);
    response.properties.values = {ReceiveSizeValue(8500)};
    client_script_->Send(response);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(*changes, std::vector<Change>{Change::kOther});
  EXPECT_EQ(server_->peer_properties().receive_size, 8500u);
}

// Shows RPCRDMA2-6.3.1-03, RPCRDMA2-6.3.1-05.
TEST_F(RpcRdmaPropertyExchange, PropertiesThatDoNotChangeAreNotRequested) {
  BeginServer();
  Announce({BackwardValue(BackwardSupport::kGeneral)}, {1});
  const auto never = [](const Script::Message&) { ADD_FAILURE() << "a request"; };
  // One is marked as lasting, the other was not announced.
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Ask({BackwardValue(BackwardSupport::kNone)}, never).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask({ReceiveSizeValue(8192)}, never).status()));
  Header update = HeaderOf(Proc::kUpdateProperties, 3);
  update.properties.values = {ReceiveSizeValue(8192), BackwardValue(BackwardSupport::kNone)};
  client_script_->Send(update);
  ASSERT_NE(Exchange(HeaderOf(Proc::kMessage, 9), CallMessage(9), Proc::kMessage), nullptr);
  EXPECT_EQ(server_->peer_properties(), (Properties{4096, BackwardSupport::kGeneral}));
}

TEST_F(RpcRdmaPropertyExchange, ARequestFailsIfThePeerDoesNotTakeIt) {
  BeginServer();
  Announce({ReceiveSizeValue(9000)});
  auto changes = Ask({ReceiveSizeValue(8192)}, [&](const Script::Message& request) {
    client_script_->Send(ErrorTo(request, {.code = ErrorCode::kInvalidOption}));
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(changes.status())) << changes.status();
  EXPECT_EQ(server_->peer_properties().receive_size, 9000u);
  EXPECT_TRUE(server_->properties().peer_lacks_them());
}

TEST_F(RpcRdmaPropertyExchange, ARequestFailsWithItsConnection) {
  BeginServer();
  Announce({ReceiveSizeValue(9000)});
  const auto changes = Ask({ReceiveSizeValue(8192)}, [&](const Script::Message&) {
    client_script_->channel->endpoint().Disconnect();
  });
  EXPECT_TRUE(absl::IsUnavailable(changes.status())) << changes.status();
}

}  // namespace
}  // namespace dafs::rpcrdma
