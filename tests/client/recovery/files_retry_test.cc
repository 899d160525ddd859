// How Files handles lost sessions, replies that require a retry, and forgotten credentials. A fault
// at each single point leaks, loses and repeats nothing.
#include <cstring>
#include <map>

#include "client/exchange/report.h"
#include "client/recovery/calls/operation_times.h"
#include "client/session/session_keeper.h"
#include "client/state/data/write_tracker.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::HasSubstr;
using wire::DafsStatus;
using wire::Proc;

class FilesRetryTest : public ScriptedTest {
 protected:
  // Breaks the connection at the first request of `proc`, which gets no reply.
  void LoseOnce(Proc proc, bool executed = false) {
    server_.script = [this, proc, executed, done = false](ScriptedConnection& c,
                                                          const Request& request) mutable {
      if (done || request.header.procedure != proc) return false;
      done = true;
      if (executed) server_.Serve(c, request);
      executed ? c.Close(absl::OkStatus()) : c.CloseAfterAnswers();
      return true;
    };
  }
  absl::StatusOr<Node> Lookup() { return Await(files_->names().Lookup(user_, dir_, "name")); }
  absl::StatusOr<Node> MakeDirectory() {
    return Await(
        files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes(), &after_));
  }
  wire::FileHandle dir_;
  Attributes after_;
};

TEST_F(FilesRetryTest, IdempotentOperationIsReissuedOnANewSession) {
  MakeFiles();
  LoseOnce(Proc::kLookup);
  absl::StatusOr<Node> node = Lookup();
  ASSERT_OK(node);
  EXPECT_EQ(server_.connections_made, 2);
  EXPECT_EQ(files_->Report().connects, 2u);
}

TEST_F(FilesRetryTest, RequestWithUnknownOutcomeFailsAndIsNotRepeated) {
  server_.keeps_responses = false;
  MakeFiles();
  LoseOnce(Proc::kCreate, true);
  absl::StatusOr<Node> node = MakeDirectory();
  EXPECT_EQ(node.status().code(), absl::StatusCode::kUnknown) << node.status();
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("CREATE"));
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  ASSERT_OK(Lookup());  // the mount continues
}

TEST_F(FilesRetryTest, UnsentRequestIsIssuedOnTheNextSession) {
  server_.refuse_connections = 3;
  MakeFiles();
  ASSERT_OK(MakeDirectory());
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

// Shows DAFS-4.3.4-04: only the rest of the chain is reissued, with explicit values.
TEST_F(FilesRetryTest, OnlyTheUnansweredRestOfAChainIsReissued) {
  MakeFiles();
  LoseOnce(Proc::kGetattrInline);
  absl::StatusOr<Node> node = MakeDirectory();
  ASSERT_OK(node);
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
  EXPECT_EQ(node->attributes.file_id, static_cast<uint64_t>('n'));
  // The GETATTRs of the new directory, whose handle is known now, and of its parent.
  const auto& of_new = server_.log[server_.log.size() - 2];
  EXPECT_EQ(of_new.proc, Proc::kGetattrInline);
  EXPECT_EQ(of_new.chain_flags, wire::kChfForw);
  EXPECT_EQ(server_.log.back().proc, Proc::kGetattrInline);
  EXPECT_EQ(server_.log.back().chain_flags, wire::kChfBack);
}

// Shows DAFS-7-04
TEST_F(FilesRetryTest, DelayAndGraceAreRetried) {
  MakeFiles();
  int refusals = 3;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kRename || refusals == 0) return false;
    c.Refuse(request, --refusals == 1 ? DafsStatus::kGrace : DafsStatus::kDelay);
    return true;
  };
  const absl::Time start = Loop::Now();
  ASSERT_OK(Await(files_->names().Rename(user_, dir_, "a", dir_, "b")));
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(10 + 20 + 40));  // ServerDelay
  EXPECT_EQ(server_.executed[Proc::kRename], 1);
  EXPECT_EQ(server_.Count(Proc::kRename), 4);
  const wire::CallTotals totals = files_->Report().totals;
  EXPECT_EQ(totals[Proc::kRename].calls(), 4u);
  EXPECT_EQ(totals[Proc::kRename].errors, 3u);
  EXPECT_EQ(totals[Proc::kRename].retries, 3u);
}

