// Requests, opens and chains after the loss of a session. Like a real server, the scripted server
// keeps a Response Cache and forgets its opens when it restarts.
#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "client/session/session_keeper.h"
#include "runtime/text.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class FilesRecoveryTest : public ScriptedTest {
 protected:
  // Ends the session at the first request of `proc`; `executed`: after executing it.
  void LoseOnce(Proc proc, bool executed, bool restart = false, bool with_cache = true) {
    server_.script = [=, this, done = false](ScriptedConnection& c,
                                             const Request& request) mutable {
      if (done || request.header.procedure != proc) return false;
      done = true;
      if (executed) server_.Serve(c, request);
      if (restart) server_.Restart(with_cache);
      c.closed = false;
      executed ? c.Close(absl::OkStatus()) : c.CloseAfterAnswers();
      return true;
    };
  }
  absl::StatusOr<Node> MakeDirectory() {
    return Await(
        files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes(), &after_));
  }
  absl::StatusOr<OpenFile> Open(const std::string& name, bool create = false,
                                uint32_t deny = wire::kShareDenyNone) {
    OpenRequest request;
    request.name = name;
    request.owner = "owner of " + name;
    request.share_access = wire::kShareBoth;
    request.share_deny = deny;
    request.create = create;
    request.create_mode = wire::CreateMode::kGuarded;
    return Await(files_->opens().Open(user_, request));
  }
  absl::Status Write(const OpenFile& file, uint64_t offset, std::string_view data) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kWriteSource, 65536);
    std::memcpy(lease.payload(), data.data(), data.size());
    return Await(files_->data().Write(user_, file.handle, file.state_id, offset, lease, 0,
                                      static_cast<uint32_t>(data.size()),
                                      wire::StableHow::kUnstable))
        .status();
  }
  absl::Status Read(const OpenFile& file) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    return Await(files_->data().Read(user_, file.handle, file.state_id, 0, lease, 4096)).status();
  }
  wire::FileHandle dir_;
  Attributes after_;
};

// ---- The Response Cache ----------------------------------------------------------------------

// Shows DAFS-4.3.4-01, DAFS-6.3.2-03: CHECK_RESPONSE comes first.
TEST_F(FilesRecoveryTest, ReplyToAnExecutedChangeIsFetchedNotRepeated) {
  MakeFiles();
  LoseOnce(Proc::kCreate, true);
  absl::StatusOr<Node> node = MakeDirectory();
  ASSERT_OK(node);
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_EQ(server_.executed[Proc::kFetchResponse], 1);
  EXPECT_EQ(node->attributes.file_id, static_cast<uint64_t>('n'));  // the chain continued with it
  const auto fetch = std::find_if(server_.log.begin(), server_.log.end(), [](const auto& seen) {
    return seen.proc == Proc::kFetchResponse;
  });
  ASSERT_NE(fetch, server_.log.begin());
  EXPECT_EQ(std::prev(fetch)->proc, Proc::kCheckResponse);
}

TEST_F(FilesRecoveryTest, ChangeThatWasNotExecutedIsReissued) {
  MakeFiles();
  LoseOnce(Proc::kRemove, false);
  ASSERT_OK(Await(files_->names().Remove(user_, dir_, "name")));
  EXPECT_EQ(server_.executed[Proc::kRemove], 1);
  EXPECT_EQ(server_.Count(Proc::kRemove), 2);
  EXPECT_EQ(server_.executed[Proc::kFetchResponse], 0);
}

TEST_F(FilesRecoveryTest, StoredErrorIsReturned) {
  MakeFiles();
  server_.script = [&, done = false](ScriptedConnection& c, const Request& request) mutable {
    if (done || request.header.procedure != Proc::kRename) return false;
    done = true;
    std::vector<std::byte> message(40);
    server_.responses[{c.session_id, request.header.stream_id}] = {
        request.header.seq_number, Proc::kRename, DafsStatus::kNotEmpty, message};
    c.Close(absl::OkStatus());
    return true;
  };
  absl::Status status = Await(files_->names().Rename(user_, dir_, "a", dir_, "b"));
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kNotEmpty) << status;
  EXPECT_EQ(server_.executed[Proc::kRename], 0);
}

// Once for each lost session, after its requests are settled. Shows DAFS-5.2.5-06: a response that
// was discarded before it was fetched would leave the outcome unknown.
TEST_F(FilesRecoveryTest, ResponsesOfTheOldSessionAreDiscarded) {
  MakeFiles();
  for (int i = 1; i <= 3; ++i) {
    LoseOnce(Proc::kCreate, i % 2 == 0);
    ASSERT_OK(MakeDirectory());
    ASSERT_TRUE(Until([&] { return server_.executed[Proc::kDiscardResponses] == i; }));
  }
  const uint64_t present = server_.only().session_id;
  for (const auto& [key, kept] : server_.responses) EXPECT_EQ(key.first, present);
}

