// Which requests the client sends where the protocol leaves a choice: rights, reservations, inline
// data, stability of data. Spec: 4.2.1.1, 4.4.1.2, 6.5.2, 6.5.8, 6.5.38.
#include <cstring>
#include <utility>

#include "client/recovery/committer.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class RequestsTest : public ScriptedTest {
 protected:
  OpenFile Open() {
    OpenRequest request;
    request.name = "f";
    request.owner = "owner";
    request.share_access = wire::kShareBoth;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
    EXPECT_OK(file);
    return file.ok() ? *file : OpenFile();
  }
  void Write(const OpenFile& file, uint64_t offset, uint32_t size, wire::StableHow how) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kWriteSource, size);
    for (uint32_t i = 0; i < size; ++i) lease.payload()[i] = ScriptedByte(offset + i);
    absl::StatusOr<WriteResult> written =
        Await(files_->data().Write(user_, file.handle, file.state_id, offset, lease, 0, size, how));
    ASSERT_OK(written);
    EXPECT_EQ(written->count, size);
  }
  // Records the COMMITs. The default server answers them.
  void NoteCommits() {
    server_.script = [this](ScriptedConnection&, const Request& request) {
      if (request.header.procedure == Proc::kCommit) {
        commits_.push_back(request.Decode<wire::CommitArgs>());
      }
      return false;
    };
  }
  std::vector<wire::CommitArgs> commits_;
};

// Shows DAFS-6.5.2-03: the client does not cache the result of ACCESS. If an operation fails later,
// its error takes precedence.
TEST_F(RequestsTest, AccessResultsAreNotCached) {
  MakeFiles();
  wire::AccessRes says;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kOpen) {
      c.Refuse(request, DafsStatus::kAcces);
      return true;
    }
    if (request.header.procedure != Proc::kAccess) return false;
    c.Answer(request, says);
    return true;
  };
  const wire::FileHandle file;
  says = {wire::kAccessRead, wire::kAccessRead};
  EXPECT_EQ(*Await(files_->attributes().Access(user_, file, wire::kAccessRead)), wire::kAccessRead);
  OpenRequest request;
  request.name = "f";
  request.owner = "owner";
  const absl::Status refused = Await(files_->opens().Open(user_, request)).status();
  EXPECT_EQ(wire::DafsFromStatus(refused), DafsStatus::kAcces);
  says.access = 0;
  EXPECT_EQ(*Await(files_->attributes().Access(user_, file, wire::kAccessRead)), 0u);
  EXPECT_EQ(server_.Count(Proc::kAccess), 2);
}

// Shows DAFS-6.5.2-05: the mode permits everything to the owner of the file, and the server less.
TEST_F(RequestsTest, AccessDoesNotFollowFromTheMode) {
  MakeFiles();
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kAccess) {
      wire::AccessRes res;
      res.supported = wire::kAccessRead | wire::kAccessModify;
      res.access = wire::kAccessRead;
      c.Answer(request, res);
      return true;
    }
    if (request.header.procedure != Proc::kGetattrInline) return false;
    wire::GetattrInlineRes res;
    res.obj_attributes.set(wire::kFattrMode | wire::kFattrOwner);
    res.obj_attributes.mode = 0700;
    res.obj_attributes.owner = std::to_string(user_.uid);
    c.Answer(request, res);
    return true;
  };
  const wire::FileHandle file;
  const auto attributes = Await(files_->attributes().GetAttributes(user_, file));
  ASSERT_OK(attributes);
  const auto access =
      Await(files_->attributes().Access(user_, file, wire::kAccessRead | wire::kAccessModify));
  ASSERT_OK(access);
  EXPECT_EQ(*access, wire::kAccessRead);
  EXPECT_EQ(server_.Count(Proc::kAccess), 1);
}

// Shows DAFS-6.5.2-06: OPEN reports whether the user may use the file.
TEST_F(RequestsTest, OpenIsSentWithoutAccess) {
  MakeFiles();
  const OpenFile file = Open();
  Write(file, 0, 100, wire::StableHow::kUnstable);
  EXPECT_EQ(server_.Count(Proc::kOpen), 1);
  EXPECT_EQ(server_.Count(Proc::kAccess), 0);
}