// An operation is numbered until its first wait; its requests belong to it with all retries.
TEST_F(FilesRetryTest, TheTimeOfAnOperationIsDivided) {
  MakeFiles();
  int refusals = 1;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kRename || refusals == 0) return false;
    --refusals;
    c.Refuse(request, DafsStatus::kDelay);
    return true;
  };
  OperationClock& clock = files_->operation_clock();
  clock.Begin(7);
  Task<absl::Status> renaming = files_->names().Rename(user_, dir_, "a", dir_, "b");
  const absl::Status renamed = Await(std::move(renaming));
  ASSERT_OK(renamed);
  clock.Began();
  const OperationTimes times = clock.End(7);
  EXPECT_GT(times.server, absl::ZeroDuration());
  EXPECT_GT(times.session, absl::ZeroDuration());  // the server asked to wait
  EXPECT_EQ(times.queue, absl::ZeroDuration());
  EXPECT_FALSE(times.slowest.empty());
  EXPECT_LE(times.slowest_took, times.server);
  ASSERT_OK(Await(files_->names().Rename(user_, dir_, "b", dir_, "a")));  // of no operation
  EXPECT_EQ(clock.End(7).server, absl::ZeroDuration());
}

TEST_F(FilesRetryTest, OtherErrorsAreReturned) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kRemove) return false;
    c.Refuse(request, DafsStatus::kFhExpired);
    return true;
  };
  absl::Status status = Await(files_->names().Remove(user_, dir_, "a"));
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kFhExpired);
  EXPECT_EQ(server_.Count(Proc::kRemove), 1);
}

TEST_F(FilesRetryTest, MissingProcedureReturnsUnimplemented) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLink) return false;
    c.Refuse(request, DafsStatus::kNotSupp);
    return true;
  };
  absl::Status status = Await(files_->names().Link(user_, dir_, dir_, "a")).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kNotSupp);
}

TEST_F(FilesRetryTest, MissingPrivateProceduresAreReported) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (static_cast<uint32_t>(request.header.procedure) < 1005) return false;
    c.Refuse(request, DafsStatus::kNotSupp);
    return true;
  };
  absl::Status allocated =
      Await(files_->ranges().Allocate(user_, dir_, {}, wire::AllocateMode::kAllocate, 0, 1));
  EXPECT_TRUE(absl::IsUnimplemented(allocated)) << allocated;
  absl::Status sought =
      Await(files_->ranges().Seek(user_, dir_, {}, wire::SeekWhat::kData, 0)).status();
  EXPECT_TRUE(absl::IsUnimplemented(sought)) << sought;
  absl::Status copied =
      Await(files_->ranges().CopyRange(user_, dir_, {}, 0, dir_, {}, 0, 1)).status();
  EXPECT_TRUE(absl::IsUnimplemented(copied)) << copied;
}

TEST_F(FilesRetryTest, CopyResultBeyondTheRequestIsAnError) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCopyRange) return false;
    wire::CopyRangeRes res;
    res.count = 101;
    c.Answer(request, res, DafsStatus::kOk, {});
    return true;
  };
  absl::StatusOr<CopyResult> copied =
      Await(files_->ranges().CopyRange(user_, dir_, {}, 0, dir_, {}, 0, 100));
  EXPECT_TRUE(absl::IsUnknown(copied.status())) << copied.status();
}

