// Which requests have an entry in the response cache of a lost session, and which sessions have a
// cache.
#include <set>
#include <type_traits>
#include <vector>

#include "server/clients/response_cache.h"
#include "server/store/durable/journal.h"
#include "server/store/system/mapped_file.h"
#include "tests/server/server_fixture.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {
namespace {

class ResponseEntriesTest : public ServerTest {
 protected:
  std::unique_ptr<RawClient> Connect(bool cached, uint32_t max_requests = 0) {
    wire::ClientConnectAuthArgs args = ConnectArgs("c1");
    args.use_response_cache = cached;
    args.max_requests = max_requests;
    auto client = Session(args);
    EXPECT_EQ(negotiated_.use_response_cache, cached);
    session_id_ = negotiated_.session_id;
    return client;
  }
  static wire::CreateArgs Directory(const wire::FileHandle& parent, const std::string& name) {
    wire::CreateArgs args;
    args.filehandle = parent;
    args.obj_type = wire::ObjectType::kDir;
    args.component = name;
    return args;
  }
  // A request as it was sent; identifies the response to query.
  struct Sent {
    wire::Proc proc;
    wire::RequestHeader header;
  };
  template <class Args>
  Sent Send(RawClient& client, const Args& args, uint16_t stream, unsigned flags = 0,
            std::span<const std::byte> data = {}) {
    const Sent sent{Args::kProc, client.Header(stream, static_cast<uint16_t>(flags))};
    EXPECT_TRUE(client.Send(client.Encode(sent.header, args, data)));
    return sent;
  }
  wire::CheckResponseArgs Ask(const Sent& sent) const {
    wire::CheckResponseArgs args;
    args.session_id = session_id_;
    args.xid_stream = sent.header.stream_id;
    args.xid_seq = sent.header.seq_number;
    args.procedure = static_cast<uint32_t>(sent.proc);
    return args;
  }
  // Sends CHECK_RESPONSE until the server has noticed the end of the old session.
  std::string Check(RawClient& client, const Sent& sent) const {
    std::string name;
    do {
      name = client.Call(Ask(sent)).name();
    } while (name == "DAFSERR_BAD_SESSION");
    return name;
  }

