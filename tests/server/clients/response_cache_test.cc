// A client that has lost a session queries the response cache of that session, in this instance of
// the server or the next.
#include "server/clients/response_cache.h"

#include <csignal>
#include <cstring>
#include <fstream>

#include "server/store/system/machine_boot.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

class ResponseCacheTest : public ServerTest {
 protected:
  wire::ClientConnectAuthArgs CachedArgs(const std::string& name = "c1", uint64_t verifier = 1) {
    wire::ClientConnectAuthArgs args = ConnectArgs(name, verifier);
    args.use_response_cache = true;
    return args;
  }
  std::unique_ptr<RawClient> Cached(const std::string& name = "c1", uint64_t verifier = 1) {
    auto client = Session(CachedArgs(name, verifier));
    EXPECT_TRUE(negotiated_.use_response_cache);
    session_id_ = negotiated_.session_id;
    return client;
  }

  // Creates a directory by a request on `stream`. Stores the sequence number in seq_.
  Reply<wire::CreateRes> MakeDirectory(RawClient& client, const wire::FileHandle& parent,
                                       const std::string& name, uint16_t stream = 0) {
    wire::CreateArgs args;
    args.filehandle = parent;
    args.obj_type = wire::ObjectType::kDir;
    args.component = name;
    const wire::RequestHeader header = client.Header(stream);
    seq_ = header.seq_number;
    EXPECT_TRUE(client.Send(client.Encode(header, args)));
    return client.ReceiveReply<wire::CreateArgs>();
  }

  template <class Args>
  Args Ask(wire::Proc proc, uint16_t stream = 0) const {
    Args args;
    args.session_id = session_id_;
    args.xid_stream = stream;
    args.xid_seq = seq_;
    args.procedure = static_cast<uint32_t>(proc);
    return args;
  }
  // Sends CHECK_RESPONSE until the server has noticed the end of the old session.
  std::string Check(RawClient& client, wire::Proc proc, uint16_t stream = 0) {
    std::string name;
    do {
      name = client.Call(Ask<wire::CheckResponseArgs>(proc, stream)).name();
    } while (name == "DAFSERR_BAD_SESSION");
    return name;
  }
  // Sends FETCH_RESPONSE. Returns the message, or an empty one if the connection ended.
  Bytes Fetch(RawClient& client, wire::Proc proc, uint16_t stream = 0) {
    EXPECT_TRUE(client.SendRequest(Ask<wire::FetchResponseArgs>(proc, stream)));
    return client.Receive().value_or(Bytes());
  }
  static wire::DafsStatus StatusOf(const Bytes& message) {
    auto header = wire::DecodeResponseHeader(message, std::nullopt);
    return header.ok() ? header->header.status : wire::DafsStatus::kServerFault;
  }
  static Bytes Body(const Bytes& message) { return {message.begin() + 40, message.end()}; }

  wire::SessionId session_id_;
  uint16_t seq_ = 0;
};

// Shows DAFS-4.3.4-02, DAFS-5.2.5-01, DAFS-5.2.5-07, DAFS-6.3.1-01, DAFS-6.3.3-02 (an unknown
// session).
TEST_F(ResponseCacheTest, ReturnsALostResponseByteForByte) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  auto made = MakeDirectory(*first, a, "d");
  ASSERT_EQ(made.name(), "DAFS_STATUS_OK");
  first->Vanish();

  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate), "DAFS_STATUS_OK");
  const Bytes fetched = Fetch(*second, wire::Proc::kCreate);
  EXPECT_EQ(StatusOf(fetched), wire::DafsStatus::kOk);
  EXPECT_EQ(Body(fetched), Body(made.message));

  wire::DiscardResponsesArgs discard;
  discard.session_id = session_id_;
  EXPECT_EQ(second->Call(discard).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate), "DAFSERR_UNKNOWN_SESSION");
  EXPECT_EQ(second->Call(discard).name(), "DAFSERR_UNKNOWN_SESSION");
  EXPECT_EQ(server_->response_cache_bytes(), 0u);
}