// The client repeats a copy that the server lost before its COMMIT.
TEST_F(FilesRetryTest, CopyLostByTheServerIsRepeated) {
  MakeFiles();
  int copies = 0;
  int losses = 2;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kCommit && losses > 0) {
      --losses;
      ++server_.write_verifier;
      return false;
    }
    if (request.header.procedure != Proc::kCopyRange) return false;
    ++copies;
    wire::CopyRangeRes res;
    res.count = 100;
    res.verifier = wire::OpaqueFromUint64<wire::Verifier>(server_.write_verifier);
    c.Answer(request, res, DafsStatus::kOk, {});
    return true;
  };
  absl::StatusOr<CopyResult> copied =
      Await(files_->ranges().CopyRange(user_, dir_, {}, 0, dir_, {}, 0, 100));
  ASSERT_OK(copied);
  EXPECT_EQ(copied->count, 100u);
  EXPECT_EQ(copies, 3);
  losses = 1'000'000;
  copied = Await(files_->ranges().CopyRange(user_, dir_, {}, 0, dir_, {}, 0, 100));
  EXPECT_TRUE(absl::IsUnknown(copied.status())) << copied.status();
  EXPECT_LE(copies, 1000) << "the client retries without limit while the server loses the copy";
}

TEST_F(FilesRetryTest, WithoutOpenHandleItIsTriedOnceAndNoStateIsReturned) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpenHandle) return false;
    c.Refuse(request, DafsStatus::kNotSupp);
    return true;
  };
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<OpenFile> file =
        Await(files_->opens().OpenByHandle(user_, dir_, wire::kShareRead, "owner"));
    ASSERT_OK(file);
    EXPECT_TRUE(file->state_id.is_zero());
    ASSERT_OK(Await(files_->opens().Close(file->state_id)));
  }
  EXPECT_EQ(server_.Count(Proc::kOpenHandle), 1);
  EXPECT_EQ(server_.Count(Proc::kClose), 0);
}

TEST_F(FilesRetryTest, WithoutPosixProceduresTheStandardOnesAreUsed) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    switch (request.header.procedure) {
      case Proc::kMakeNode:
      case Proc::kOpenExecute:
      case Proc::kOpenHandle:
      case Proc::kRename2:
        c.Refuse(request, DafsStatus::kNotSupp);
        return true;
      default:
        return false;
    }
  };
  for (int i = 1; i <= 2; ++i) {
    absl::StatusOr<Node> fifo = Await(files_->names().MakeNode(
        user_, dir_, "fifo", wire::ObjectType::kFifo, wire::SpecData(), 0666));
    ASSERT_OK(fifo);
    EXPECT_EQ(server_.Count(Proc::kCreate), i);
    EXPECT_EQ(server_.Count(Proc::kSetattrInline), i);
    absl::StatusOr<OpenFile> file = Await(files_->opens().OpenForExecution(user_, dir_, "owner"));
    ASSERT_OK(file);
    EXPECT_TRUE(file->state_id.is_zero());
    absl::Status renamed =
        Await(files_->names().Rename2(user_, dir_, "a", dir_, "b", wire::kRenameNoReplace));
    EXPECT_TRUE(absl::IsUnimplemented(renamed)) << renamed;
  }
  EXPECT_EQ(server_.Count(Proc::kMakeNode), 1);
  EXPECT_EQ(server_.Count(Proc::kOpenExecute), 1);
  EXPECT_EQ(server_.Count(Proc::kOpenHandle), 1);
}

TEST_F(FilesRetryTest, OpenWhoseGetattrFailsIsClosed) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kGetattrInline) return false;
    c.Refuse(request, DafsStatus::kIo);
    return true;
  };
  OpenRequest request;
  request.name = "file";
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
  EXPECT_EQ(wire::DafsFromStatus(file.status()), DafsStatus::kIo);
  EXPECT_EQ(server_.executed[Proc::kClose], 1);
}

// ---- Credentials -----------------------------------------------------------------------------

