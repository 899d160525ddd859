// Servers that use the freedom of the protocol in other ways than dafsd: without optional features,
// with other attributes, smaller sizes and fewer credits, in another order. Spec: WIRE 2.5, 5.1,
// 9.3, 11.3.
#include <algorithm>
#include <set>
#include <utility>

#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class OtherServersTest : public ScriptedTest {
 protected:
  // Answers these procedures with `status`.
  void Refuse(std::set<Proc> procedures, DafsStatus status = DafsStatus::kNotSupp) {
    server_.script = [procedures = std::move(procedures), status](ScriptedConnection& c,
                                                                  const Request& request) {
      if (!procedures.contains(request.header.procedure)) return false;
      c.Refuse(request, status);
      return true;
    };
  }
  OpenFile Open(const std::string& owner) {
    OpenRequest request;
    request.name = "f";
    request.owner = owner;
    request.share_access = wire::kShareBoth;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
    EXPECT_OK(file);
    return file.ok() ? *file : OpenFile();
  }
  BufferLease Lease(BufferUse use, uint32_t bytes) {
    return files_->buffers().TryAcquire(use, bytes);
  }

  wire::FileHandle dir_;
};

// 6.2.8, 3.1.1.1.2: without REGISTER_CRED, calls use the session's own credentials.
TEST_F(OtherServersTest, WithoutRegisterCredTheServerChoosesTheIdentity) {
  for (const DafsStatus status : {DafsStatus::kNotSupp, DafsStatus::kNotAuthorized}) {
    files_.reset();
    MakeFiles();
    server_.log.clear();
    Refuse({Proc::kRegisterCred}, status);
    ASSERT_OK(Await(files_->Mount(user_)));
    ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
    const Identity other{1001, 1001, {}};
    ASSERT_OK(Await(files_->names().Lookup(other, dir_, "name")));
    // once for each user
    EXPECT_EQ(server_.Count(Proc::kRegisterCred), 2);
    for (const auto& seen : server_.log) EXPECT_TRUE(seen.cred.is_zero());
    files_->Shutdown();
  }
}

TEST_F(OtherServersTest, MountSucceedsWithoutFileSystemAttributes) {
  MakeFiles();
  Refuse({Proc::kGetFsattr});
  ASSERT_OK(Await(files_->Mount(user_)));
}

// Shows DAFS-4.1.5-04: a server may have no named attributes, or refuse one of them.
TEST_F(OtherServersTest, NamedAttributeThatIsNotStoredFailsAlone) {
  for (const DafsStatus status : {DafsStatus::kNotSupp, DafsStatus::kNoSpc}) {
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    MakeFiles();
    Refuse({Proc::kOpenattr}, status);
    const OpenFile file = Open("owner");
    const absl::Status set =
        Await(files_->xattrs().SetXattr(user_, file.handle, "user.x", "1", XattrMode::kAny));
    EXPECT_EQ(wire::DafsFromStatus(set), status) << set;
    BufferLease lease = Lease(BufferUse::kWriteSource, 4096);
    EXPECT_OK(Await(files_->data().Write(user_, file.handle, file.state_id, 0, lease, 0, 100,
                                         wire::StableHow::kFileSync)));
    EXPECT_OK(Await(files_->opens().Close(file.state_id)));
  }
}

// R15: each session queries the extensions before it sends any name. Other servers answer NOTSUPP.
TEST_F(OtherServersTest, EachSessionQueriesExtensionsFirst) {
  MakeFiles();
  uint64_t granted = 0;
  server_.script = [&granted](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kExtensions || granted == 0) return false;
    wire::ExtensionsRes res;
    res.granted = granted;
    c.Answer(request, res);
    return true;
  };
  ASSERT_OK(Await(files_->Mount(user_)));
  EXPECT_EQ(files_->name_rule(), wire::NameRule::kUtf8);
  EXPECT_FALSE(client_->limits().squashed);
  EXPECT_EQ(server_.Count(Proc::kExtensions), 1);

  granted = wire::kExtensionByteNames;
  server_.log.clear();
  server_.connections.back()->Close(absl::UnavailableError("the server was replaced"));
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(files_->name_rule(), wire::NameRule::kBytes);
  ASSERT_GE(server_.log.size(), 2u);
  EXPECT_EQ(server_.log[1].proc, Proc::kExtensions);
}