// The client's path drops packets, so the server has not noticed that the session is lost.
TEST_F(ResponseCacheTest, SessionThatItsClientHasLostIsEnded) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  const auto question = Ask<wire::CheckResponseArgs>(wire::Proc::kCreate);
  EXPECT_EQ(first->Call(question).name(), "DAFSERR_BAD_SESSION") << "the one it asks by";
  auto stranger = Session("c2");
  EXPECT_EQ(stranger->Call(question).name(), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(first->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK") << "it has not ended";
  auto second = Session("c1");
  const absl::Time deadline = Loop::Now() + kPatience;
  std::string status;
  do {
    status = second->Call(question).name();
  } while (status == "DAFSERR_BAD_SESSION" && Loop::Now() < deadline);
  EXPECT_EQ(status, "DAFS_STATUS_OK");
  EXPECT_FALSE(first->Receive().has_value()) << "it has ended";
}

// Shows DAFS-5.2.5-04: a restarted client may query what its previous instance has done, even if
// the server has not yet noticed the end of that instance's connection.
TEST_F(ResponseCacheTest, AnswersTheNextInstanceOfItsClient) {
  StartServer();
  auto first = Cached("c1", 1);
  const wire::FileHandle a = LookUp(*first, {"a"});
  auto made = MakeDirectory(*first, a, "d");
  ASSERT_EQ(made.name(), "DAFS_STATUS_OK");

  auto second = Session(ConnectArgs("c1", 2));
  const auto question = Ask<wire::CheckResponseArgs>(wire::Proc::kCreate);
  const absl::Time deadline = Loop::Now() + kPatience;
  std::string status;
  do {
    status = second->Call(question).name();
  } while (status == "DAFSERR_BAD_SESSION" && Loop::Now() < deadline);
  ASSERT_EQ(status, "DAFS_STATUS_OK");
  EXPECT_EQ(Body(Fetch(*second, wire::Proc::kCreate)), Body(made.message));
}

// Shows DAFS-6.3.1-02, DAFS-6.3.2-02: the request was not executed, or the query names another
// request.
TEST_F(ResponseCacheTest, HasNoEntryForARequestThatWasNotExecuted) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  first->Vanish();

  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kRemove), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate, 1), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate, 0xffff), "DAFSERR_NOXID_MATCH");
  ++seq_;
  EXPECT_EQ(Check(*second, wire::Proc::kCreate), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(Fetch(*second, wire::Proc::kCreate).size(), 40u);
}

// Shows DAFS-5.2.1-05: the entry is that of the most recent request. An error is a result too. A
// request that modifies nothing does not replace the entry.
TEST_F(ResponseCacheTest, KeepsTheLastModifyingRequestOfAStream) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFSERR_EXIST");
  ASSERT_EQ(first->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  first->Vanish();

  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate), "DAFS_STATUS_OK");
  EXPECT_EQ(StatusOf(Fetch(*second, wire::Proc::kCreate)), wire::DafsStatus::kExist);
}

// Shows DAFS-5.2.1-03, DAFS-5.2.1-05, DAFS-4.3.2-06: responses to simple requests are stored only
// if the request is marked.
TEST_F(ResponseCacheTest, StoresSimpleRequestsThatAreMarkedSave) {
  StartServer();
  auto first = Cached();
  wire::LookupArgs lookup;
  lookup.directory = Root(*first);
  lookup.path = {"a"};
  wire::RequestHeader header = first->Header(0, wire::kChfForw | wire::kChfSave);
  seq_ = header.seq_number;
  ASSERT_TRUE(first->Send(first->Encode(header, lookup)));
  auto found = first->ReceiveReply<wire::LookupArgs>();
  ASSERT_EQ(found.name(), "DAFS_STATUS_OK");
  header = first->Header(1, wire::kChfBack);
  ASSERT_TRUE(first->Send(first->Encode(header, wire::NullArgs())));
  ASSERT_EQ(first->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
  first->Vanish();

  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kLookup), "DAFS_STATUS_OK");
  EXPECT_EQ(Body(Fetch(*second, wire::Proc::kLookup)), Body(found.message));
  seq_ = header.seq_number;
  EXPECT_EQ(Check(*second, wire::Proc::kNull, 1), "DAFSERR_NOXID_MATCH");
}

