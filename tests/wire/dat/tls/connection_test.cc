// TLS connections: accepted and refused certificates, observers, broken peers, cut connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/wire/dat/iwarp/raw_peer.h"
#include "tests/wire/dat/tls/certificates.h"
#include "wire/dat/tls/openssl_tls.h"

namespace dafs::dat::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two streams with a relay between them, which records what passes and can stop or change it.
class Relay {
 public:
  Relay(const TlsOptions& client, const TlsOptions& server) : Relay() {
    client_ = *(*NewTls(client))->NewStream(near_[0].get());
    server_ = *(*NewTls(server))->NewStream(near_[1].get());
  }
  // Without a client: the test uses client_fd().
  explicit Relay(const TlsOptions& server) : Relay() {
    server_ = *(*NewTls(server))->NewStream(near_[1].get());
  }

  // Moves bytes both ways. `change` may alter those to the server.
  void Pump(const std::function<void(std::span<char>)>& change = nullptr) {
    for (const size_t from : {0u, 1u}) {
      std::array<char, 65536> bytes;
      const ssize_t got = recv(far_[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) continue;
      const std::span<char> some(bytes.data(), static_cast<size_t>(got));
      seen_.append(some.data(), some.size());
      if (change != nullptr && from == 0) change(some);
      // Blocks until the other end has room, which each Until provides by reading.
      for (size_t at = 0; at < some.size();) {
        const ssize_t sent =
            send(far_[1 - from].get(), &some[at], some.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at += static_cast<size_t>(sent);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent < 0 && on_full_) on_full_(1 - from);
      }
    }
  }
  bool Until(const std::function<bool()>& done) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!done()) {
      if (Loop::Now() > deadline) return false;
      Pump();
    }
    return true;
  }
  bool Handshake() {
    using enum TlsStream::Progress;
    TlsStream::Progress ours = kWaits, theirs = kWaits;
    return Until([&] {
             if (ours == kWaits) ours = client_->Handshake();
             if (theirs == kWaits) theirs = server_->Handshake();
             return ours != kWaits && theirs != kWaits;
           }) &&
           ours == kDone && theirs == kDone;
  }
  void Cut() { far_ = {}; }

  TlsStream& client() { return *client_; }
  TlsStream& server() { return *server_; }
  int client_fd() const { return near_[0].get(); }
  const std::string& seen() const { return seen_; }
  void set_on_full(std::function<void(size_t)> on_full) { on_full_ = std::move(on_full); }

 private:
  Relay() {
    for (const size_t side : {0u, 1u}) {
      int fds[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) continue;
      near_[side] = UniqueFd(fds[0]);
      far_[side] = UniqueFd(fds[1]);
    }
  }

  std::array<UniqueFd, 2> near_;
  std::array<UniqueFd, 2> far_;
  std::unique_ptr<TlsStream> client_;
  std::unique_ptr<TlsStream> server_;
  std::function<void(size_t)> on_full_;
  std::string seen_;
};

ssize_t SendText(TlsStream& stream, std::string_view text) {
  const iovec piece = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  return stream.Send({&piece, 1});
}