// The table makes room for other users without releasing a credential that was never registered.
TEST_F(OtherServersTest, RefusedCredentialIsNotReleased) {
  options_.max_credentials = 1;
  MakeFiles();
  Refuse({Proc::kRegisterCred});
  for (uint32_t uid = 1000; uid < 1003; ++uid) {
    const Identity user{uid, uid, {}};
    ASSERT_OK(Await(files_->names().Lookup(user, dir_, "name")));
  }
  EXPECT_EQ(server_.Count(Proc::kReleaseCred), 0);
}

// Shows DAFS-3.1.1.1-02 (the client).
TEST_F(OtherServersTest, WithoutSecinfoEachMethodIsTried) {
  std::vector<wire::AuthType> tried;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    switch (request.header.procedure) {
      case Proc::kClientConnectAuth:
      case Proc::kSecinfo:
        c.Refuse(request, DafsStatus::kNotSupp);
        return true;
      case Proc::kClientAuth:
        tried.push_back(request.Decode<wire::ClientAuthArgs>().auth_req.auth_type);
        if (tried.back() == wire::AuthType::kDefault) return false;
        c.Refuse(request, DafsStatus::kNotAuthorized);
        return true;
      default:
        return false;
    }
  };
  ASSERT_OK(MakeSession());
  EXPECT_THAT(tried, ::testing::ElementsAre(wire::AuthType::kNone, wire::AuthType::kDefault));
  EXPECT_EQ(session_->negotiated().auth, wire::AuthType::kDefault);
}

// MAX_WRITE is not mandatory. Without it, the client learns the limit from an error.
TEST_F(OtherServersTest, TooLargeWriteIsSplit) {
  MakeFiles();
  std::set<uint32_t> sizes;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    uint32_t size = 0;
    if (request.header.procedure == Proc::kWriteDirect) {
      size = request.Decode<wire::WriteDirectArgs>().byte_count;
    } else if (request.header.procedure == Proc::kWriteInline) {
      size = request.Decode<wire::WriteInlineArgs>().byte_count;
    }
    if (size <= 20000) {
      if (size != 0) sizes.insert(size);
      return false;
    }
    c.Refuse(request, DafsStatus::kWriteTooBig);
    return true;
  };
  constexpr uint32_t kBytes = 100000;
  BufferLease lease = Lease(BufferUse::kWriteSource, kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) lease.payload()[i] = ScriptedByte(i);
  absl::StatusOr<WriteResult> written =
      Await(files_->data().Write(user_, dir_, {}, 0, lease, 0, kBytes, wire::StableHow::kFileSync));
  ASSERT_OK(written);
  EXPECT_EQ(written->count, kBytes);
  const std::vector<std::byte>& at_server = server_.written[""];
  ASSERT_EQ(at_server.size(), kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) ASSERT_EQ(at_server[i], ScriptedByte(i));
  EXPECT_EQ(*sizes.rbegin(), 12500u);
  EXPECT_EQ(files_->transfers().write_bytes(), 12500u);  // the next write starts with this size
}

// Appends to a server that reports how much it takes at once. The client never splits an append.
class Appending : public OtherServersTest {
 protected:
  static constexpr uint32_t kBytes = 20000;  // more than a request of 16 KiB holds
  void SetUp() override {
    options_.max_request_size = options_.max_response_size = 16384;
    options_.inline_write_bytes = 8192;
  }
  void Fill() {
    source_ = Lease(BufferUse::kWriteSource, kBytes);
    for (uint32_t i = 0; i < kBytes; ++i) source_.payload()[i] = ScriptedByte(i);
  }
  absl::StatusOr<AppendResult> Append(uint32_t position, uint32_t size) {
    return Await(files_->data().Append(user_, dir_, wire::StateId(), source_, position, size,
                                       wire::StableHow::kDataSync));
  }
  // Appends all of the data in parts of append_bytes(), like mount.dafs.
  absl::Status AppendAll() {
    for (uint32_t done = 0; done < kBytes;) {
      const uint32_t part = std::min(kBytes - done, files_->transfers().append_bytes());
      absl::Status status = Append(done, part).status();
      if (wire::DafsFromStatus(status) == DafsStatus::kWriteTooBig &&
          files_->transfers().append_bytes() < part) {
        continue;
      }
      if (!status.ok()) return status;
      done += part;
    }
    return absl::OkStatus();
  }
  void ExpectOnce(const std::vector<std::byte>& found) {
    ASSERT_EQ(found.size(), kBytes);
    for (uint32_t i = 0; i < kBytes; ++i) ASSERT_EQ(found[i], ScriptedByte(i));
  }