// Shows DAFS-5.2.5-02: the connection is lost while a request waits in the kernel. Until it has
// ended, no query is answered; afterwards the entry is complete and stays the same.
TEST_F(ResponseCacheTest, AnswersNoQueryWhileARequestOfTheSessionExecutes) {
  StartServer();
  WriteFile("a/held", "x");
  auto first = Cached();
  ActAsRoot(*first);
  const wire::FileHandle a = LookUp(*first, {"a"});
  // The truncation of the file waits until its lease (fcntl(2)) is released.
  signal(SIGIO, SIG_IGN);
  const int held = open(Path("a/held").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fcntl(held, F_SETLEASE, F_RDLCK), 0);
  wire::OpenArgs truncate = OpenArgs(a, "held", true);
  truncate.share_access = wire::kShareWrite;
  truncate.createattrs.set(wire::kFattrObjectSize);
  const wire::RequestHeader header = first->Header(2);
  const uint16_t seq = seq_ = header.seq_number;
  ASSERT_TRUE(first->Send(first->Encode(header, truncate)));
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->open_count() == 0 && Loop::Now() < deadline) sched_yield();
  first->Vanish();

  auto second = Session("c1");
  ActAsRoot(*second);
  wire::ConnectBindArgs bind;
  bind.session_id = session_id_;
  std::string status;
  do {  // until the server has noticed the loss
    status = Connection()->Call(bind).name();
  } while (status != "DAFSERR_UNKNOWN_SESSION" && Loop::Now() < deadline);
  EXPECT_EQ(status, "DAFSERR_UNKNOWN_SESSION");
  const auto check = Ask<wire::CheckResponseArgs>(wire::Proc::kOpen, 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(second->Call(check).name(), "DAFSERR_BAD_SESSION");
    EXPECT_EQ(StatusOf(Fetch(*second, wire::Proc::kOpen, 2)), wire::DafsStatus::kBadSession);
  }
  EXPECT_EQ(ReadFile("a/held"), "x");

  fcntl(held, F_SETLEASE, F_UNLCK);
  close(held);
  EXPECT_EQ(Check(*second, wire::Proc::kOpen, 2), "DAFS_STATUS_OK");
  EXPECT_EQ(ReadFile("a/held"), "");
  const Bytes fetched = Fetch(*second, wire::Proc::kOpen, 2);
  EXPECT_EQ(StatusOf(fetched), wire::DafsStatus::kOk);
  EXPECT_EQ(MakeDirectory(*second, a, "d", 2).name(), "DAFS_STATUS_OK");
  seq_ = seq;
  EXPECT_EQ(Body(Fetch(*second, wire::Proc::kOpen, 2)), Body(fetched));
}

// BAD_SESSION while the session is connected. Other clients and the other byte order (R49) never
// get the response.
//
// Shows DAFS-5.2.5-04: the client may query with the same verifier and with a new one. Shows
// DAFS-6.3.3-02 (another client's session) with ReturnsALostResponseByteForByte (an unknown one).
TEST_F(ResponseCacheTest, AnswersOnlyItsOwnClientAfterTheSessionHasEnded) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  auto second = Session("c1");
  const auto check = Ask<wire::CheckResponseArgs>(wire::Proc::kCreate);
  EXPECT_EQ(second->Call(check).name(), "DAFSERR_BAD_SESSION");
  first->Vanish();
  EXPECT_EQ(Check(*second, wire::Proc::kCreate), "DAFS_STATUS_OK");
  auto other = Session("c2");
  EXPECT_EQ(other->Call(check).name(), "DAFSERR_BAD_SESSION");
  auto big = Session(ConnectArgs("c1"), wire::ByteOrder::kBig);
  EXPECT_EQ(big->Call(check).name(), "DAFSERR_BAD_SESSION");
  wire::DiscardResponsesArgs discard;
  discard.session_id = session_id_;
  EXPECT_EQ(other->Call(discard).name(), "DAFSERR_NOT_AUTHORIZED");
  // DAFS-5.2.5-04: a later instance of the same client may query.
  auto rebooted = Session(ConnectArgs("c1", 2));
  EXPECT_EQ(Check(*rebooted, wire::Proc::kCreate), "DAFS_STATUS_OK");
}