TEST_F(FilesRetryTest, ForgottenCredentialIsReregistered) {
  MakeFiles();
  ASSERT_OK(Lookup());
  EXPECT_EQ(server_.credentials, 1u);
  bool forgotten = true;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kGetattrInline && forgotten) {
      c.Refuse(request, DafsStatus::kChainBroken);
      return true;
    }
    if (request.header.procedure != Proc::kLookup || !forgotten) {
      if (request.header.procedure == Proc::kRegisterCred) forgotten = false;
      return false;
    }
    c.Refuse(request, DafsStatus::kNoCreds);
    return true;
  };
  ASSERT_OK(Lookup());
  EXPECT_EQ(server_.credentials, 2u);
}

Task<void> LookupAs(Files& files, Identity user, const wire::FileHandle& dir, int* good) {
  Task<absl::StatusOr<Node>> task = files.names().Lookup(user, dir, "name");
  absl::StatusOr<Node> node = co_await task;
  *good += node.ok() ? 1 : 0;
}

TEST_F(FilesRetryTest, IdentityIsRegisteredOnceForParallelRequests) {
  MakeFiles();
  int good = 0;
  for (int i = 0; i < 20; ++i) Start(LookupAs(*files_, user_, dir_, &good));
  ASSERT_TRUE(Until([&] { return good == 20; }));
  EXPECT_EQ(server_.credentials, 1u);
}

// Shows DAFS-3.1.2.2-02.
TEST_F(FilesRetryTest, NoMoreCredentialsThanNegotiatedAreRegistered) {
  options_.max_credentials = 3;
  MakeFiles();
  for (uint32_t uid = 0; uid < 10; ++uid) {
    Identity user{uid, uid, {}};
    ASSERT_OK(Await(files_->names().Lookup(user, dir_, "name")));
  }
  EXPECT_EQ(server_.credentials, 10u);
  EXPECT_EQ(server_.released, 7u);
  EXPECT_EQ(client_->credentials().size(), 3u);
}

// Shows DAFS-3.1.1.1.2-03 (the client), DAFS-3.1.1.1.2-04.
TEST_F(FilesRetryTest, UntrustedClientRegistersNoCredentials) {
  server_.trusted = false;
  MakeFiles();
  ASSERT_OK(Lookup());
  EXPECT_EQ(server_.Count(Proc::kRegisterCred), 0);
  for (const auto& seen : server_.log) EXPECT_TRUE(seen.cred.is_zero());
}

// ---- Checksums -------------------------------------------------------------------------------

// Shows DAFS-3.2.5-02, DAFS-3.2.5-05.
TEST_F(FilesRetryTest, DamagedDataIsReadAgainAndThenReported) {
  options_.checksums = true;
  MakeFiles();
  for (int damaged : {2, 100}) {
    int left = damaged;
    server_.script = [&](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != Proc::kReadDirect || left-- <= 0) return false;
      auto args = request.Decode<wire::ReadDirectArgs>();
      std::vector<std::byte> data(args.byte_count, std::byte{1});
      c.RdmaWrite(args.read_data_buffers[0], data);
      wire::ReadDirectRes res;
      res.bytes_read = args.byte_count;
      res.direct_checksum = {1, 2};
      c.Answer(request, res);
      return true;
    };
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 8192);
    absl::StatusOr<ReadResult> read =
        Await(files_->data().Read(user_, dir_, wire::StateId(), 5, lease, 8192));
    if (damaged == 2) {
      ASSERT_OK(read);
      EXPECT_EQ(lease.payload()[100], ScriptedByte(105));
    } else {
      EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    }
  }
}

TEST_F(FilesRetryTest, RequestThatArrivedDamagedIsResent) {
  options_.checksums = true;
  MakeFiles();
  int refusals = 2;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCreate || refusals-- <= 0) return false;
    c.Refuse(request, DafsStatus::kChksum);
    return true;
  };
  // The server breaks the chain for the members after it.
  absl::StatusOr<Node> node = MakeDirectory();
  ASSERT_OK(node);
  EXPECT_EQ(server_.executed[Proc::kCreate], 1);
}

