// Sessions that authenticate by GSS at a real server, with the tokens of
// tests/wire/auth/fake_gss.h.
#include "client/session/login.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/library/library.h"
#include "tests/client/server_fixture.h"
#include "tests/wire/auth/fake_gss.h"
#include "wire/auth/credentials.h"

namespace dafs::client {
namespace {

using auth::testing::FakeInitiator;
using testing::HasSubstr;

constexpr char kMachine[] = "host/a.test@R";

class LoginTest : public ServerTest {
 protected:
  void SetUp() override {
    adjust_ = [](server::ServerOptions& options) {
      options.acceptor = std::make_shared<auth::testing::FakeAcceptor>();
      options.trusted = {"host/*.test@R"};
      options.exports[0].sec = server::kSecKrb5;
    };
    ServerTest::SetUp();
  }
  ClientOptions OptionsWith(std::shared_ptr<auth::Initiator> initiator) {
    ClientOptions options = Options();
    options.auth = Auth::kGss;
    options.initiator = std::move(initiator);
    options.must_be_trusted = true;
    return options;
  }
  // Why there is no session.
  absl::Status Refusal(ClientOptions options) {
    StopClient();
    client_ = *Client::Create(std::move(options));
    loop_ = *Loop::Create();
    files_ = *Files::Create(*client_, *loop_);
    return Await(files_->Connect());
  }
  absl::Status Refusal(const std::string& token) {
    return Refusal(OptionsWith(std::make_shared<FakeInitiator>(std::vector{token})));
  }
  // Lets the loop run until the initiator has begun `count` exchanges.
  void AwaitBegun(const FakeInitiator& initiator, int count) {
    while (initiator.begun() < count) RunUntilDone(*loop_, loop_->Sleep(absl::Milliseconds(1)));
  }
};

// Shows DAFS-3.1.1.1.1-07 (the client's part): it renews before what it has proven expires.
TEST_F(LoginTest, ProofIsRenewedBeforeItExpires) {
  auto initiator =
      std::make_shared<FakeInitiator>(std::vector<std::string>{kMachine}, absl::Seconds(1));
  StartClient(OptionsWith(initiator));
  AwaitBegun(*initiator, 3);
  EXPECT_STATUS_OK(Await(files_->Null()));
  EXPECT_EQ(files_->Report().connects, 1u);
}

// Shows DAFS-3.1.1.1.1-06 (the client): after an exchange that has succeeded, one that the server
// has refused, and one that has failed at its answer.
TEST_F(LoginTest, NoExchangeOutlivesItsSession) {
  auto initiator =
      std::make_shared<FakeInitiator>(std::vector<std::string>{kMachine, "bad", "more"});
  ClientOptions options = OptionsWith(initiator);
  options.back_control_channel = true;
  StartClient(options);
  StopClient();
  EXPECT_EQ(initiator->begun(), 2);
  EXPECT_EQ(initiator->living(), 0);
  EXPECT_FALSE(Refusal(options).ok());
  initiator->SetAnswer(absl::UnauthenticatedError("Kerberos: the server: bad answer"));
  EXPECT_FALSE(Refusal(options).ok());
  StopClient();
  EXPECT_GT(initiator->begun(), 3);
  EXPECT_EQ(initiator->living(), 0);
}

// Shows FAST03-4-21: the exchange is one that the program brings. Kerberos (wire/auth) is another.
TEST_F(LoginTest, ProgramOfTheLibraryBringsItsOwnExchange) {
  loop_ = *Loop::Create();
  const auto open = [&](std::shared_ptr<auth::Initiator> initiator) {
    LibraryOptions options;
    options.server = server_->bound()[0].address.ToString();
    options.export_path = "/data";
    options.providers = {provider_.get()};
    options.client.buffers.bytes = size_t{8} << 20;
    options.client.auth = Auth::kGss;
    options.client.initiator = std::move(initiator);
    options.client.must_be_trusted = true;
    options.keep_leases = false;
    auto library = Library::Open(std::move(options));
    if (!library.ok()) return library.status();
    return ExportSession::Open(**library, *loop_, root_user_).status();
  };
  auto initiator = std::make_shared<FakeInitiator>(std::vector<std::string>{kMachine});
  EXPECT_STATUS_OK(open(initiator));
  EXPECT_EQ(initiator->begun(), 1);
  EXPECT_EQ(initiator->living(), 0);
  EXPECT_EQ(open(std::make_shared<FakeInitiator>(std::vector<std::string>{"bad"})).code(),
            absl::StatusCode::kUnauthenticated);
}

// A channel of its own proves itself, too.
TEST_F(LoginTest, EachChannelHasAnExchange) {
  auto initiator = std::make_shared<FakeInitiator>(std::vector<std::string>{kMachine});
  ClientOptions options = OptionsWith(initiator);
  options.back_control_channel = true;
  StartClient(std::move(options));
  EXPECT_EQ(initiator->begun(), 2);
  EXPECT_THAT(files_->Report().session.transport, HasSubstr("Back-control Channel"));
}

// By the server's clock, the proof may expire earlier than the client believes.
TEST_F(LoginTest, RequestsOfAnExpiredSessionAreMadeByTheNext) {
  auto initiator = std::make_shared<FakeInitiator>(
      std::vector<std::string>{std::string(kMachine) + " - 0.5", kMachine});
  StartClient(OptionsWith(initiator));
  RunUntilDone(*loop_, loop_->Sleep(absl::Milliseconds(550)));
  OpenRequest request = ToOpen("file");
  request.create = true;
  EXPECT_STATUS_OK(Await(files_->opens().Open(root_user_, request)));
  EXPECT_EQ(initiator->begun(), 2);
  EXPECT_EQ(files_->Report().connects, 2u);
}

TEST_F(LoginTest, ServerThatProvesNothingGetsNoSession) {
  auto initiator = std::make_shared<FakeInitiator>(std::vector<std::string>{kMachine});
  initiator->SetAnswer(absl::UnauthenticatedError("Kerberos: the server: bad answer"));
  const absl::Status status = Refusal(OptionsWith(initiator));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bad answer"));
}

TEST_F(LoginTest, RefusalsNameTheirRemedy) {
  const auto message = [&](const std::string& token, absl::StatusCode code) {
    const absl::Status status = Refusal(token);
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message("bad", absl::StatusCode::kUnauthenticated),
              HasSubstr("refuses this principal"));
  // A user's ticket does not make the mount a machine.
  EXPECT_THAT(message("alice@R daemon", absl::StatusCode::kUnauthenticated),
              HasSubstr("--trusted"));
  EXPECT_THAT(message(std::string(69632, 'x'), absl::StatusCode::kFailedPrecondition),
              HasSubstr("msgsize=69632"));
}

// With fails_without_credentials.
TEST_F(LoginTest, RequestsOfAUserWithoutATicketFail) {
  auto initiator = std::make_shared<FakeInitiator>(std::vector<std::string>{"bad"});
  ClientOptions options = OptionsWith(initiator);
  options.must_be_trusted = false;
  options.fails_without_credentials = true;
  EXPECT_FALSE(Refusal(options).ok());
  absl::Status status = Await(files_->Null());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_FALSE(auth::HaveExpired(status));
  const int begun = initiator->begun();
  EXPECT_FALSE(Await(files_->Null()).ok());
  EXPECT_EQ(initiator->begun(), begun);  // not asked again at once

  initiator = std::make_shared<FakeInitiator>(std::vector<std::string>{"alice@R daemon"});
  initiator->SetAnswer(auth::ExpiredError("Kerberos: the ticket has expired"));
  options.initiator = initiator;
  EXPECT_FALSE(Refusal(options).ok());
  status = Await(files_->Null());
  EXPECT_TRUE(auth::HaveExpired(status)) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
}

// Its tokens take as long as a key distribution centre that does not answer.
class SlowInitiator final : public auth::Initiator {
 public:
  std::unique_ptr<auth::Exchange> Begin(const std::string&) override {
    return std::make_unique<Waiting>(go);
  }
  const std::shared_ptr<absl::Notification> go = std::make_shared<absl::Notification>();