// Shows DAFS-4.3.4-05, DAFS-5.2.5-05.
TEST_F(FilesRecoveryTest, ChainResumesAfterItsLastExecutedMember) {
  MakeFiles();
  ASSERT_OK(MakeDirectory());
  // CREATE executes, but its reply is lost with the SETATTR.
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kMakeNode) {  // which would need no chain
      c.Refuse(request, DafsStatus::kNotSupp);
      return true;
    }
    if (request.header.procedure != Proc::kSetattrInline || server_.connections_made > 1) {
      return false;
    }
    c.Close(absl::OkStatus());
    return true;
  };
  absl::StatusOr<Node> node = Await(files_->names().MakeNode(
      user_, dir_, "made", wire::ObjectType::kFifo, wire::SpecData(), 0600));
  ASSERT_OK(node);
  EXPECT_EQ(server_.executed[Proc::kCreate], 2);  // once for MakeDirectory, once here
  EXPECT_EQ(server_.executed[Proc::kSetattrInline], 1);
  EXPECT_EQ(node->attributes.file_id, static_cast<uint64_t>('m'));
}

TEST_F(FilesRecoveryTest, FetchIsRetriedWhileTheServerHoldsTheOldSession) {
  MakeFiles();
  int refusals = 3;
  LoseOnce(Proc::kCreate, true);
  server_.script = [&, inner = std::move(server_.script)](ScriptedConnection& c,
                                                          const Request& request) {
    if (request.header.procedure == Proc::kCheckResponse && refusals-- > 0) {
      c.Refuse(request, DafsStatus::kBadSession);
      return true;
    }
    return inner(c, request);
  };
  ASSERT_OK(MakeDirectory());
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

// A request that still executes may take effect at any time, so the client waits however long that
// takes.
TEST_F(FilesRecoveryTest, ClientWaitsForAChangeThatStillExecutes) {
  options_.silence = absl::Milliseconds(40);
  MakeFiles();
  int changes = 0;
  for (DafsStatus status :
       {DafsStatus::kBadSession, DafsStatus::kDelay, DafsStatus::kGrace, DafsStatus::kResource}) {
    int refusals = 6;  // 630 ms
    LoseOnce(Proc::kCreate, true);
    server_.script = [&, inner = std::move(server_.script)](ScriptedConnection& c,
                                                            const Request& request) {
      if (request.header.procedure != Proc::kCheckResponse || refusals == 0) {
        return inner(c, request);
      }
      --refusals;
      if (refusals == 0) {
        EXPECT_EQ(files_->Report().waiting,
                  absl::StrCat("CREATE: the server still settles the old session (",
                               Text(wire::Name(status)), ")"));
      }
      c.Refuse(request, status);
      return true;
    };
    EXPECT_OK(MakeDirectory());
    EXPECT_EQ(refusals, 0);
    EXPECT_EQ(server_.executed[Proc::kCreate], ++changes);
  }
}

// This also holds for idempotent requests: the old one, if executed later, would undo newer writes.
TEST_F(FilesRecoveryTest, NothingIsIssuedWhileAnOldRequestStillExecutes) {
  options_.silence = absl::Milliseconds(40);
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  int refusals = 6;
  LoseOnce(Proc::kWriteInline, false);
  server_.script = [&, inner = std::move(server_.script)](ScriptedConnection& c,
                                                          const Request& request) {
    if (request.header.procedure == Proc::kCheckResponse && refusals > 0) {
      --refusals;
      c.Refuse(request, DafsStatus::kBadSession);
      return true;
    }
    if (request.header.procedure == Proc::kWriteInline && server_.connections_made > 1) {
      EXPECT_EQ(refusals, 0);
    }
    return inner(c, request);
  };
  ASSERT_OK(Write(*file, 0, "data"));
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 2);
}

TEST_F(FilesRecoveryTest, SoftMountFailsIfAnOldChangeExecutesTooLong) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(200);
  MakeFiles();
  LoseOnce(Proc::kCreate, true);
  server_.script = [&, inner = std::move(server_.script)](ScriptedConnection& c,
                                                          const Request& request) {
    if (request.header.procedure != Proc::kCheckResponse) return inner(c, request);
    c.Refuse(request, DafsStatus::kBadSession);
    return true;
  };
  absl::StatusOr<Node> node = MakeDirectory();
  EXPECT_TRUE(absl::IsDeadlineExceeded(node.status())) << node.status();
}