// Shows DAFS-5.2.1-04: the server keeps nothing of a session that ends with DISCONNECT.
TEST_F(ResponseCacheTest, IsDeletedByDisconnect) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  ASSERT_EQ(first->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  auto second = Session("c1");
  const auto check = Ask<wire::CheckResponseArgs>(wire::Proc::kCreate);
  EXPECT_EQ(second->Call(check).name(), "DAFSERR_UNKNOWN_SESSION");
  EXPECT_TRUE(std::filesystem::is_empty(Path("state/responses")));
}

// Shows DAFS-5.2.1-01: a session gets no cache if it does not request one, or if there is no room.
TEST_F(ResponseCacheTest, IsNegotiatedAndBounded) {
  options_.response_cache_bytes = 3 * SessionCache::FileBytes(options_.max_requests) / 2;
  StartServer();
  auto without = Session("c1");
  EXPECT_FALSE(negotiated_.use_response_cache);
  auto first = Cached();
  auto second = Session(CachedArgs());
  EXPECT_FALSE(negotiated_.use_response_cache);
}

// A client that keeps losing sessions uses at most the bound, and does not displace the caches of
// other clients.
TEST_F(ResponseCacheTest, ClientDisplacesOnlyItsOwnCaches) {
  options_.response_cache_bytes = 3 * SessionCache::FileBytes(options_.max_requests);
  StartServer();
  auto neighbour = Cached("neighbour");
  const wire::FileHandle a = LookUp(*neighbour, {"a"});
  ASSERT_EQ(MakeDirectory(*neighbour, a, "d").name(), "DAFS_STATUS_OK");
  const wire::SessionId kept = session_id_;
  neighbour->Vanish();
  for (int i = 0; i < 6; ++i) {
    auto session = Cached("c1");
    session->Vanish();
    // The next session starts after the server has noticed the end of this one.
    auto asker = Session("c1");
    EXPECT_EQ(Check(*asker, wire::Proc::kCreate), "DAFSERR_NOXID_MATCH");
  }
  // A connection that does not authenticate leaves no cache.
  wire::ClientConnectArgs nobody;
  nobody.client_id_string = "nobody";
  nobody.use_response_cache = true;
  EXPECT_EQ(Connection()->Call(nobody).name(), "DAFS_STATUS_OK");
  neighbour = Session("neighbour");
  session_id_ = kept;
  EXPECT_NE(Check(*neighbour, wire::Proc::kCreate), "DAFSERR_UNKNOWN_SESSION");
}

// A client that no export admits makes no changes to query later. It uses no room.
TEST_F(ResponseCacheTest, UnadmittedClientGetsNone) {
  options_.exports[0].clients = {*Cidr::Parse("192.0.2.0/24")};
  StartServer();
  wire::ClientConnectAuthArgs args = CachedArgs("stranger");
  args.auth_req.auth_type = wire::AuthType::kDefault;
  auto stranger = Connection();
  auto reply = stranger->Call(args);
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(reply.res.use_response_cache);
  EXPECT_EQ(server_->response_cache_bytes(), 0u);
}

// The table itself, with room for four caches, and sessions of clients at several addresses.
class ResponseCacheSharesTest : public ResponseCacheTest {
 protected:
  void SetUp() override {
    ResponseCacheTest::SetUp();
    if (IsSkipped()) return;
    auto table = ResponseCache::Open(
        {.state_dir = Path("state"), .max_bytes = 4 * SessionCache::FileBytes(kStreams)}, now_);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *std::move(table);
  }