  BufferLease source_;
};

// Shows DAFS-7-18 (the client accepts either status).
TEST_F(Appending, RefusedDirectAppendIsRetriedInlineAtOnce) {
  for (const DafsStatus status : {DafsStatus::kNotSupp, DafsStatus::kRdmaReadChannelUnusable}) {
    if (files_ != nullptr) files_->Shutdown();
    source_.Release();
    files_.reset();
    server_.log.clear();
    server_.appended.clear();
    MakeFiles();
    Fill();
    Refuse({Proc::kAppendDirect}, status);
    ASSERT_OK(Append(
        0, 12000));  // above the limit for inline data, which is exceeded only if direct fails
    EXPECT_EQ(server_.Count(Proc::kAppendDirect), 1);
    EXPECT_EQ(server_.Count(Proc::kAppendInline), 1);
    server_.appended.clear();
    ASSERT_OK(AppendAll());
    ExpectOnce(server_.appended[""]);
    EXPECT_EQ(server_.Count(Proc::kAppendDirect), 1);  // it is not tried again
  }
}

TEST_F(Appending, RefusedDirectAppendTooLargeForInlineIsNotSplit) {
  MakeFiles();
  Fill();
  Refuse({Proc::kAppendDirect});
  const absl::Status status = Append(0, kBytes).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kWriteTooBig) << status;
  EXPECT_EQ(server_.Count(Proc::kAppendInline), 0);
  EXPECT_LT(files_->transfers().append_bytes(), kBytes);
  ASSERT_OK(AppendAll());
  ExpectOnce(server_.appended[""]);
}

// An unusable channel of one session may be usable in the next.
TEST_F(Appending, UnusableChannelIsRememberedForItsSessionOnly) {
  MakeFiles();
  Fill();
  Refuse({Proc::kAppendDirect}, DafsStatus::kRdmaReadChannelUnusable);
  ASSERT_OK(Append(0, 12000));
  server_.script = nullptr;
  server_.Restart();
  ASSERT_TRUE(Until([&] { return files_->transfers().append_bytes() >= kBytes; }));
  ASSERT_OK(Append(0, kBytes));
  EXPECT_EQ(server_.Count(Proc::kAppendDirect), 2);
  EXPECT_EQ(server_.Count(Proc::kAppendInline), 1);
}

// The session is lost during the append, and the next one has smaller messages.
TEST_F(Appending, AppendShrinksToTheSmallerMessagesOfTheNextSession) {
  MakeFiles();
  Fill();
  Refuse({Proc::kAppendDirect});
  ASSERT_EQ(wire::DafsFromStatus(Append(0, kBytes).status()), DafsStatus::kWriteTooBig);
  bool cut = false;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kAppendInline && !std::exchange(cut, true)) {
      c.Close(absl::UnavailableError("cut"));
      return true;
    }
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    wire::ClientConnectAuthRes res;
    res.session_id = wire::OpaqueFromUint64<wire::SessionId>(99);
    res.client_id = wire::OpaqueFromUint64<wire::ClientId>(server_.instance);
    res.max_request_size = res.max_response_size = 4096;
    res.max_requests = 4;
    res.max_credentials = 1;
    res.trusted = true;
    res.use_response_cache = true;
    c.session_id = 99;
    c.connected_session = true;
    c.Answer(request, res);
    return true;
  };
  ASSERT_OK(AppendAll());
  EXPECT_TRUE(cut);
  ExpectOnce(server_.appended[""]);
}