TEST_F(FilesRecoveryTest, LostResponseCacheLeavesTheOutcomeUnknown) {
  server_.keeps_unanswered = false;
  MakeFiles();
  LoseOnce(Proc::kCreate, true, true, false);
  absl::StatusOr<Node> node = MakeDirectory();
  EXPECT_TRUE(absl::IsUnknown(node.status())) << node.status();
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

// A server that restarts at a request of `proc` and no longer accepts AUTH_NONE. It shows the cache
// of a session only to a client with the same authentication (5.2.5).
class AuthenticatedOtherwise : public FilesRecoveryTest {
 protected:
  AuthenticatedOtherwise() {
    options_.soft = true;  // ends the test if the call never completes
    options_.timeout = absl::Seconds(5);
  }
  void RestartAt(Proc proc) {
    LoseOnce(proc, /*executed=*/false, /*restart=*/true);
    server_.script = [this, before = server_.connections_made, inner = std::move(server_.script)](
                         ScriptedConnection& c, const Request& request) {
      switch (request.header.procedure) {
        case Proc::kClientConnectAuth:
          if (server_.connections_made == before) return false;
          c.Refuse(request, DafsStatus::kNotAuthenticated);
          return true;
        case Proc::kClientAuth:
          if (request.Decode<wire::ClientAuthArgs>().auth_req.auth_type != wire::AuthType::kNone) {
            return false;
          }
          c.Refuse(request, DafsStatus::kNotAuthorized);
          return true;
        case Proc::kSecinfo:
          c.Refuse(request, DafsStatus::kNotSupp);
          return true;
        case Proc::kCheckResponse:
          c.Refuse(request, DafsStatus::kBadSession);
          return true;
        default:
          return inner(c, request);
      }
    };
  }
};

TEST_F(AuthenticatedOtherwise, ChangeOfTheOldSessionFailsWithoutWaiting) {
  MakeFiles();
  ASSERT_OK(Await(files_->Mount(user_)));
  RestartAt(Proc::kCreate);
  absl::StatusOr<Node> node = MakeDirectory();
  EXPECT_TRUE(absl::IsUnknown(node.status())) << node.status();
  EXPECT_EQ(server_.Count(Proc::kCheckResponse), 1);
  EXPECT_EQ(server_.Count(Proc::kCreate), 1);
}

TEST_F(AuthenticatedOtherwise, IdempotentRequestIsReissued) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  RestartAt(Proc::kWriteInline);
  EXPECT_OK(Write(*file, 0, "data"));
  EXPECT_EQ(server_.Count(Proc::kCheckResponse), 1);
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 2);
}

// ---- Opens -----------------------------------------------------------------------------------

// Shows DAFS-4.4.1.6-01, DAFS-4.4.1.2-28 (OPEN), DAFS-5.2.5-08 (opens), DAFS-3.1.2.5-02 (the
// session).
TEST_F(FilesRecoveryTest, OpensAreReclaimedBeforeAnyOtherRequestAfterRestart) {
  MakeFiles();
  absl::StatusOr<OpenFile> one = Open("one"), two = Open("two");
  ASSERT_OK(one);
  ASSERT_OK(two);
  server_.Restart();
  server_.log.clear();
  ASSERT_OK(Read(*one));
  ASSERT_OK(Write(*two, 0, "data"));
  EXPECT_EQ(server_.opens.size(), 2u);
  std::vector<Proc> seen;
  for (const auto& entry : server_.log) {
    if (entry.proc != Proc::kDiscardResponses && entry.proc != Proc::kRegisterCred) {
      seen.push_back(entry.proc);
    }
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(Proc::kClientConnectAuth, Proc::kExtensions, Proc::kOpen,
                                           Proc::kOpen, Proc::kReadInline, Proc::kWriteInline));
  ASSERT_OK(Await(files_->opens().Close(one->state_id)));
  ASSERT_OK(Await(files_->opens().Close(two->state_id)));
  EXPECT_EQ(server_.opens.size(), 0u);
  EXPECT_EQ(client_->opens().size(), 0u);
}

Task<void> WriteInto(Files& files, Identity user, const OpenFile& file, const BufferLease& lease,
                     bool* done) {
  Task<absl::StatusOr<WriteResult>> task = files.data().Write(
      user, file.handle, file.state_id, 0, lease, 0, 4, wire::StableHow::kUnstable);
  const absl::StatusOr<WriteResult> written = co_await task;
  EXPECT_OK(written);
  *done = true;
}

// Shows DAFS-4.4.1.2-24: the server has not answered the reclaim of the lock yet.
TEST_F(FilesRecoveryTest, QueuedIoWaitsForTheReclaimOfLocks) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Await(files_->locks().Lock(user_, {file->handle, file->state_id, 1}, {0, 9, true})));
  bool holds = true;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLock || !holds) return false;
    EXPECT_NE(request.Decode<wire::LockArgs>().options & wire::kLockReclaim, 0u);
    c.held.push_back(request);
    return true;
  };
  server_.Restart();
  server_.log.clear();
  BufferLease lease = files_->buffers().TryAcquire(BufferUse::kWriteSource, 4096);
  bool done = false;
  Start(WriteInto(*files_, user_, *file, lease, &done));
  ASSERT_TRUE(Until([&] { return server_.Count(Proc::kLock) == 1; }));
  Settle();
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 0);
  holds = false;
  server_.ServeHeld(server_.only());
  EXPECT_TRUE(Until([&] { return done; }));
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 1);
  server_.script = nullptr;
}