  static CacheOwner Owner(const std::string& name, const char* address, uint64_t verifier = 1) {
    return {.client_id_string = name,
            .verifier = wire::OpaqueFromUint64<wire::Verifier>(verifier),
            .principal = {.host = *PeerAddress::Parse(address)}};
  }
  // Returns the id of a new session, or zero if the session got no cache.
  wire::SessionId Begin(const CacheOwner& owner) {
    const auto id = wire::OpaqueFromUint64<wire::SessionId>(next_id_++);
    auto cache = table_->Create(id, wire::ByteOrder::kLittle, owner, kStreams);
    return cache == nullptr ? wire::SessionId() : id;
  }
  // The same, and the session is lost.
  wire::SessionId Lose(const CacheOwner& owner) {
    const auto id = wire::OpaqueFromUint64<wire::SessionId>(next_id_++);
    auto cache = table_->Create(id, wire::ByteOrder::kLittle, owner, kStreams);
    if (cache == nullptr) return {};
    table_->Ended(*cache, /*keep=*/true, now_ += absl::Seconds(1));
    return id;
  }
  bool IsKept(const wire::SessionId& id, const CacheOwner& owner) {
    std::shared_ptr<SessionCache> cache;
    return table_->Find(id, owner, wire::ByteOrder::kLittle, &cache) == wire::DafsStatus::kOk;
  }

  static constexpr uint32_t kStreams = 4;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t next_id_ = 1;
  std::unique_ptr<ResponseCache> table_;
};

// A host loses sessions, each of another client. The table drops its lost caches only for a host
// that would then have fewer bytes, and never for a further client of the same host.
TEST_F(ResponseCacheSharesTest, NoHostUsesAllTheRoom) {
  const CacheOwner neighbour = Owner("neighbour", "192.0.2.1");
  const wire::SessionId kept = Lose(neighbour);
  const CacheOwner greedy = Owner("greedy", "192.0.2.66");
  const wire::SessionId oldest = Lose(greedy);
  for (const char* name : {"g2", "g3"}) EXPECT_FALSE(Lose(Owner(name, "192.0.2.66")).is_zero());
  EXPECT_TRUE(Lose(Owner("g4", "192.0.2.66")).is_zero());

  EXPECT_FALSE(Begin(Owner("other", "192.0.2.2")).is_zero());
  EXPECT_FALSE(IsKept(oldest, greedy));
  EXPECT_TRUE(IsKept(kept, neighbour));
  // Each other host has one cache now, and the greedy host two. It need not have fewer than a
  // newcomer.
  EXPECT_TRUE(Begin(Owner("other", "192.0.2.2")).is_zero());
  EXPECT_FALSE(Begin(Owner("third", "192.0.2.3")).is_zero());
  EXPECT_TRUE(Begin(Owner("fourth", "192.0.2.4")).is_zero());
  EXPECT_TRUE(IsKept(kept, neighbour));
}

// Shows DAFS-5.2.5-03: the period begins with the loss of the session. The next instance of the
// client may query the cache until it has ended.
TEST_F(ResponseCacheSharesTest, CacheIsKeptForItsWholePeriod) {
  const absl::Duration period = ResponseCache::Options().keep_time;
  const CacheOwner owner = Owner("one", "192.0.2.1");
  const auto live = wire::OpaqueFromUint64<wire::SessionId>(77);
  auto session = table_->Create(live, wire::ByteOrder::kLittle, owner, kStreams);
  ASSERT_NE(session, nullptr);
  now_ += 2 * period;
  table_->Expire(now_);
  EXPECT_EQ(table_->Lost().size(), 0u);
  table_->Ended(*session, /*keep=*/true, now_);
  session.reset();
  now_ += period - absl::Nanoseconds(1);
  table_->Expire(now_);
  EXPECT_TRUE(IsKept(live, owner));
  EXPECT_TRUE(IsKept(live, Owner("one", "192.0.2.1", 2)));
  EXPECT_TRUE(IsKept(live, Owner("one", "192.0.2.1", 2)));  // a query does not end it
  now_ += absl::Nanoseconds(1);
  table_->Expire(now_);
  EXPECT_FALSE(IsKept(live, owner));
  EXPECT_EQ(table_->bytes(), 0u);
}