// Shows DAFS-6.5.2-07, DAFS-3.1.1-01
TEST_F(RequestsTest, AccessUsesTheCredentialsOfTheCheckedUser) {
  MakeFiles();
  std::vector<Identity> registered;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kRegisterCred) {
      const auto args = request.Decode<wire::RegisterCredArgs>();
      Identity& one = registered.emplace_back();
      one.uid = static_cast<uint32_t>(args.uid);
      one.gid = static_cast<uint32_t>(args.gid);
      for (int32_t group : args.groups) one.groups.push_back(static_cast<uint32_t>(group));
    }
    return false;
  };
  const Identity other{1001, 101, {7, 8}};
  for (const Identity& user : {user_, other, user_}) {
    ASSERT_OK(Await(files_->attributes().Access(user, wire::FileHandle(), wire::kAccessRead)));
  }
  EXPECT_EQ(registered, (std::vector<Identity>{user_, other}));
  std::vector<wire::CredHandle> used;
  for (const ScriptedServer::Seen& seen : server_.log) {
    if (seen.proc == Proc::kAccess) used.push_back(seen.cred);
  }
  ASSERT_EQ(used.size(), 3u);
  EXPECT_FALSE(used[0].is_zero());
  EXPECT_FALSE(used[1].is_zero());
  EXPECT_NE(used[0], used[1]);
  EXPECT_EQ(used[0], used[2]);
}

// Shows DAFS-4.4.1.2-44: an open denies others only the accesses that the caller requested to deny.
TEST_F(RequestsTest, OpenDeniesNothingByDefault) {
  MakeFiles();
  std::vector<wire::OpenArgs> opens;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kOpen) {
      opens.push_back(request.Decode<wire::OpenArgs>());
    }
    return false;
  };
  const OpenFile file = Open();
  server_.Restart();
  Write(file, 0, 100, wire::StableHow::kFileSync);
  ASSERT_EQ(opens.size(), 2u);
  EXPECT_EQ(opens[1].claim_type, wire::OpenClaimType::kPrevious);
  for (const wire::OpenArgs& open : opens) {
    EXPECT_EQ(open.share_deny, wire::kShareDenyNone);
    EXPECT_EQ(open.delete_disp, wire::OpenDeleteDisp::kDontCare);
    EXPECT_EQ(open.share_key_type, wire::ShareKeyType::kNone);
  }
}

// Shows DAFS-4.2.1.1-02: also if the server supports padded data. Shows FAST03-3.1-05 for small
// requests.
TEST_F(RequestsTest, InlineDataFollowsTheHeaderWithoutPadding) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    const auto args = request.Decode<wire::ClientConnectAuthArgs>();
    wire::ClientConnectAuthRes res;
    res.session_id = wire::OpaqueFromUint64<wire::SessionId>(9);
    res.client_id = wire::OpaqueFromUint64<wire::ClientId>(7);
    res.max_request_size = args.max_request_size;
    res.max_response_size = args.max_response_size;
    res.max_requests = 16;
    res.max_credentials = 8;
    res.inline_write_header_size = 512;
    res.trusted = true;
    c.session_id = 9;
    c.connected_session = true;
    c.Answer(request, res);
    return true;
  };
  MakeFiles();
  const OpenFile file = Open();
  std::vector<std::byte> data;
  bool padded = true;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure != Proc::kWriteInline) return false;
    const auto args = request.Decode<wire::WriteInlineArgs>();
    padded = args.write_padded;
    const auto at = request.message.begin() + 136;
    data.assign(at, at + args.byte_count);
    return false;
  };
  Write(file, 10, 300, wire::StableHow::kFileSync);
  EXPECT_FALSE(padded);
  ASSERT_EQ(data.size(), 300u);
  for (uint32_t i = 0; i < 300; ++i) ASSERT_EQ(data[i], ScriptedByte(10 + i));
}

// Shows DAFS-6.5.8-08: the commit of fsync and close.
TEST_F(RequestsTest, OneCommitCoversTheWholeFile) {
  MakeFiles();
  const OpenFile file = Open();
  NoteCommits();
  Write(file, 0, 1000, wire::StableHow::kUnstable);
  Write(file, 5000, 1000, wire::StableHow::kUnstable);
  EXPECT_GT(client_->uncommitted().bytes(), 0u);
  ASSERT_OK(Await(files_->commits().Commit(user_, file.handle, 0, 0)));
  ASSERT_EQ(commits_.size(), 1u);
  EXPECT_EQ(commits_[0].offset, 0u);
  EXPECT_EQ(commits_[0].count, 0u);
  EXPECT_EQ(client_->uncommitted().bytes(), 0u);
  EXPECT_EQ(server_.written["f"].size(), 6000u);
  // Commit succeeds only after the verifiers match: lost data is rewritten and committed again.
  Write(file, 0, 1000, wire::StableHow::kUnstable);
  server_.unstable.clear();
  server_.written.clear();
  ++server_.write_verifier;
  ASSERT_OK(Await(files_->commits().Commit(user_, file.handle, 0, 0)));
  ASSERT_EQ(commits_.size(), 3u);
  for (const wire::CommitArgs& commit : commits_) {
    EXPECT_EQ(commit.offset, 0u);
    EXPECT_EQ(commit.count, 0u);
  }
  EXPECT_EQ(client_->uncommitted().bytes(), 0u);
  EXPECT_EQ(server_.written["f"].size(), 1000u);
}