// Receives once, at most `size` bytes.
std::string ReceiveText(TlsStream& stream, size_t size, ssize_t* result = nullptr) {
  std::string text(size, '\0');
  const iovec piece = {.iov_base = text.data(), .iov_len = size};
  const ssize_t got = stream.Receive({&piece, 1});
  if (result != nullptr) *result = got;
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

class TlsStreams : public ::testing::Test {
 protected:
  void Open(uint64_t records_per_key = uint64_t{1} << 22) {
    TlsOptions client = certificates_.ClientWithCertificate();
    TlsOptions server = certificates_.Server();
    client.records_per_key = server.records_per_key = records_per_key;
    relay_ = std::make_unique<Relay>(client, server);
    ASSERT_TRUE(relay_->Handshake()) << relay_->client().error() << relay_->server().error();
  }
  // Moves `text` through the relay and compares.
  void ExpectArrives(TlsStream& from, TlsStream& to, const std::string& text) {
    std::string arrived;
    relay_->set_on_full([&](size_t) { arrived += ReceiveText(to, 1 << 16); });
    size_t sent = 0;
    ASSERT_TRUE(relay_->Until([&] {
      if (sent < text.size()) {
        const ssize_t now = SendText(from, std::string_view(text).substr(sent));
        if (now > 0) sent += static_cast<size_t>(now);
      } else {
        from.Flush();
      }
      arrived += ReceiveText(to, 1 << 16);
      return arrived.size() >= text.size();
    })) << from.error()
        << to.error();
    EXPECT_TRUE(arrived == text);
    relay_->set_on_full(nullptr);
  }
  static std::string Pattern(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 997);
    return text;
  }

  Certificates certificates_;
  std::unique_ptr<Relay> relay_;
};

TEST_F(TlsStreams, PeersAreKnownByTheirCertificates) {
  Open();
  EXPECT_THAT(relay_->server().peer()->names, ElementsAre("client.example"));
  EXPECT_TRUE(relay_->server().peer()->has_certificate);
  EXPECT_THAT(relay_->client().peer()->names, ElementsAre("localhost", "127.0.0.1"));
  EXPECT_EQ(relay_->client().description(), "TLSv1.3 TLS_AES_128_GCM_SHA256 by OpenSSL");
}

// Shows DAFS-3.1.1.1.1-09 (privacy of the layer below).
TEST_F(TlsStreams, RelaySeesNoPlaintext) {
  Open();
  const std::string secret = "a text that must not be seen 0123456789";
  std::string many;
  while (many.size() < 100000) many += secret;
  ExpectArrives(relay_->client(), relay_->server(), many);
  ExpectArrives(relay_->server(), relay_->client(), many);
  EXPECT_GT(relay_->seen().size(), 2 * many.size());
  EXPECT_EQ(relay_->seen().find(secret.substr(0, 12)), std::string::npos);
  EXPECT_EQ(relay_->seen().find("client.example"), std::string::npos);
}

TEST_F(TlsStreams, KeysChangeUnderLoad) {
  Open(/*records_per_key=*/3);
  const std::string text = Pattern(4 << 20);  // 256 records: 85 changes each way
  ExpectArrives(relay_->client(), relay_->server(), text);
  ExpectArrives(relay_->server(), relay_->client(), text);
}

TEST_F(TlsStreams, SmallPiecesShareARecord) {
  Open();
  const size_t before = relay_->seen().size();
  std::string text = Pattern(1000);
  std::vector<iovec> pieces;
  for (char& byte : text) pieces.push_back({.iov_base = &byte, .iov_len = 1});
  ASSERT_EQ(relay_->client().Send(pieces), 1000);
  std::string arrived;
  ASSERT_TRUE(relay_->Until([&] {
    arrived += ReceiveText(relay_->server(), 2000);
    return arrived.size() == text.size();
  }));
  EXPECT_EQ(arrived, text);
  EXPECT_EQ(relay_->seen().size() - before, 1000u + 22);  // RFC 8446, 5.2: header, type, tag
}

TEST_F(TlsStreams, CloseNotifyEndsTheStreamInOrder) {
  Open();
  ASSERT_GT(SendText(relay_->client(), "last"), 0);
  ASSERT_TRUE(relay_->client().Close());
  relay_->Pump();
  relay_->Cut();
  EXPECT_EQ(ReceiveText(relay_->server(), 100), "last");
  ssize_t result = -1;
  ReceiveText(relay_->server(), 100, &result);
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(relay_->server().error().ok());
}