// The server restarts again after it has answered the reclaim of the open, before the LOCK arrives.
TEST_F(FilesRecoveryTest, RestartBetweenTheReclaimsOfAnOpenAndOfItsLockLosesNothing) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Await(files_->locks().Lock(user_, {file->handle, file->state_id, 1}, {0, 9, true})));
  int locks = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLock) return false;
    if (++locks == 1) {
      server_.Restart();
      return true;
    }
    const wire::StateId open = request.Decode<wire::LockArgs>().state_id;
    if (server_.opens.contains(wire::OpaqueToUint64(open))) return false;
    c.Refuse(request, DafsStatus::kBadStateId);
    return true;
  };
  server_.Restart();
  EXPECT_OK(Write(*file, 0, "data"));
  EXPECT_GE(locks, 2);
  EXPECT_EQ(server_.opens.size(), 1u);
  server_.script = nullptr;
}

TEST_F(FilesRecoveryTest, IdleClientReclaimsAtOnce) {
  MakeFiles();
  ASSERT_OK(Open("file"));
  server_.Restart();
  ASSERT_TRUE(Until([&] { return server_.opens.size() == 1; }));
}

TEST_F(FilesRecoveryTest, FailedReclaimDoesNotBlockOtherReclaims) {
  options_.soft = true;  // ends the test if the call never completes
  options_.timeout = absl::Seconds(5);
  MakeFiles();
  const Identity me = user_;
  const Identity other{1001, 100, {}};
  std::vector<OpenFile> mine, others;
  for (int i = 0; i < 4; ++i) {
    user_ = i % 2 == 0 ? me : other;
    absl::StatusOr<OpenFile> file = Open(absl::StrCat("file", i));
    ASSERT_OK(file);
    (i % 2 == 0 ? mine : others).push_back(*file);
  }
  user_ = me;
  int refused = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kRegisterCred ||
        request.Decode<wire::RegisterCredArgs>().uid != 1001) {
      return false;
    }
    ++refused;
    c.Refuse(request, DafsStatus::kInval);
    return true;
  };
  server_.Restart();
  for (const OpenFile& file : mine) EXPECT_OK(Read(file));
  EXPECT_EQ(server_.opens.size(), 2u);
  EXPECT_EQ(refused, 2);
  server_.script = nullptr;
  user_ = other;
  for (const OpenFile& file : others) EXPECT_FALSE(Read(file).ok());
}

// An export that the restarted server does not serve yet, over another restart.
TEST_F(FilesRecoveryTest, DelayedReclaimDoesNotDelayOtherReclaims) {
  MakeFiles();
  absl::StatusOr<OpenFile> first = Open("first"), late = Open("delayed"), last = Open("last");
  ASSERT_OK(first);
  ASSERT_OK(late);
  ASSERT_OK(last);
  int delayed = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen ||
        request.Decode<wire::OpenArgs>().owner != "owner of delayed") {
      return false;
    }
    ++delayed;
    c.Refuse(request, DafsStatus::kDelay);
    return true;
  };
  for (int i = 0; i < 2; ++i) {
    server_.Restart();
    ASSERT_TRUE(server_.opens.empty());
    delayed = 0;
    ASSERT_TRUE(Until([&] { return server_.opens.size() == 2 && delayed > 2; })) << i;
  }
  EXPECT_EQ(server_.Count(Proc::kReadInline), 0);
  server_.script = nullptr;
  for (const OpenFile& file : {*first, *late, *last}) EXPECT_OK(Read(file));
  EXPECT_EQ(server_.opens.size(), 3u);
}

// Each round sends the request up to nine times, until a reply is undamaged.
TEST_F(FilesRecoveryTest, FailedReclaimIsRetriedAfterAPause) {
  options_.checksums = true;
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  int damaged = 12;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kRegisterCred || damaged == 0) return false;
    --damaged;
    std::vector<std::byte> answer = c.Encoded(request, wire::RegisterCredRes(), {}, {});
    answer.back() ^= std::byte{1};
    c.Send(std::move(answer));
    return true;
  };
  server_.Restart();
  const absl::Time start = Loop::Now();
  ASSERT_OK(Read(*file));
  EXPECT_EQ(damaged, 0);
  EXPECT_GE(Loop::Now() - start, absl::Seconds(1));
}