// ---- Data ------------------------------------------------------------------------------------

Task<void> ReadAt(Files& files, const Identity& user, const wire::FileHandle& file,
                  BufferLease* target, uint32_t size, absl::StatusOr<ReadResult>* read,
                  bool* done) {
  const wire::StateId none;
  Task<absl::StatusOr<ReadResult>> task = files.data().Read(user, file, none, 12345, *target, size);
  *read = co_await task;
  *done = true;
}

// Shows DAFS-6.1.6-11, and FAST03-3.1-05 for bulk data.
TEST_F(FilesRetryTest, TransfersBeyondTheServerMaximumAreSplitInParallel) {
  MakeFiles();
  ASSERT_OK(Lookup());
  client_->limits().max_read = client_->limits().max_write = 100000;
  const uint32_t size = 1000000;
  BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, size);
  server_.hold = true;
  absl::StatusOr<ReadResult> read = absl::UnknownError("not read");
  bool done = false;
  Start(ReadAt(*files_, user_, dir_, &target, size, &read, &done));
  Settle();
  EXPECT_EQ(server_.only().held.size(), 10u);
  for (const Request& request : server_.only().held) {
    EXPECT_EQ(request.Decode<wire::ReadDirectArgs>().byte_count, 100000u);
  }
  server_.hold = false;
  server_.ServeHeld(server_.only());
  ASSERT_TRUE(Until([&] { return done; }));
  ASSERT_OK(read);
  EXPECT_EQ(read->count, size);
  for (uint32_t i : {0u, 99999u, 100000u, 999999u}) {
    EXPECT_EQ(target.payload()[i], ScriptedByte(12345 + i)) << i;
  }
  EXPECT_EQ(server_.Count(Proc::kReadDirect), 10);
  server_.script = [](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kWriteDirect) {
      EXPECT_EQ(request.Decode<wire::WriteDirectArgs>().byte_count, 100000u);
    }
    return false;
  };
  BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, size);
  absl::StatusOr<WriteResult> written = Await(files_->data().Write(
      user_, dir_, wire::StateId(), 0, source, 0, size, wire::StableHow::kUnstable));
  ASSERT_OK(written);
  EXPECT_EQ(written->count, size);
  EXPECT_EQ(server_.Count(Proc::kWriteDirect), 10);
}

TEST_F(FilesRetryTest, ShortReadsAreContinuedUntilTheEndOfTheFile) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kReadDirect) return false;
    auto args = request.Decode<wire::ReadDirectArgs>();
    const uint64_t file_size = 20000;
    wire::ReadDirectRes res;
    res.bytes_read = static_cast<uint32_t>(std::min<uint64_t>(3000, file_size - args.offset));
    std::vector<std::byte> data(res.bytes_read);
    for (size_t i = 0; i < data.size(); ++i) data[i] = ScriptedByte(args.offset + i);
    c.RdmaWrite(args.read_data_buffers[0], data);
    res.eof = args.offset + res.bytes_read == file_size;
    c.Answer(request, res);
    return true;
  };
  BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 65536);
  absl::StatusOr<ReadResult> read =
      Await(files_->data().Read(user_, dir_, wire::StateId(), 0, lease, 65536));
  ASSERT_OK(read);
  EXPECT_EQ(read->count, 20000u);
  EXPECT_TRUE(read->eof);
  EXPECT_EQ(lease.payload()[19999], ScriptedByte(19999));
}