TEST_F(TlsStreams, EndWithoutCloseNotifyIsTruncation) {
  Open();
  relay_->Cut();
  ssize_t result = 0;
  ReceiveText(relay_->server(), 100, &result);
  EXPECT_EQ(result, -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_TRUE(absl::IsUnavailable(relay_->server().error()));
  EXPECT_THAT(std::string(relay_->server().error().message()),
              HasSubstr("without close_notify: its stream is truncated"));
}

// Shows DAFS-3.1.1.1.1-09 (integrity).
TEST_F(TlsStreams, ChangedRecordIsRefused) {
  Open();
  ASSERT_GT(SendText(relay_->client(), "a message"), 0);
  relay_->Pump([](std::span<char> bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); });
  ssize_t result = 0;
  EXPECT_EQ(ReceiveText(relay_->server(), 100, &result), "");
  EXPECT_EQ(result, -1);
  EXPECT_TRUE(absl::IsDataLoss(relay_->server().error())) << relay_->server().error();
}

TEST_F(TlsStreams, FullSocketKeepsWhatWasTaken) {
  Open();
  const std::string text = Pattern(8 << 20);
  size_t sent = 0;
  while (true) {  // the relay does not move
    const ssize_t now = SendText(relay_->client(), std::string_view(text).substr(sent));
    if (now < 0) break;
    sent += static_cast<size_t>(now);
    ASSERT_LT(sent, text.size());
  }
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(relay_->client().has_output());
  std::string arrived;
  relay_->set_on_full([&](size_t) { arrived += ReceiveText(relay_->server(), 1 << 16); });
  ASSERT_TRUE(relay_->Until([&] {
    relay_->client().Flush();
    arrived += ReceiveText(relay_->server(), 1 << 16);
    return arrived.size() == sent;
  }));
  EXPECT_TRUE(arrived == text.substr(0, sent));
}

// A client of OpenSSL that differs from ours as `setup` says.
void ExpectRefusesClient(const TlsOptions& server, const std::function<void(SSL_CTX*)>& setup,
                         const std::string& why) {
  Relay relay(server);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  setup(context);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, relay.client_fd());
  SSL_set_connect_state(ssl);
  EXPECT_TRUE(relay.Until([&] {
    (void)SSL_do_handshake(ssl);
    return relay.server().Handshake() != TlsStream::Progress::kWaits;
  }));
  EXPECT_THAT(std::string(relay.server().error().message()), HasSubstr(why));
  SSL_free(ssl);
  SSL_CTX_free(context);
}

TEST_F(TlsStreams, OtherProtocolsAndVersionsAreRefused) {
  const TlsOptions server = certificates_.Server();
  ExpectRefusesClient(
      server, [](SSL_CTX*) {}, "does not speak DAFS over TLS (ALPN dafs)");
  ExpectRefusesClient(
      server,
      [](SSL_CTX* context) {
        const unsigned char http[] = {2, 'h', '2'};
        SSL_CTX_set_alpn_protos(context, http, sizeof(http));
      },
      "does not speak DAFS over TLS (ALPN dafs)");
  ExpectRefusesClient(
      server, [](SSL_CTX* context) { SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION); },
      "does not speak TLS 1.3");
}

// OpenSSL replies to key updates by itself. A peer that takes no reply must not fill the memory.
TEST_F(TlsStreams, KeyUpdatesWithoutEndAreRefused) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd near(fds[0]), far(fds[1]);
  auto server = *(*NewTls(certificates_.Server()))->NewStream(near.get());
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  const unsigned char dafs[] = {4, 'd', 'a', 'f', 's'};
  SSL_CTX_set_alpn_protos(context, dafs, sizeof(dafs));
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, far.get());
  SSL_set_connect_state(ssl);
  const absl::Time deadline = Loop::Now() + kPatience;
  TlsStream::Progress progress = TlsStream::Progress::kWaits;
  while (progress == TlsStream::Progress::kWaits && Loop::Now() < deadline) {
    (void)SSL_do_handshake(ssl);
    progress = server->Handshake();
  }
  ASSERT_EQ(progress, TlsStream::Progress::kDone) << server->error();
  while (server->error().ok() && Loop::Now() < deadline) {
    for (int i = 0; i < 100; ++i) {
      SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
      (void)SSL_do_handshake(ssl);  // sends it, and reads nothing
    }
    ReceiveText(*server, 100);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(server->error())) << server->error();
  SSL_free(ssl);
  SSL_CTX_free(context);
}