// 6.5.2: `supported` has fewer rights than the client requested.
TEST_F(OtherServersTest, RightsThatAccessDoesNotReportAreLeftToTheServer) {
  MakeFiles();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kAccess) return false;
    wire::AccessRes res;
    res.supported = wire::kAccessRead | wire::kAccessModify;
    res.access = wire::kAccessRead;
    c.Answer(request, res);
    return true;
  };
  absl::StatusOr<uint32_t> access = Await(files_->attributes().Access(
      user_, dir_, wire::kAccessRead | wire::kAccessModify | wire::kAccessExecute));
  ASSERT_OK(access);
  EXPECT_EQ(*access, wire::kAccessRead | wire::kAccessExecute);
}

TEST_F(OtherServersTest, WithoutReaddirDirectItIsTriedOnce) {
  MakeFiles();
  Refuse({Proc::kReaddirDirect});
  BufferLease lease = Lease(BufferUse::kReadTarget, 128 << 10);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Await(files_->directories().ReadDirectory(user_, dir_, 0, {}, 65536, 0, lease)));
  }
  EXPECT_EQ(server_.Count(Proc::kReaddirDirect), 1);
  EXPECT_EQ(server_.Count(Proc::kReaddirInline), 3);
}

// WIRE 11.3: the server may lower the sizes down to 1024. Reads and writes fit into them.
// Shows DAFS-3.2.6.4.1-02 (WRITE_INLINE of the client).
TEST_F(OtherServersTest, SmallestMessagesAndOneCreditSuffice) {
  server_.max_requests = 1;
  server_.target_nreq = 1;
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    wire::ClientConnectAuthRes res;
    res.session_id = wire::OpaqueFromUint64<wire::SessionId>(9);
    res.client_id = wire::OpaqueFromUint64<wire::ClientId>(server_.instance);
    res.max_request_size = res.max_response_size = 1024;
    res.max_requests = 1;
    res.max_credentials = 1;
    res.inline_write_header_size = 1016;  // space for padded writes, which the client does not use
    res.trusted = true;
    c.session_id = 9;
    c.connected_session = true;
    c.Answer(request, res);
    return true;
  };
  MakeFiles();
  client_->limits().no_direct_reads = client_->limits().no_direct_writes = true;
  ASSERT_OK(Await(files_->Mount(user_)));
  BufferLease lease = Lease(BufferUse::kWriteSource, 5000);
  for (uint32_t i = 0; i < 5000; ++i) lease.payload()[i] = ScriptedByte(i);
  absl::StatusOr<WriteResult> written =
      Await(files_->data().Write(user_, dir_, {}, 0, lease, 0, 5000, wire::StableHow::kFileSync));
  ASSERT_OK(written);
  EXPECT_EQ(written->count, 5000u);
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 6);
  EXPECT_EQ(server_.most_outstanding, 1u);
}

// The reply has heap items in another order, gaps, padding and unreferenced bytes after the end
// (WIRE 2.5), and attributes that the client did not request.
TEST_F(OtherServersTest, RepliesNeedNotBeCanonical) {
  MakeFiles();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kGetattrInline) return false;
    wire::GetattrInlineRes res;
    res.obj_attributes = ScriptedAttributes(wire::kFattrMandatory | wire::kFattrOwner |
                                            wire::kFattrOwnerGroup | wire::kFattrMimeType);
    res.obj_attributes.owner = "1000";
    res.obj_attributes.owner_group = "100";
    res.obj_attributes.mime_type = "text/plain";
    std::vector<std::byte> bytes = c.Encoded(request, res, DafsStatus::kOk, {});
    bytes.resize(bytes.size() + 64, std::byte{0xee});
    const auto length = static_cast<uint32_t>(bytes.size());
    std::memcpy(bytes.data() + 32, &length, 4);
    std::memset(bytes.data() + 36, 0x11, 4);  // reserved
    bytes[10] = std::byte{0xfc};              // undefined special conditions
    c.Send(std::move(bytes));
    return true;
  };
  absl::StatusOr<Attributes> attributes = Await(files_->attributes().GetAttributes(user_, dir_));
  ASSERT_OK(attributes);
  EXPECT_EQ(attributes->owner, "1000");
  EXPECT_EQ(attributes->owner_group, "100");
  EXPECT_FALSE(attributes->has(wire::kFattrMode));
  EXPECT_EQ(server_.connections_made, 1);
}