// Shows DAFS-6.5.38-04.
TEST_F(FilesRetryTest, ShortWritesAreContinuedAndALaterErrorIsReported) {
  MakeFiles();
  for (bool fails : {false, true}) {
    server_.script = [&](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != Proc::kWriteDirect) return false;
      auto args = request.Decode<wire::WriteDirectArgs>();
      if (fails && args.offset >= 14000) {
        c.Refuse(request, DafsStatus::kNoSpc);
        return true;
      }
      wire::WriteDirectRes res;
      res.count = std::min(args.byte_count, 7000u);
      c.Answer(request, res);
      return true;
    };
    BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, 40000);
    absl::StatusOr<WriteResult> written = Await(files_->data().Write(
        user_, dir_, wire::StateId(), 0, source, 0, 40000, wire::StableHow::kUnstable));
    ASSERT_OK(written);
    EXPECT_EQ(written->count, fails ? 14000u : 40000u);
    EXPECT_EQ(wire::DafsFromStatus(written->later), fails ? DafsStatus::kNoSpc : DafsStatus::kOk);
  }
}

TEST_F(FilesRetryTest, WriteAcrossARestartReportsTheChangedVerifier) {
  MakeFiles();
  ASSERT_OK(Lookup());
  client_->limits().max_write = 50000;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kWriteDirect && server_.Count(Proc::kWriteDirect) == 2) {
      server_.write_verifier = 2;
    }
    return false;
  };
  BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, 150000);
  absl::StatusOr<WriteResult> written = Await(files_->data().Write(
      user_, dir_, wire::StateId(), 0, source, 0, 150000, wire::StableHow::kUnstable));
  ASSERT_OK(written);
  EXPECT_TRUE(written->verifier_changed);
}

TEST_F(FilesRetryTest, WritesAreInlineIfTheRdmaReadChannelIsUnusable) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kWriteDirect) return false;
    c.Refuse(request, DafsStatus::kRdmaReadChannelUnusable);
    return true;
  };
  BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, 50000);
  absl::StatusOr<WriteResult> written = Await(files_->data().Write(
      user_, dir_, wire::StateId(), 0, source, 0, 50000, wire::StableHow::kUnstable));
  ASSERT_OK(written);
  EXPECT_EQ(written->count, 50000u);
  EXPECT_EQ(server_.Count(Proc::kWriteInline), 4);
}

// ---- The end ---------------------------------------------------------------------------------

TEST_F(FilesRetryTest, SoftCallEndsInTimeAndItsBufferIsQuarantined) {
  options_.soft = true;
  options_.timeout = absl::Seconds(1);  // the first call connects within it
  MakeFiles();
  ASSERT_OK(Lookup());
  server_.hold = true;
  BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 65536);
  absl::StatusOr<ReadResult> read =
      Await(files_->data().Read(user_, dir_, wire::StateId(), 0, lease, 65536));
  EXPECT_TRUE(absl::IsDeadlineExceeded(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("READ_DIRECT"));
  lease.Release();
  EXPECT_EQ(files_->buffers().counts().quarantined, 1u);
  files_->Shutdown();
  EXPECT_EQ(files_->buffers().counts().quarantined, 0u);
}

Task<void> ReadWithLease(Files& files, const Identity& user, const wire::FileHandle& file,
                         std::vector<absl::Status>* results) {
  absl::StatusOr<BufferLease> lease =
      co_await files.buffers().Acquire(BufferUse::kReadTarget, 1u << 20);
  if (!lease.ok()) {
    results->push_back(lease.status());
    co_return;
  }
  const wire::StateId none;
  Task<absl::StatusOr<ReadResult>> task = files.data().Read(user, file, none, 0, *lease, 1u << 20);
  absl::StatusOr<ReadResult> read = co_await task;
  results->push_back(read.status());
}

TEST_F(FilesRetryTest, ShutdownEndsAllCallsBeforeItReturns) {
  for (bool connected : {true, false}) {
    files_.reset();
    MakeFiles();
    if (connected) {
      ASSERT_OK(Lookup());
      server_.hold = true;
    } else {
      server_.refuse_connections = 1000000;
    }
    std::vector<absl::Status> results;
    for (int i = 0; i < 40; ++i) Start(ReadWithLease(*files_, user_, dir_, &results));
    Settle();
    EXPECT_EQ(results.size(), 0u);
    files_->Shutdown();
    ASSERT_EQ(results.size(), 40u);
    for (const absl::Status& status : results) EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(files_->buffers().counts().leased, 0u);
    EXPECT_EQ(files_->buffers().counts().quarantined, 0u);
    server_.hold = false;
  }
}