// ---- Connections of the provider ---------------------------------------------------------------

class TlsConnections : public ::testing::Test {
 protected:
  void Listen(std::shared_ptr<TlsContext> tls, IwarpOptions options = {}) {
    options.tls = std::move(tls);
    options.on_tls_refused = [this](const Address&, const absl::Status& why) {
      refused_.emplace_back(why.message());
    };
    server_ = NewIwarpProvider(options);
    auto listener = server_->Listen(LoopbackAddress());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  void Listen(const TlsOptions& options) {
    auto tls = NewTls(options);
    ASSERT_TRUE(tls.ok()) << tls.status();
    Listen(*std::move(tls));
  }
  // Connects and returns the error, or OK.
  absl::Status Connect(std::shared_ptr<TlsContext> tls) {
    client_ = NewIwarpProvider({.tls = std::move(tls)});
    auto pair = MakePair(*client_, *server_, listener_->local(), {}, "", listener_.get());
    if (!pair.ok()) return pair.status();
    pair_ = *std::move(pair);
    return FinishPair(*pair_);
  }
  absl::Status Connect(const TlsOptions& options) {
    auto tls = NewTls(options);
    if (!tls.ok()) return tls.status();
    return Connect(*std::move(tls));
  }
  void Turn() {
    auto next = listener_->Next();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(*next, nullptr);
  }
  // Turns until `peer` is closed by the listener.
  void ExpectDropped(RawPeer& peer) {
    peer.set_pump([this] { Turn(); });
    while (!peer.Read(1).empty()) {  // an alert
    }
    pollfd end = {.fd = peer.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&end, 1, 0), 1);
  }
  // The first bytes that a client sends.
  ByteString ClientHello() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    const UniqueFd near(fds[0]), far(fds[1]);
    auto stream = *(*NewTls(certificates_.Client()))->NewStream(near.get());
    EXPECT_EQ(stream->Handshake(), TlsStream::Progress::kWaits);
    ByteString hello(4096);
    const ssize_t size = recv(far.get(), hello.data(), hello.size(), MSG_DONTWAIT);
    hello.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return hello;
  }

  Certificates certificates_;
  std::unique_ptr<Provider> client_;
  std::unique_ptr<Provider> server_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Pair> pair_;
  std::vector<std::string> refused_;
};

TEST_F(TlsConnections, FirstByteDistinguishesTlsFromPlain) {
  Listen(certificates_.Server());
  ASSERT_TRUE(Connect(certificates_.Client()).ok());
  EXPECT_THAT(pair_->server.endpoint->description(), HasSubstr("TLSv1.3"));
  ASSERT_NE(pair_->server.endpoint->tls_peer(), nullptr);
  EXPECT_FALSE(pair_->server.endpoint->tls_peer()->has_certificate);
  ASSERT_TRUE(Connect(std::shared_ptr<TlsContext>()).ok());
  EXPECT_EQ(pair_->server.endpoint->tls_peer(), nullptr);
  EXPECT_EQ(pair_->server.endpoint->description(), "iwarp over TCP, CRC32C off");
  ASSERT_TRUE(Connect(certificates_.ClientWithCertificate()).ok());
  EXPECT_THAT(pair_->server.endpoint->tls_peer()->names, ElementsAre("client.example"));
  EXPECT_TRUE(refused_.empty());
}

TEST_F(TlsConnections, TlsHasNoCrcOfItsOwn) {
  auto server = NewTls(certificates_.Server());
  Listen(*server, {.want_crc = true});
  client_ = NewIwarpProvider({.want_crc = true, .tls = *NewTls(certificates_.Client())});
  auto pair = MakePair(*client_, *server_, listener_->local(), {}, "", listener_.get());
  ASSERT_TRUE(pair.ok()) << pair.status();
  ASSERT_TRUE(FinishPair(**pair).ok());
  EXPECT_THAT((*pair)->client.endpoint->description(), HasSubstr("CRC32C off"));
  EXPECT_THAT((*pair)->server.endpoint->description(), HasSubstr("CRC32C off"));
}