// A program that never calls Commit need not do so: libdafs commits by itself, as a mount does.
TEST_F(RequestsTest, WrittenDataIsCommittedFiveSecondsAfterTheFirstWrite) {
  MakeFiles();
  const OpenFile file = Open();
  NoteCommits();
  const absl::Time start = Loop::Now();
  Write(file, 0, 1000, wire::StableHow::kUnstable);
  Write(file, 1000, 1000, wire::StableHow::kUnstable);
  ASSERT_TRUE(Until([&] { return !files_->commits().NeedsCommit(file.handle); }));
  EXPECT_GE(Loop::Now() - start, CommitSchedule::kCommitAfter - CommitSchedule::kTogether);
  EXPECT_EQ(commits_.size(), 1u);
  EXPECT_EQ(server_.written["f"].size(), 2000u);
}

// Otherwise a server without space would receive one COMMIT after the other.
TEST_F(RequestsTest, FailedCommitOfMuchDataIsNotRetriedAtOnce) {
  MakeFiles();
  const OpenFile file = Open();
  int refused = 0;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kCommit) return false;
    ++refused;
    c.Refuse(request, DafsStatus::kNoSpc);
    return true;
  };
  files_->context().committer.NeedCommit(file.handle, user_, CommitSchedule::kMostBytes + 1);
  ASSERT_TRUE(Until([&] { return refused > 0; }));
  const absl::Time end = Loop::Now() + absl::Milliseconds(100);
  while (Loop::Now() < end) loop_->RunOnce(absl::Milliseconds(5));
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(files_->commits().NeedsCommit(file.handle));
  server_.script = nullptr;
}

// A COMMIT of a range does not make data outside of it safe.
TEST_F(RequestsTest, CommitOfRangeCoversTheWholeFileIfItNeedsOne) {
  MakeFiles();
  const OpenFile file = Open();
  NoteCommits();
  files_->context().committer.NeedCommit(file.handle, user_, 100);
  ASSERT_OK(Await(files_->commits().Commit(user_, file.handle, 5000, 100)));
  ASSERT_OK(Await(files_->commits().Commit(user_, file.handle, 5000, 100)));
  ASSERT_EQ(commits_.size(), 2u);
  EXPECT_EQ(commits_[0].offset, 0u);
  EXPECT_EQ(commits_[0].count, 0u);
  EXPECT_EQ(commits_[1].offset, 5000u);
  EXPECT_EQ(commits_[1].count, 100u);
}

// Shows DAFS-6.5.38-10: whatever the server has reached short of FILE_SYNC.
TEST_F(RequestsTest, WritesThatAreNotWhollyStableAreCommitted) {
  MakeFiles();
  const OpenFile file = Open();
  NoteCommits();
  const auto note = server_.script;
  for (const wire::StableHow reached : {wire::StableHow::kUnstable, wire::StableHow::kDataSync}) {
    server_.script = [&](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != Proc::kWriteInline) return note(c, request);
      wire::WriteInlineRes res;
      res.count = request.Decode<wire::WriteInlineArgs>().byte_count;
      res.committed = reached;
      res.verifier = wire::OpaqueFromUint64<wire::Verifier>(server_.write_verifier);
      c.Answer(request, res);
      return true;
    };
    commits_.clear();
    Write(file, 0, 1000, wire::StableHow::kUnstable);
    EXPECT_TRUE(files_->commits().NeedsCommit(file.handle));
    EXPECT_TRUE(commits_.empty());
    ASSERT_OK(Await(files_->commits().Commit(user_, file.handle, 0, 0)));
    EXPECT_EQ(commits_.size(), 1u);
    EXPECT_FALSE(files_->commits().NeedsCommit(file.handle));
  }
  server_.script = nullptr;
}

// Shows DAFS-6.5.38-13: stable because the client requested it, or because the server chose it.
TEST_F(RequestsTest, StableWritesAreNotKept) {
  MakeFiles();
  const OpenFile file = Open();
  Write(file, 0, 1000, wire::StableHow::kFileSync);
  EXPECT_FALSE(client_->uncommitted().Holds(file.handle));
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kWriteInline) return false;
    wire::WriteInlineRes res;
    res.count = request.Decode<wire::WriteInlineArgs>().byte_count;
    res.committed = wire::StableHow::kFileSync;
    c.Answer(request, res);
    return true;
  };
  Write(file, 0, 1000, wire::StableHow::kUnstable);
  EXPECT_FALSE(client_->uncommitted().Holds(file.handle));
  server_.script = nullptr;
  Write(file, 0, 1000, wire::StableHow::kUnstable);
  EXPECT_TRUE(client_->uncommitted().Holds(file.handle));
}

}  // namespace
}  // namespace dafs::client::testing