// The client reclaims before any use of the open, since the file may lose its name next. The server
// expects the reclaim until the old session's responses are discarded.
TEST_F(FilesRecoveryTest, OpenFetchedAcrossARestartIsReclaimedAtOnce) {
  MakeFiles();
  LoseOnce(Proc::kOpen, true, true);
  absl::StatusOr<OpenFile> file = Open("file", true);
  ASSERT_OK(file);
  EXPECT_EQ(server_.executed[Proc::kFetchResponse], 1);
  EXPECT_EQ(server_.opens.size(), 1u);
  ASSERT_TRUE(Until([&] { return server_.executed[Proc::kDiscardResponses] == 1; }));
  std::vector<Proc> seen;
  for (const auto& entry : server_.log) {
    if (entry.proc == Proc::kFetchResponse || entry.proc == Proc::kDiscardResponses ||
        entry.proc == Proc::kOpen) {
      seen.push_back(entry.proc);
    }
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(Proc::kOpen, Proc::kFetchResponse, Proc::kOpen,
                                           Proc::kDiscardResponses));
  ASSERT_OK(Read(*file));
}

// Outside a grace period the server refuses a reclaim. An open that denies nothing to others is
// then opened again.
TEST_F(FilesRecoveryTest, OpenForgottenByTheServerIsOpenedAgain) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  for (DafsStatus status : {DafsStatus::kStaleStateId, DafsStatus::kExpired}) {
    server_.opens.clear();
    bool claimed = false;
    server_.script = [&](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kReadInline && !claimed) {
        c.Refuse(request, status);
        return true;
      }
      if (request.header.procedure == Proc::kOpen) {  // outside the grace period
        claimed = true;
        c.Refuse(request, DafsStatus::kDenied);
        return true;
      }
      return false;
    };
    ASSERT_OK(Read(*file));
    EXPECT_TRUE(claimed);
    EXPECT_EQ(server_.opens.size(), 1u);
  }
  server_.script = nullptr;
  ASSERT_OK(Await(files_->opens().Close(file->state_id)));
  EXPECT_EQ(server_.opens.size(), 0u);
}

// A file without a name ends with its last CLOSE. If that executed and its reply was lost with the
// server, nothing can be reclaimed, and nothing needs the file.
TEST_F(FilesRecoveryTest, LossOfAnOpenThatIsBeingClosedIsNotReported) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  bool carried_out = false;
  int claims = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kClose && !carried_out) {
      carried_out = true;
      server_.Serve(c, request);
      c.Close(absl::OkStatus());
      server_.Restart(/*with_cache=*/false);
      return true;
    }
    if (request.header.procedure != Proc::kOpen) return false;
    ++claims;
    c.Refuse(request, DafsStatus::kStale);
    return true;
  };
  ::testing::internal::CaptureStderr();
  const absl::Status closed = Await(files_->opens().Close(file->state_id));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(closed.ok()) << closed;
  EXPECT_EQ(claims, 1);
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("could not be reclaimed")));
  EXPECT_EQ(client_->opens().size(), 0u);
}

TEST_F(FilesRecoveryTest, WithoutOpenHandleTheFileIsUsedWithoutState) {
  server_.open_handle = false;
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  server_.Restart();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen) return false;
    c.Refuse(request, DafsStatus::kDenied);
    return true;
  };
  ASSERT_OK(Read(*file));
  EXPECT_EQ(server_.opens.size(), 0u);
}

TEST_F(FilesRecoveryTest, LostReservationIsReported) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file", false, wire::kShareWrite);
  ASSERT_OK(file);
  server_.Restart();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen) return false;
    c.Refuse(request, DafsStatus::kDenied);
    return true;
  };
  for (int i = 0; i < 2; ++i) {
    absl::Status status = Read(*file);
    EXPECT_TRUE(absl::IsUnknown(status)) << status;
  }
  EXPECT_EQ(server_.executed[Proc::kOpenHandle], 0);
  ASSERT_OK(Await(files_->opens().Close(file->state_id)));
}

TEST_F(FilesRecoveryTest, StaleClientIdLeadsToANewSession) {
  MakeFiles();
  ASSERT_OK(MakeDirectory());
  bool refused = false;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLookup || refused) return false;
    refused = true;
    c.Refuse(request, DafsStatus::kStaleClientId);
    return true;
  };
  ASSERT_OK(Await(files_->names().Lookup(user_, dir_, "name")));
  EXPECT_EQ(server_.connections_made, 2);
}

// ---- Data that is not committed ---------------------------------------------------------------