// A client's name does not make room for it at another address. Its verifier does, at any address.
TEST_F(ResponseCacheSharesTest, ClientIsIdentifiedByItsVerifierWhenItMakesRoom) {
  const CacheOwner one = Owner("one", "192.0.2.1");
  const wire::SessionId kept = Lose(one);
  for (const char* host : {"192.0.2.2", "192.0.2.3", "192.0.2.4"}) Lose(Owner("x", host));
  EXPECT_TRUE(Begin(Owner("one", "192.0.2.5", 2)).is_zero());
  EXPECT_TRUE(IsKept(kept, one));
  EXPECT_FALSE(Begin(Owner("one", "192.0.2.5")).is_zero());
  EXPECT_FALSE(IsKept(kept, one));
}

// Shows DAFS-3.1.1.3-03 for what a client may query: the same name, verifier and address without
// the certificate are another client, which neither sees the cache nor makes room at its expense.
TEST_F(ResponseCacheSharesTest, ClientWithoutTheCertificateHasNoneOfTheCaches) {
  CacheOwner owner = Owner("one", "192.0.2.1");
  const CacheOwner plain = owner;
  owner.principal =
      PrincipalOf(wire::AuthType::kNone, {.address = *PeerAddress::Parse("192.0.2.1"),
                                          .tls = std::make_shared<const dat::TlsPeer>(dat::TlsPeer{
                                              .has_certificate = true, .names = {"a.example"}})});
  const wire::SessionId kept = Lose(owner);
  EXPECT_TRUE(IsKept(kept, owner));
  EXPECT_FALSE(IsKept(kept, plain));
  for (const char* host : {"192.0.2.2", "192.0.2.3", "192.0.2.4"}) Lose(Owner("x", host));
  EXPECT_TRUE(Begin(plain).is_zero());
  EXPECT_TRUE(IsKept(kept, owner));
  EXPECT_FALSE(Begin(owner).is_zero());
}

// A response larger than a slot is also dropped before its number is used again, for a request that
// perhaps was not executed (DAFS-5.2.5-07).
TEST_F(ResponseCacheSharesTest, LargeResponseIsDroppedBeforeItsNumberIsReused) {
  auto cache = table_->Create(wire::OpaqueFromUint64<wire::SessionId>(99), wire::ByteOrder::kLittle,
                              Owner("one", "192.0.2.1"), kStreams);
  ASSERT_NE(cache, nullptr);
  wire::RequestHeader request;
  request.procedure = wire::Proc::kBatchSubmit;
  request.stream_id = 2;
  request.seq_number = 0xfff0;
  const std::vector<std::byte> body(JournalSlot::kResponseMax + 1);
  cache->Answer(request, wire::DafsStatus::kOk, body);
  SessionCache::Entry entry;
  const auto found = [&] {
    return cache->Find(2, 0xfff0, static_cast<uint32_t>(wire::Proc::kBatchSubmit), &entry) ==
           wire::DafsStatus::kOk;
  };
  EXPECT_TRUE(found());
  cache->Passed(2, 0x0010);
  cache->Passed(2, 0x7fef);
  cache->Passed(1, 0x8000);
  EXPECT_TRUE(found());
  cache->Passed(2, 0x7ff0);
  EXPECT_FALSE(found());
}

// The cache of a lost session is dropped after a time.
TEST_F(ResponseCacheTest, IsKeptForABoundedTime) {
  options_.response_cache_time = absl::Milliseconds(50);
  options_.lease_time = absl::Milliseconds(200);
  StartServer();
  auto first = Cached();
  first->Vanish();
  auto second = Session("c1");
  std::string name;
  do {
    name = second->Call(Ask<wire::CheckResponseArgs>(wire::Proc::kCreate)).name();
  } while (name == "DAFSERR_BAD_SESSION" || name == "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(name, "DAFSERR_UNKNOWN_SESSION");
}

// An orderly restart.
TEST_F(ResponseCacheTest, SurvivesARestartOfTheServer) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  auto made = MakeDirectory(*first, a, "d", 3);
  ASSERT_EQ(made.name(), "DAFS_STATUS_OK");
  StartServer();
  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate, 3), "DAFS_STATUS_OK");
  EXPECT_EQ(Body(Fetch(*second, wire::Proc::kCreate, 3)), Body(made.message));
}