  wire::SessionId session_id_;
};

// Shows DAFS-3.1.2.4-01, DAFS-5.2.1-05: there are as many entries as outstanding requests are
// allowed, including those granted later, one for each stream.
TEST_F(ResponseEntriesTest, EveryStreamOfASessionHasAnEntry) {
  StartServer();
  auto first = Connect(/*cached=*/true, 2);
  ASSERT_EQ(negotiated_.max_requests, 2u);
  const wire::FileHandle a = LookUp(*first, {"a"});
  const auto most = static_cast<uint16_t>(options_.max_requests);
  first->desired_nreq = most;
  ASSERT_EQ(first->Call(wire::NullArgs()).header.target_nreq, most);
  std::vector<Sent> all;
  for (uint16_t s = 0; s < most; ++s) {
    all.push_back(Send(*first, Directory(a, "d" + std::to_string(s)), s));
  }
  for (uint16_t s = 0; s < most; ++s) {
    EXPECT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  }
  first->Vanish();
  auto second = Session("c1");
  for (const Sent& sent : all) EXPECT_EQ(Check(*second, sent), "DAFS_STATUS_OK");
}

// Shows DAFS-5.2.1-02: every procedure of the draft that modifies the file system or locks, except
// BATCH_SUBMIT, whose parts are reported separately (5.2.3).
TEST_F(ResponseEntriesTest, EveryModifyingRequestHasAnEntry) {
  StartServer();
  WriteFile("a/f", "0123456789");
  WriteFile("a/g", "x");
  auto first = Connect(/*cached=*/true, 32);
  ASSERT_EQ(negotiated_.max_requests, 32u);
  ActAsRoot(*first);
  const wire::FileHandle a = LookUp(*first, {"a"});
  DirectMemory memory = first->NewMemory(4096, dat::Access::kRemoteBoth);
  std::vector<Sent> all;
  const auto perform = [&](const auto& args, const std::string& data = "") {
    const auto bytes = std::as_bytes(std::span(data));
    all.push_back(Send(*first, args, static_cast<uint16_t>(all.size()), 0, bytes));
    return first->ReceiveReply<std::decay_t<decltype(args)>>();
  };
  const auto succeeds = [&](const auto& args, const std::string& data = "") {
    EXPECT_EQ(perform(args, data).name(), "DAFS_STATUS_OK") << wire::Name(args.kProc);
  };
  const auto opened = perform(OpenArgs(a, "f", /*create=*/true));
  ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
  const auto of_file = [&](auto args) {
    args.filehandle = opened.res.filehandle;
    if constexpr (requires { args.state_id; }) args.state_id = opened.res.state_id;
    return args;
  };
  wire::WriteInlineArgs write = of_file(wire::WriteInlineArgs());
  write.byte_count = 4;
  succeeds(write, "data");
  wire::AppendInlineArgs append = of_file(wire::AppendInlineArgs());
  append.byte_count = 4;
  succeeds(append, "data");
  wire::WriteDirectArgs write_direct = of_file(wire::WriteDirectArgs());
  write_direct.byte_count = 10;
  write_direct.write_data_buffers.push_back(memory.At(0, 10));
  succeeds(write_direct);
  wire::AppendDirectArgs append_direct = of_file(wire::AppendDirectArgs());
  append_direct.byte_count = 10;
  append_direct.write_data_buffer = memory.At(0, 10);
  succeeds(append_direct);
  wire::SetattrInlineArgs setattr = of_file(wire::SetattrInlineArgs());
  setattr.obj_attributes.set(wire::kFattrMode);
  setattr.obj_attributes.mode = 0600;
  succeeds(setattr);
  wire::SetattrDirectArgs setattr_direct = of_file(wire::SetattrDirectArgs());
  setattr_direct.obj_attributes = memory.At(0, 16);  // nothing included
  succeeds(setattr_direct);
  wire::LockArgs lock = of_file(wire::LockArgs());
  lock.lock_type = wire::LockType::kWrite;
  lock.length = 10;
  succeeds(lock);
  wire::LocktArgs test = of_file(wire::LocktArgs());
  test.owner = "other";
  test.length = 10;
  EXPECT_EQ(perform(test).name(), "DAFSERR_DENIED");
  wire::LockuArgs unlock = of_file(wire::LockuArgs());
  unlock.lock_type = wire::LockType::kWrite;
  unlock.length = 10;
  succeeds(unlock);
  wire::OpenDowngradeArgs downgrade = of_file(wire::OpenDowngradeArgs());
  downgrade.share_access = wire::kShareRead;
  succeeds(downgrade);
  succeeds(of_file(wire::CommitArgs()));
  succeeds(of_file(wire::CloseArgs()));
  succeeds(Directory(a, "d"));
  wire::LinkArgs link;
  link.source_object = opened.res.filehandle;
  link.destination_object = a;
  link.newname = "linked";
  succeeds(link);
  wire::RenameArgs rename;
  rename.sourcedir = rename.targetdir = a;
  rename.oldname = "g";
  rename.newname = "h";
  succeeds(rename);
  wire::RemoveArgs remove;
  remove.filehandle = a;
  remove.target = "h";
  succeeds(remove);
  succeeds(wire::DelegpurgeArgs());
  EXPECT_EQ(perform(wire::DelegreturnArgs()).name(), "DAFSERR_BAD_STATEID");
  EXPECT_EQ(perform(wire::HurryUpArgs()).name(), "DAFSERR_BATCH_REQUEST_NOT_FOUND");
  std::set<wire::Proc> performed = {wire::Proc::kBatchSubmit};
  for (const Sent& sent : all) performed.insert(sent.proc);
  for (const wire::ProcInfo& info : wire::kProcedures) {
    const bool of_draft = static_cast<uint32_t>(info.number) < 1000;
    if (!of_draft || !wire::ModifiesState(info.category)) continue;
    EXPECT_TRUE(performed.contains(info.number)) << info.name;
  }
  first->Vanish();
  auto second = Session("c1");
  for (const Sent& sent : all) {
    EXPECT_EQ(Check(*second, sent), "DAFS_STATUS_OK") << wire::Name(sent.proc);
  }
}

// Shows DAFS-4.3.4-03 and, of DAFS-4.3-04, the entry in the response cache: the responses of the
// members of a chain are queried separately, in any order. Shows DAFS-5.2.4-02: a member that was
// not executed has none.
TEST_F(ResponseEntriesTest, EachExecutedMemberOfAChainHasAnEntry) {
  StartServer();
  auto first = Connect(/*cached=*/true);
  wire::LookupArgs lookup;
  lookup.directory = Root(*first);
  lookup.path = {"a"};
  wire::CreateArgs create = Directory({}, "d");
  const Sent found = Send(*first, lookup, 0, wire::kChfForw | wire::kChfSave);
  const Sent made = Send(*first, create, 1, wire::kChfForw | wire::kChfBack | wire::kChfFh);
  create.filehandle = lookup.directory;  // no entry can be created there
  const Sent failed = Send(*first, create, 2, wire::kChfForw | wire::kChfBack);
  const Sent broken = Send(*first, create, 3, wire::kChfBack);
  EXPECT_EQ(first->ReceiveReply<wire::LookupArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_NE(first->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFSERR_CHAIN_BROKEN");
  first->Vanish();
  auto second = Session("c1");
  for (const Sent& sent : {failed, made, found}) {
    EXPECT_EQ(Check(*second, sent), "DAFS_STATUS_OK");
  }
  EXPECT_EQ(Check(*second, broken), "DAFSERR_NOXID_MATCH");
}

// Shows DAFS-5.2.4-02. The client may issue such a request again once the reason is removed.
TEST_F(ResponseEntriesTest, RefusalBeforeExecutionHasNoEntry) {
  StartServer();
  auto first = Connect(/*cached=*/true);
  const wire::FileHandle a = LookUp(*first, {"a"});
  const Sent made = Send(*first, Directory(a, "made"), 1);
  ASSERT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  first->cred_handle.bytes[0] ^= 0x77;
  const Sent refused = Send(*first, Directory(a, "refused"), 2);
  ASSERT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFSERR_NO_CREDS");
  first->Vanish();
  auto second = Session("c1");
  EXPECT_EQ(Check(*second, refused), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(Check(*second, made), "DAFS_STATUS_OK");
}

// R50: a connected session is known with or without a cache. It is unknown as soon as it has ended
// with DISCONNECT.
TEST_F(ResponseEntriesTest, ConnectedSessionWithoutACacheIsKnown) {
  StartServer();
  auto first = Connect(/*cached=*/false);
  auto second = Session("c1");
  const wire::CheckResponseArgs check = Ask({wire::Proc::kCreate, {}});
  wire::FetchResponseArgs fetch;
  fetch.session_id = session_id_;
  wire::DiscardResponsesArgs discard;
  discard.session_id = session_id_;
  EXPECT_EQ(second->Call(check).name(), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(second->Call(fetch).name(), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(second->Call(discard).name(), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(first->Call(discard).name(), "DAFSERR_BAD_SESSION");
  EXPECT_EQ(first->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(second->Call(check).name(), "DAFSERR_UNKNOWN_SESSION");
}

// The one credit makes both requests use the same receive.
TEST_F(ResponseEntriesTest, RequestAfterAnAsynchronousBatchHasAnEntry) {
  StartServer();
  auto first = Connect(/*cached=*/true, 1);
  ASSERT_EQ(negotiated_.max_requests, 1u);
  const wire::FileHandle a = LookUp(*first, {"a"});
  ASSERT_EQ(first->Call(wire::BatchSubmitArgs()).header.target_nreq, 1u);
  const Sent sent = Send(*first, Directory(a, "d"), 0);
  ASSERT_EQ(first->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  first->Vanish();
  auto second = Session("c1");
  EXPECT_EQ(Check(*second, sent), "DAFS_STATUS_OK");
}

// A session may have had requests in several exports, of which one hangs.
TEST_F(ResponseEntriesTest, OutcomeIsKnownWhileAnotherOfTheSessionIsNot) {
  constexpr uint16_t kStreams = 2;
  absl::StatusOr<MappedFile> file =
      MappedFile::Create(Path("cache"), SessionCache::FileBytes(kStreams));
  ASSERT_TRUE(file.ok()) << file.status();
  SessionCache cache(*std::move(file), {}, wire::ByteOrder::kLittle, {}, kStreams);
  for (uint16_t stream = 0; stream < kStreams; ++stream) {
    cache.slot(stream).state = SlotState::kIntent;
    cache.NoteUnsettled(stream);
  }
  const auto find = [&](uint16_t stream) {
    SessionCache::Entry entry;
    return cache.Find(stream, 0, 0, &entry);
  };
  EXPECT_EQ(find(0), wire::DafsStatus::kDelay);
  cache.NoteSettled(0);
  EXPECT_EQ(find(0), wire::DafsStatus::kNoXidMatch);
  EXPECT_EQ(find(1), wire::DafsStatus::kDelay);
  EXPECT_TRUE(cache.has_unsettled());
  cache.NoteSettled(1);
  EXPECT_EQ(find(1), wire::DafsStatus::kNoXidMatch);
  EXPECT_FALSE(cache.has_unsettled());
}

}  // namespace
}  // namespace dafs::server