// Shows DAFS-6.5.8-07.
TEST_F(FilesRecoveryTest, DataLostInARestartIsRewrittenBeforeFsyncSucceeds) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  const std::string data(40000, 'd');
  ASSERT_OK(Write(*file, 0, data));
  ASSERT_OK(Write(*file, 10, "overwritten"));
  server_.Restart();  // the unstable data is lost
  ASSERT_OK(Write(*file, 30, "after the restart"));
  ASSERT_OK(Await(files_->commits().Commit(user_, file->handle, 0, 0)));
  std::string expected = data;
  expected.replace(10, 11, "overwritten").replace(30, 17, "after the restart");
  const std::vector<std::byte>& written = server_.written["file"];
  EXPECT_TRUE(std::string(reinterpret_cast<const char*>(written.data()), written.size()) ==
              expected);
  EXPECT_EQ(client_->uncommitted().bytes(), 0u);
}

TEST_F(FilesRecoveryTest, DataLostAgainDuringTheRewriteIsRewritten) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  const std::string data(60000, 'd');
  ASSERT_OK(Write(*file, 0, data));
  server_.Restart();
  int writes = 0;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kWriteInline && ++writes == 2) {
      server_.unstable.clear();
      ++server_.write_verifier;
    }
    return false;
  };
  ASSERT_OK(Await(files_->commits().Commit(user_, file->handle, 0, 0)));
  EXPECT_EQ(server_.written["file"].size(), data.size());
  EXPECT_LT(writes, 12);
}

// A failed fsync at the server loses data too; a changed verifier reports it.
TEST_F(FilesRecoveryTest, FailedCommitIsReportedAndTheNextOneSucceeds) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Write(*file, 0, "data"));
  bool failed = false;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCommit || failed) return false;
    failed = true;
    server_.unstable.clear();
    ++server_.write_verifier;
    c.Refuse(request, DafsStatus::kIo);
    return true;
  };
  absl::Status status = Await(files_->commits().Commit(user_, file->handle, 0, 0)).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kIo);
  ASSERT_OK(Await(files_->commits().Commit(user_, file->handle, 0, 0)));
  EXPECT_EQ(server_.written["file"].size(), 4u);
}

TEST_F(FilesRecoveryTest, DataIsRewrittenAfterARestartWithoutFsync) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Write(*file, 0, "data"));
  ASSERT_OK(Await(files_->opens().Close(file->state_id)));
  server_.Restart();
  ASSERT_TRUE(Until([&] { return server_.written["file"].size() == 4; }));
}

// Shows DAFS-6.5.8-07: a copy does not read data that must still be rewritten.
TEST_F(FilesRecoveryTest, CopyWaitsUntilItsSourceIsRewritten) {
  MakeFiles();
  absl::StatusOr<OpenFile> source = Open("source"), target = Open("target");
  ASSERT_OK(source);
  ASSERT_OK(target);
  ASSERT_OK(Write(*source, 0, "data"));
  server_.Restart();
  server_.log.clear();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCopyRange) return false;
    wire::CopyRangeRes res;
    res.count = 4;
    res.verifier = wire::OpaqueFromUint64<wire::Verifier>(server_.write_verifier);
    c.Answer(request, res, DafsStatus::kOk, {});
    return true;
  };
  ASSERT_OK(Await(files_->ranges().CopyRange(user_, source->handle, source->state_id, 0,
                                             target->handle, target->state_id, 0, 4)));
  std::vector<Proc> seen;
  for (const auto& entry : server_.log) {
    if (entry.proc == Proc::kWriteInline || entry.proc == Proc::kCopyRange) {
      seen.push_back(entry.proc);
    }
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(Proc::kWriteInline, Proc::kCopyRange));
}

TEST_F(FilesRecoveryTest, NextFsyncReportsDataThatCannotBeRewritten) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Write(*file, 0, "data"));
  server_.Restart();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kWriteInline) return false;
    c.Refuse(request, DafsStatus::kNoSpc);
    return true;
  };
  Await(files_->commits().Commit(user_, file->handle, 0, 0)).IgnoreError();
  absl::Status status = files_->commits().TakeFailure(file->handle);
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kNoSpc) << status;
  EXPECT_OK(files_->commits().TakeFailure(file->handle));
}

// An allocation in the meantime neither hides the failure nor fails because of it.
TEST_F(FilesRecoveryTest, AllocationDoesNotConsumeTheErrorForLostData) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  client_->lost_data().Note(file->handle, wire::StatusFromDafs(DafsStatus::kRofs));
  ASSERT_OK(Write(*file, 0, "data"));
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kAllocate) return false;
    c.Answer(request, wire::AllocateRes());
    return true;
  };
  EXPECT_OK(Await(files_->ranges().Allocate(user_, file->handle, file->state_id,
                                            wire::AllocateMode::kPunchHole, 0, 4)));
  absl::Status status = files_->commits().TakeFailure(file->handle);
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kRofs) << status;
}

template <class T>
Task<void> KeepStatus(Task<absl::StatusOr<T>> task, std::optional<absl::Status>* status) {
  absl::StatusOr<T> result = co_await task;
  *status = result.status();
}