TEST_F(TlsConnections, CertificatesOfServersAreChecked) {
  TlsOptions server = certificates_.Server();
  struct Case {
    Certificates::Wish wish;
    const char* why;
  };
  const Case cases[] = {
      {{.names = {"127.0.0.1"}, .from = -absl::Hours(2), .to = -absl::Hours(1)},
       "TLS: the certificate of the server has expired"},
      {{.names = {"127.0.0.1"}, .from = absl::Hours(1), .to = absl::Hours(2)}, "is not valid yet"},
      {{.names = {"other.example", "10.0.0.1"}},
       "is for other.example, 10.0.0.1, not for 127.0.0.1"},
      {{.names = {}}, "is for no name (subjectAltName), not for 127.0.0.1"},
      {{.names = {"127.0.0.1"}, .by_another_ca = true}, "is not signed by a CA of "},
  };
  for (const Case& one : cases) {
    server.cert_file = certificates_.Issue("server.pem", one.wish);
    Listen(server);
    refused_.clear();
    const absl::Status status = Connect(certificates_.Client());
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.why));
    const absl::Time deadline = Loop::Now() + kPatience;
    while (refused_.empty() && Loop::Now() < deadline) Turn();
    ASSERT_EQ(refused_.size(), 1u);
    EXPECT_THAT(refused_[0], HasSubstr("the client refuses the certificate of this server"));
  }
  // The common name does not count.
  server.cert_file = certificates_.Issue("server.pem", {.names = {}});
  Listen(server);
  TlsOptions client = certificates_.Client();
  client.server_name = "subject";
  const absl::Status status = Connect(client);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("is for no name (subjectAltName), not for subject"));
}

TEST_F(TlsConnections, CertificatesOfClientsAreChecked) {
  Listen(certificates_.Server());
  struct Case {
    Certificates::Wish wish;
    const char* at_server;
    const char* at_client;
  };
  const Case cases[] = {
      {{.names = {"a"}, .from = -absl::Hours(2), .to = -absl::Hours(1)},
       "TLS: the certificate of the client has expired",
       "TLS: the server refuses the certificate of this client: it has expired"},
      {{.names = {"a"}, .by_another_ca = true},
       "TLS: the certificate of the client is not signed by a CA of ",
       "TLS: the server refuses the certificate of this client: it does not know its CA"},
  };
  for (const Case& one : cases) {
    TlsOptions client = certificates_.ClientWithCertificate();
    client.cert_file = certificates_.Issue("client.pem", one.wish);
    refused_.clear();
    const absl::Status status = Connect(client);
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.at_client));
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    ASSERT_EQ(refused_.size(), 1u);
    EXPECT_THAT(refused_[0], HasSubstr(one.at_server));
  }
}

TEST_F(TlsConnections, ServerWithoutTlsRefusesWithTheRemedy) {
  Listen(std::shared_ptr<TlsContext>());
  const absl::Status status = Connect(certificates_.Client());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the server refuses TLS; start dafsd with"));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_THAT(refused_[0], HasSubstr("this server has no certificate"));
}