// The server sends nothing unsolicited on the Operation Channel, since no request would match it.
// Shows DAFS-3.1.2.3.1-01, and DAFS-5.1-02: the client replaces a failed channel by a new one.
TEST_F(OtherServersTest, UnsolicitedMessageEndsTheSession) {
  MakeFiles();
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  wire::RequestHeader nothing;
  std::vector<std::byte> bytes(40);
  wire::EncodeResponseHeaderOnly(wire::ResponseTo(nothing, DafsStatus::kOk, 1),
                                 wire::ByteOrder::kLittle, bytes, false);
  server_.only().Send(std::move(bytes));
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(server_.connections_made, 2);
}

// Shows DAFS-4.4.1.2-01 (another server decides for mandatory locks), DAFS-4.4.1.2-02: under the
// client's own mandatory lock, I/O carries the state id of that
// lock.
TEST_F(OtherServersTest, IoUnderMandatoryLockCarriesItsStateId) {
  MakeFiles();
  const OpenFile io = Open("io");
  const OpenFile lock = Open("lock");
  const LockOwner owner{lock.handle, lock.state_id, 1};
  ASSERT_OK(Await(files_->locks().Lock(user_, owner, {0, 99, true})));
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    wire::StateId state_id;
    uint64_t offset = 0;
    if (request.header.procedure == Proc::kReadInline) {
      const auto args = request.Decode<wire::ReadInlineArgs>();
      state_id = args.state_id;
      offset = args.offset;
    } else if (request.header.procedure == Proc::kWriteInline) {
      const auto args = request.Decode<wire::WriteInlineArgs>();
      state_id = args.state_id;
      offset = args.offset;
    } else {
      return false;
    }
    const bool ours = server_.opens[wire::OpaqueToUint64(state_id)] == "f|lock";
    if (offset < 100 && ours) return false;
    c.Refuse(request, DafsStatus::kLocked);
    return true;
  };
  BufferLease target = Lease(BufferUse::kReadTarget, 4096);
  BufferLease source = Lease(BufferUse::kWriteSource, 4096);
  ASSERT_OK(Await(files_->data().Read(user_, io.handle, io.state_id, 90, target, 20)));
  ASSERT_OK(Await(files_->data().Write(user_, io.handle, io.state_id, 10, source, 0, 20,
                                       wire::StableHow::kFileSync)));
  // A range locked by another owner stays locked.
  absl::Status others =
      Await(files_->data().Read(user_, io.handle, io.state_id, 200, target, 20)).status();
  EXPECT_EQ(wire::DafsFromStatus(others), DafsStatus::kLocked) << others;
}

// Shows DAFS-4.4.1.2-39
TEST_F(OtherServersTest, LocksAreValidatedByAnEmptyRead) {
  MakeFiles();
  const OpenFile io = Open("io");
  const OpenFile lock = Open("lock");
  const LockOwner owner{lock.handle, lock.state_id, 1};
  ASSERT_OK(Await(files_->locks().Lock(user_, owner, {0, 99, true})));
  Await(files_->locks().ValidateLocks());
  EXPECT_EQ(server_.Count(Proc::kReadInline), 1);
  EXPECT_OK(client_->opens().Find(lock.state_id)->lost);

  server_.opens.clear();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen) return false;
    c.Refuse(request, DafsStatus::kExpired);
    return true;
  };
  Await(files_->locks().ValidateLocks());
  // The owner may do its I/O through the other open, so that I/O fails too.
  EXPECT_FALSE(client_->opens().Find(lock.state_id)->lost.ok());
  BufferLease target = Lease(BufferUse::kReadTarget, 4096);
  EXPECT_FALSE(Await(files_->data().Read(user_, io.handle, io.state_id, 0, target, 20)).ok());
}

}  // namespace
}  // namespace dafs::client::testing