// Data beyond the new end would return if it were rewritten during the SETATTR.
TEST_F(FilesRecoveryTest, NothingIsRewrittenDuringATruncation) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Write(*file, 0, std::string(40000, 'd')));
  ScriptedConnection* cutting = nullptr;
  int early = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kWriteInline) ++early;
    const bool begins = request.header.procedure == Proc::kSetattrInline;
    const bool follows = cutting != nullptr && request.header.procedure == Proc::kGetattrInline;
    if (!begins && !follows) return false;
    cutting = &c;
    c.held.push_back(request);
    return true;
  };
  wire::FileAttributes cut;
  cut.object_size = 100;
  cut.set(wire::kFattrObjectSize);
  std::optional<absl::Status> set;
  std::optional<absl::Status> committed;
  Start(KeepStatus(files_->attributes().SetAttributes(user_, file->handle, file->state_id, cut),
                   &set));
  ASSERT_TRUE(Until([&] { return cutting != nullptr; }));
  cutting = nullptr;
  server_.Restart();
  ASSERT_TRUE(Until([&] { return cutting != nullptr; }));  // sent again
  Start(KeepStatus(files_->commits().Commit(user_, file->handle, 0, 0), &committed));
  ASSERT_TRUE(Until([&] { return server_.executed[Proc::kCommit] > 0; }));
  const absl::Time end = Loop::Now() + absl::Milliseconds(50);
  while (Loop::Now() < end) loop_->RunOnce(absl::Milliseconds(5));
  EXPECT_EQ(early, 0);
  server_.script = nullptr;
  server_.ServeHeld(*cutting);
  ASSERT_TRUE(Until([&] { return committed.has_value() && set.has_value(); }));
  EXPECT_OK(*set);
  EXPECT_OK(*committed);
  EXPECT_EQ(server_.written["file"].size(), 100u);
}

TEST_F(FilesRecoveryTest, FullStoreOfUncommittedDataCommits) {
  options_.uncommitted_bytes = size_t{512} << 10;
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  const std::string data(60000, 'd');
  for (uint64_t i = 0; i < 40; ++i) ASSERT_OK(Write(*file, i * data.size(), data));
  EXPECT_GT(server_.executed[Proc::kCommit], 1);
  EXPECT_LE(client_->uncommitted().bytes(), options_.uncommitted_bytes);
  server_.Restart();
  ASSERT_OK(Await(files_->commits().Commit(user_, file->handle, 0, 0)));
  EXPECT_EQ(server_.written["file"].size(), 40 * data.size());
}

// ---- Sessions that do not last ----------------------------------------------------------------

TEST_F(FilesRecoveryTest, ReconnectsBackOffWhenSessionsEndAtOnce) {
  options_.backoff_least = absl::Milliseconds(8);
  MakeFiles();
  ASSERT_OK(Await(files_->Connect()));
  int lost = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCreate || lost == 6) return false;
    ++lost;
    c.Close(absl::OkStatus());
    return true;
  };
  const absl::Time begin = Loop::Now();
  ASSERT_OK(MakeDirectory());
  EXPECT_EQ(lost, 6);
  // At least half of 8 + 16 + 32 + 64 + 128 ms; the first session may have lasted.
  EXPECT_GE(Loop::Now() - begin, absl::Milliseconds(124));
}

// ---- Every point -----------------------------------------------------------------------------

struct Sweep {
  int ended = 0;
  std::vector<absl::Status> failures;
};

Task<void> ChangeThings(Files& files, const Identity& user, int number, Sweep* sweep) {
  wire::FileHandle dir;
  const std::string name = absl::StrCat(number);
  OpenRequest request;
  request.name = name;
  request.owner = name;
  request.share_access = wire::kShareBoth;
  request.create = true;
  request.create_mode = wire::CreateMode::kGuarded;
  std::vector<absl::Status> all;
  Task<absl::StatusOr<OpenFile>> opening = files.opens().Open(user, request);
  absl::StatusOr<OpenFile> file = co_await opening;
  all.push_back(file.status());
  if (file.ok()) {
    absl::StatusOr<BufferLease> lease =
        co_await files.buffers().Acquire(BufferUse::kWriteSource, 20000);
    std::memset(lease->payload(), number + 1, 20000);
    const uint32_t size = number % 2 == 0 ? 500 : 20000;
    Task<absl::StatusOr<WriteResult>> writing = files.data().Write(
        user, file->handle, file->state_id, 0, *lease, 0, size, wire::StableHow::kUnstable);
    absl::StatusOr<WriteResult> written = co_await writing;
    all.push_back(written.status());
    Task<absl::StatusOr<AppendResult>> appending = files.data().Append(
        user, file->handle, file->state_id, *lease, 0, 300, wire::StableHow::kDataSync);
    absl::StatusOr<AppendResult> appended = co_await appending;
    all.push_back(appended.status());
    Task<absl::StatusOr<wire::Verifier>> committing =
        files.commits().Commit(user, file->handle, 0, 0);
    absl::StatusOr<wire::Verifier> committed = co_await committing;
    all.push_back(committed.status());
    Task<absl::Status> closing = files.opens().Close(file->state_id);
    all.push_back(co_await closing);
  }
  Task<absl::StatusOr<Node>> linking = files.names().Link(user, dir, dir, "link");
  absl::StatusOr<Node> linked = co_await linking;
  all.push_back(linked.status());
  Task<absl::Status> renaming = files.names().Rename(user, dir, name, dir, "other");
  all.push_back(co_await renaming);
  Task<absl::Status> removing = files.names().Remove(user, dir, "other");
  all.push_back(co_await removing);
  for (const absl::Status& status : all) {
    if (!status.ok()) sweep->failures.push_back(status);
  }
  ++sweep->ended;
}