TEST_F(TlsConnections, FilesAreReadAgain) {
  TlsOptions server = certificates_.Server();
  certificates_.Issue("server.pem", {.names = {"other.example"}});
  auto server_tls = NewTls(server);
  ASSERT_TRUE(server_tls.ok());
  Listen(*server_tls);
  const TlsOptions client = certificates_.ClientWithCertificate();
  certificates_.Issue("client.pem", {.names = {"first.example"}});
  auto client_tls = NewTls(client);
  ASSERT_TRUE(client_tls.ok());
  EXPECT_FALSE(Connect(*client_tls).ok());
  // A server reads its files again by Reload.
  certificates_.Issue("server.pem", {.names = {"127.0.0.1"}});
  EXPECT_FALSE(Connect(*client_tls).ok());
  ASSERT_TRUE((*server_tls)->Reload().ok());
  ASSERT_TRUE(Connect(*client_tls).ok());
  EXPECT_THAT(pair_->server.endpoint->tls_peer()->names, ElementsAre("first.example"));
  // A client takes them with its next connection, unless they are bad.
  certificates_.Issue("client.pem", {.names = {"second-and-longer.example"}});
  ASSERT_TRUE(Connect(*client_tls).ok());
  EXPECT_THAT(pair_->server.endpoint->tls_peer()->names, ElementsAre("second-and-longer.example"));
  std::ofstream(client.cert_file) << "being written";
  ASSERT_TRUE(Connect(*client_tls).ok());
  EXPECT_THAT(pair_->server.endpoint->tls_peer()->names, ElementsAre("second-and-longer.example"));
}

TEST_F(TlsConnections, ClientHelloCutAtEachByteCostsNothing) {
  Listen(certificates_.Server());
  const ByteString hello = ClientHello();
  ASSERT_GT(hello.size(), 100u);
  ASSERT_EQ(hello[0], std::byte{0x16});
  for (size_t size = 1; size < hello.size(); ++size) {
    auto peer = RawPeer::ConnectTo(listener_->local());
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->Write(std::span(hello).first(size)));
    peer->CloseWriting();
    ExpectDropped(*peer);
  }
  EXPECT_TRUE(Connect(certificates_.Client()).ok());
}

TEST_F(TlsConnections, ClientHelloByteByByteIsAnswered) {
  Listen(certificates_.Server());
  auto peer = RawPeer::ConnectTo(listener_->local());
  ASSERT_NE(peer, nullptr);
  for (const std::byte& byte : ClientHello()) {
    ASSERT_TRUE(peer->Write({&byte, 1}));
    Turn();
  }
  peer->set_pump([this] { Turn(); });
  EXPECT_EQ(ToHex(peer->Read(3)), "160303");  // a ServerHello
}

TEST_F(TlsConnections, GarbageAfterTheFirstByteIsDropped) {
  Listen(certificates_.Server());
  for (const char* hex : {"16ffffffffffffffffff", "160301000400000000", "160303000101",
                          "1603010005010000010000", "16030140010100000000"}) {
    auto peer = RawPeer::ConnectTo(listener_->local());
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->Write(FromHex(hex)));
    peer->CloseWriting();
    ExpectDropped(*peer);
  }
  EXPECT_EQ(refused_.size(), 5u);
  EXPECT_TRUE(Connect(certificates_.Client()).ok());
}

TEST_F(TlsConnections, HalfHandshakesAreBoundedAndTimeOut) {
  auto tls = NewTls(certificates_.Server());
  Listen(*tls, {.handshake_timeout = absl::Milliseconds(200), .max_half_open = 2});
  const ByteString hello = ClientHello();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(RawPeer::ConnectTo(listener_->local()));
    ASSERT_NE(peers.back(), nullptr);
    ASSERT_TRUE(peers.back()->Write(hello));
    Turn();
  }
  for (const auto& peer : peers) ExpectDropped(*peer);
}

TEST_F(TlsConnections, PeerThatVanishesIsNotAnOrderlyEnd) {
  Listen(certificates_.Server());
  ASSERT_TRUE(Connect(certificates_.Client()).ok());
  pair_->client.endpoint->Abort(absl::CancelledError("gone"));
  auto end = pair_->Await(pair_->server, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(absl::IsUnavailable(end->status)) << end->status;

  ASSERT_TRUE(Connect(certificates_.Client()).ok());
  pair_->client.endpoint->Disconnect();
  end = pair_->Await(pair_->server, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->status.ok()) << end->status;
}

}  // namespace
}  // namespace dafs::dat::testing