 private:
  class Waiting final : public auth::Exchange {
   public:
    explicit Waiting(std::shared_ptr<absl::Notification> go) : go_(std::move(go)) {}
    absl::StatusOr<Progress> Step(std::string_view, std::string*) override {
      go_->WaitForNotification();
      return absl::UnavailableError("no ticket");
    }
    const std::string& peer_name() const override { return none_; }
    const std::string& user() const override { return none_; }
    absl::Duration lifetime() const override { return absl::InfiniteDuration(); }
    uint32_t major_status() const override { return 0; }
    uint32_t minor_status() const override { return 0; }

   private:
    const std::shared_ptr<absl::Notification> go_;
    const std::string none_;
  };
};

TEST_F(LoginTest, ClientEndsWhileItsTokenIsMade) {
  auto initiator = std::make_shared<SlowInitiator>();
  ClientOptions options = OptionsWith(initiator);
  options.connect_timeout = absl::Seconds(1);
  const absl::Status status = Refusal(std::move(options));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no ticket in time"));
  // Another attempt waits for the same thread, and its session ends meanwhile.
  Start([](Files& files) -> Task<void> {
    Task<absl::Status> connecting = files.Connect();
    const absl::Status ended = co_await connecting;
    EXPECT_FALSE(ended.ok());
  }(*files_));
  files_->Shutdown();
  RunUntilDone(*loop_, loop_->Sleep(absl::Milliseconds(1)));
  StopClient();
  initiator->go->Notify();
}

}  // namespace
}  // namespace dafs::client