class FaultSweep : public FilesRecoveryTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ends, FaultSweep, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Restart" : "Cut"; });

// Shows DAFS-4.3.4-01: each modifying request executes and returns exactly once, wherever the
// connection breaks. Also DAFS-6.5.24-11: the Response Cache ensures this for GUARDED creation too.
// Also FAST03-3.2-09.
TEST_P(FaultSweep, EveryChangeExecutesExactlyOnceWhereverTheConnectionBreaks) {
  options_.max_requests = 4;
  server_.max_requests = server_.target_nreq = 4;
  constexpr int kFiles = 4;
  int fault = 1;
  for (bool untouched = false; !untouched; ++fault) {
    SCOPED_TRACE(absl::StrCat("operation ", fault, " of the transport fails"));
    ASSERT_LT(fault, 4000);
    server_.responses.clear();
    server_.opens.clear();
    server_.written.clear();
    server_.unstable.clear();
    server_.appended.clear();
    server_.executed.clear();
    server_.operations = 0;
    server_.break_at = fault;
    bool restarted = !GetParam();
    server_.script = [&](ScriptedConnection&, const Request&) {
      if (!restarted && server_.operations > server_.break_at) {
        // The first request after the break finds another instance.
        restarted = true;
        ++server_.instance;
        ++server_.write_verifier;
        server_.opens.clear();
        server_.unstable.clear();
      }
      return false;
    };
    MakeFiles();
    Sweep sweep;
    for (int i = 0; i < kFiles; ++i) Start(ChangeThings(*files_, user_, i, &sweep));
    ASSERT_TRUE(Until([&] { return sweep.ended == kFiles; }));
    Settle();
    untouched = server_.operations < fault;
    EXPECT_THAT(sweep.failures, ::testing::IsEmpty());
    for (Proc proc : {Proc::kLink, Proc::kRename, Proc::kRemove}) {
      EXPECT_EQ(server_.executed[proc], kFiles) << wire::Name(proc);
    }
    EXPECT_EQ(server_.executed[Proc::kAppendInline], kFiles);
    EXPECT_EQ(server_.opens.size(), 0u);
    EXPECT_EQ(client_->opens().size(), 0u);
    EXPECT_EQ(server_.unstable.size(), 0u);
    for (int i = 0; i < kFiles; ++i) {
      EXPECT_EQ(server_.written[absl::StrCat(i)].size(), i % 2 == 0 ? 500u : 20000u) << i;
      EXPECT_EQ(server_.appended[absl::StrCat(i)].size(), 300u) << i;
    }
    EXPECT_EQ(files_->buffers().counts().leased, 0u);
    EXPECT_EQ(files_->buffers().counts().quarantined, 0u);
    EXPECT_EQ(files_->Report().session.slots_taken, 0u);
    files_.reset();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(fault, 100);  // the sweep hit operations
}

// CommitSchedule sends this COMMIT.
TEST_F(FilesRecoveryTest, DelayableCommitIsSentBeforeTheNextRequest) {
  MakeFiles();
  absl::StatusOr<OpenFile> file = Open("file");
  ASSERT_OK(file);
  ASSERT_OK(Write(*file, 0, "data"));
  server_.log.clear();
  Start(files_->commits().CommitNow(file->handle));
  EXPECT_TRUE(server_.log.empty());
  ASSERT_OK(Await(files_->Null()));
  ASSERT_TRUE(Until([&] { return !files_->commits().NeedsCommit(file->handle); }));
  ASSERT_EQ(server_.log.size(), 2u);
  EXPECT_EQ(server_.log[0].proc, Proc::kCommit);
  EXPECT_EQ(server_.log[1].proc, Proc::kNull);
}

}  // namespace
}  // namespace dafs::client::testing