// Without stable power the cache is only in the page cache and may have lost its last entries with
// the machine. The answer "not executed" would then be a guess, and the client would make the
// change twice.
TEST_F(ResponseCacheTest, SurvivesARebootOnlyWithStablePower) {
  for (const Stable stable : {Stable::kProcess, Stable::kPower}) {
    options_.stable = stable;
    StartServer();
    auto first = Cached();
    const wire::FileHandle a = LookUp(*first, {"a"});
    const std::string name = stable == Stable::kPower ? "power" : "process";
    ASSERT_EQ(MakeDirectory(*first, a, name).name(), "DAFS_STATUS_OK");
    server_.reset();
    const uint64_t boot = BootSum(), another = boot + 1;
    for (const auto& entry : std::filesystem::directory_iterator(Path("state/responses"))) {
      std::string page(4096, 0);
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.read(page.data(), static_cast<std::streamsize>(page.size()));
      const size_t at = page.find(std::string(reinterpret_cast<const char*>(&boot), 8));
      EXPECT_EQ(at == std::string::npos, stable == Stable::kPower);
      if (at == std::string::npos) continue;
      file.seekp(static_cast<std::streamoff>(at));
      file.write(reinterpret_cast<const char*>(&another), 8);
    }
    StartServer();
    auto second = Session("c1");
    EXPECT_EQ(Check(*second, wire::Proc::kCreate),
              stable == Stable::kPower ? "DAFS_STATUS_OK" : "DAFSERR_UNKNOWN_SESSION");
  }
}

// Shows DAFS-6.3.2-04: one chain checks and fetches; a stored error breaks it.
TEST_F(ResponseCacheTest, CheckAndFetchCanBeChained) {
  StartServer();
  auto first = Cached();
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFS_STATUS_OK");
  ASSERT_EQ(MakeDirectory(*first, a, "d").name(), "DAFSERR_EXIST");
  first->Vanish();
  auto second = Session("c1");
  ASSERT_EQ(Check(*second, wire::Proc::kCreate), "DAFS_STATUS_OK");
  const auto check = Ask<wire::CheckResponseArgs>(wire::Proc::kCreate);
  const auto fetch = Ask<wire::FetchResponseArgs>(wire::Proc::kCreate);
  ASSERT_TRUE(second->SendRequest(check, 0, wire::kChfForw));
  ASSERT_TRUE(second->SendRequest(fetch, 1, wire::kChfForw | wire::kChfBack));
  ASSERT_TRUE(second->SendRequest(wire::NullArgs(), 2, wire::kChfBack));
  EXPECT_EQ(second->ReceiveReply<wire::CheckResponseArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(second->ReceiveReply<wire::CreateArgs>().name(), "DAFSERR_EXIST");
  EXPECT_EQ(second->ReceiveReply<wire::NullArgs>().name(), "DAFSERR_CHAIN_BROKEN");
}

// Shows DAFS-5.2.2-04, DAFS-5.2.2.2-01: the response that expires a stream is the one lost, so its
// entry still serves.
TEST_F(ResponseCacheTest, KeepsTheEntryOfAnExpiredStream) {
  StartServer();
  wire::ClientConnectAuthArgs args = CachedArgs();
  args.max_requests = 4;
  auto first = Session(args);
  session_id_ = negotiated_.session_id;
  const wire::FileHandle a = LookUp(*first, {"a"});
  first->desired_nreq = 3;
  auto made = MakeDirectory(*first, a, "d", 3);
  ASSERT_EQ(made.name(), "DAFS_STATUS_OK");
  ASSERT_EQ(made.header.target_nreq, 3);
  first->Vanish();
  auto second = Session("c1");
  EXPECT_EQ(Check(*second, wire::Proc::kCreate, 3), "DAFS_STATUS_OK");
  EXPECT_EQ(Body(Fetch(*second, wire::Proc::kCreate, 3)), Body(made.message));
}

}  // namespace
}  // namespace dafs::server