// ---- Faults at every point -------------------------------------------------------------------

struct Outcome {
  int ended = 0;
  int unknown = 0;
  int failed = 0;
};

void Count(const absl::Status& status, Outcome* outcome) {
  ++outcome->ended;
  if (absl::IsUnknown(status)) {
    ++outcome->unknown;
  } else if (!status.ok()) {
    ++outcome->failed;
    ADD_FAILURE() << status;
  }
}

Task<void> Work(Files& files, const Identity& user, int kind, Outcome* outcome) {
  const wire::FileHandle dir;
  const wire::StateId none;
  if (kind == 0) {
    wire::FileAttributes attributes;
    Task<absl::StatusOr<Node>> task = files.names().MakeDirectory(user, dir, "made", attributes);
    absl::StatusOr<Node> node = co_await task;
    Count(node.status(), outcome);
  } else if (kind == 1) {
    absl::StatusOr<BufferLease> lease =
        co_await files.buffers().Acquire(BufferUse::kReadTarget, 1u << 20);
    Task<absl::StatusOr<ReadResult>> task = files.data().Read(user, dir, none, 0, *lease, 1u << 20);
    absl::StatusOr<ReadResult> read = co_await task;
    Count(read.status(), outcome);
    if (read.ok()) {
      EXPECT_EQ(lease->payload()[77777], ScriptedByte(77777));
    }
  } else if (kind == 2) {
    absl::StatusOr<BufferLease> lease =
        co_await files.buffers().Acquire(BufferUse::kWriteSource, 1u << 20);
    Task<absl::StatusOr<WriteResult>> task =
        files.data().Write(user, dir, none, 0, *lease, 0, 300000, wire::StableHow::kUnstable);
    absl::StatusOr<WriteResult> written = co_await task;
    Count(written.status(), outcome);
  } else {
    Task<absl::StatusOr<Node>> task = files.names().Lookup(user, dir, "name");
    absl::StatusOr<Node> node = co_await task;
    Count(node.status(), outcome);
  }
}

// Shows DAFS-4.3.4-01. Each operation succeeds exactly once, CREATE executes once, and all slots
// and buffers are returned.
TEST_F(FilesRetryTest, FaultAtAnyPointLeaksLosesAndRepeatsNothing) {
  options_.max_requests = 4;
  server_.max_requests = server_.target_nreq = 4;
  constexpr int kOperations = 12;
  int fault = 1;
  for (bool untouched = false; !untouched; ++fault) {
    SCOPED_TRACE(absl::StrCat("operation ", fault, " of the transport fails"));
    ASSERT_LT(fault, 2000);
    server_.responses.clear();
    server_.operations = 0;
    server_.break_at = fault;
    server_.executed.clear();
    MakeFiles();
    Outcome outcome;
    for (int i = 0; i < kOperations; ++i) Start(Work(*files_, user_, i % 4, &outcome));
    ASSERT_TRUE(Until([&] { return outcome.ended == kOperations; }));
    Settle();
    untouched = server_.operations < fault;
    EXPECT_EQ(outcome.failed, 0);
    EXPECT_EQ(outcome.unknown, 0);
    EXPECT_EQ(server_.executed[Proc::kCreate], kOperations / 4);
    EXPECT_EQ(files_->buffers().counts().leased, 0u);
    EXPECT_EQ(files_->buffers().counts().quarantined, 0u);
    EXPECT_EQ(files_->Report().session.slots_taken, 0u);
    EXPECT_LE(server_.connections_made, 3);
    server_.connections_made = 0;
    files_.reset();
    EXPECT_EQ(server_.connections.size(), 0u);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(fault, 50);  // the sweep hit operations
}

}  // namespace
}  // namespace dafs::client::testing
