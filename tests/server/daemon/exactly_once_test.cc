// The real dafsd, killed at every step of every procedure: the response cache of the next one has
// the request exactly if it is in the file system, and issuing what it has not got completes it.
// Shows DAFS-5.2.4-01, DAFS-5.2.4-02, DAFS-5.2.4-03, DAFS-5.2.4-04, FAST03-3.2-08.
#include <fcntl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <functional>

#include "server/store/system/fd.h"
#include "tests/server/daemon/dafsd_process.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

using wire::Proc;

constexpr const char* kSteps[] = {"before", "intent", "called", "marked", "recorded", "replied"};
enum Step : size_t { kBefore, kIntent, kCalled, kMarked, kRecorded, kReplied };

class ExactlyOnce : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    mkdir(Path("a/sub").c_str(), 0777);
    WriteFile("a/f", "0123456789");
    WriteFile("a/g", "gg");
  }
  void TearDown() override {
    client_.reset();
    dafsd_.reset();
    ServerTest::TearDown();
  }

  void StartDafsd(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--export",    "/a=" + Path("a") + ",no_root_squash",
                                          "--listen",    "tcp:127.0.0.1:0",
                                          "--state-dir", Path("state"),
                                          "--threads",   "1"};
    arguments.insert(arguments.end(), extra_.begin(), extra_.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    dafsd_.reset();
    dafsd_ = std::make_unique<DafsdProcess>(DAFSD, arguments);
    ASSERT_NE(dafsd_->port(), 0) << dafsd_->log();
    auto addresses = dat::ResolveHost("127.0.0.1", dafsd_->port());
    ASSERT_TRUE(addresses.ok());
    address_ = addresses->front();
  }

  // A session with a response cache, as root.
  void Connect() {
    if (HasFatalFailure()) return;
    client_ = RawClient::Connect(*provider_, address_);
    ASSERT_NE(client_, nullptr);
    wire::ClientConnectAuthArgs args = ConnectArgs("c1");
    args.use_response_cache = true;
    auto reply = client_->Call(args);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    ASSERT_TRUE(reply.res.use_response_cache);
    last_session_ = std::exchange(session_, reply.res.session_id);
    client_order_ = client_->order;
    ActAsRoot(*client_);
    a_ = LookUp(*client_, {"a"});
  }

  // Starts a dafsd that dies at `step` of the next `procedure`, and connects.
  void StartDoomed(Proc procedure, const std::string& step) {
    StartDafsd({"--kill-at", std::string(wire::Name(procedure)) + ":" + step});
    Connect();
  }

  // Sends a request and sees the server die over it.
  template <class Args>
  void SendAndDie(const Args& args, std::span<const std::byte> data = {}) {
    const wire::RequestHeader header = client_->Header(5);
    seq_ = header.seq_number;
    ASSERT_TRUE(client_->Send(client_->Encode(header, args, data)));
    ASSERT_EQ(dafsd_->AwaitEnd(), SIGKILL);
    client_->Vanish();
  }
  void Restart() {
    StartDafsd();
    Connect();
  }

  std::string Check(Proc procedure) {
    wire::CheckResponseArgs args;
    args.session_id = last_session_;
    args.xid_stream = 5;
    args.xid_seq = seq_;
    args.procedure = static_cast<uint32_t>(procedure);
    return client_->Call(args).name();
  }
  // The stored response, decoded as what it is.
  template <class Args>
  wire::ResOf<Args> Fetch() {
    wire::FetchResponseArgs args;
    args.session_id = last_session_;
    args.xid_stream = 5;
    args.xid_seq = seq_;
    args.procedure = static_cast<uint32_t>(Args::kProc);
    EXPECT_TRUE(client_->SendRequest(args));
    auto reply = client_->ReceiveReply<Args>();
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res;
  }

  wire::FileHandle AttributesOf(const std::string& name) {
    wire::OpenattrArgs args;
    args.filehandle = LookUp(*client_, {"a", name});
    auto reply = client_->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res.filehandle;
  }

  bool Exists(const std::string& name) const {
    struct stat st;
    return lstat(Path("a/" + name).c_str(), &st) == 0;
  }

  // The whole story of one request at one step. `executed`: whether the file system has it.
  // `first_known`: the step from which on the outcome is that it was executed.
  template <class Args>
  void Story(size_t step, const std::function<Args()>& make, const std::function<bool()>& executed,
             std::span<const std::byte> data = {}, size_t first_known = kCalled) {
    SCOPED_TRACE(std::string(wire::Name(Args::kProc)) + " killed at " + kSteps[step]);
    StartDoomed(Args::kProc, kSteps[step]);
    if (HasFatalFailure()) return;
    SendAndDie(make(), data);
    if (HasFatalFailure()) return;
    Restart();
    if (HasFatalFailure()) return;
    const std::string found = Check(Args::kProc);
    EXPECT_EQ(found, step >= first_known ? "DAFS_STATUS_OK" : "DAFSERR_NOXID_MATCH");
    EXPECT_EQ(executed(), step >= first_known);
    if (found == "DAFS_STATUS_OK") return;
    EXPECT_EQ(client_->Call(make(), data).name(), "DAFS_STATUS_OK");
    EXPECT_TRUE(executed());
  }

  std::vector<std::string> extra_;
  std::unique_ptr<DafsdProcess> dafsd_;
  dat::Address address_;
  std::unique_ptr<RawClient> client_;
  wire::ByteOrder client_order_{};
  wire::SessionId session_, last_session_;
  wire::FileHandle a_;
  uint16_t seq_ = 0;
};

class ExactlyOnceAtEachStep : public ExactlyOnce, public testing::WithParamInterface<size_t> {
 protected:
  size_t step() const { return GetParam(); }
};

// An open whose OPEN or CLOSE was under way is reclaimed by its client, or not. Neither makes the
// server believe that it has all of them: what conflicts with the others waits.
class OpensAreExpectedAtEachStep : public ExactlyOnceAtEachStep {
 protected:
  wire::OpenHandleRes OpenByHandle(const std::string& name) {
    wire::OpenHandleArgs args;
    args.filehandle = LookUp(*client_, {"a", name});
    args.share_access = wire::kShareRead;
    auto reply = client_->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    return reply.res;
  }
  void Reclaim(const wire::FileHandle& file) {
    wire::OpenArgs args;
    args.claim_type = wire::OpenClaimType::kPrevious;
    args.filehandle = file;
    args.share_access = wire::kShareRead;
    EXPECT_EQ(client_->Call(args).name(), "DAFS_STATUS_OK");
  }
  void ExpectThatConflictsWait() {
    auto other = RawClient::Connect(*provider_, address_);
    ASSERT_NE(other, nullptr);
    ASSERT_EQ(other->Call(ConnectArgs("c2")).name(), "DAFS_STATUS_OK");
    ActAsRoot(*other);
    wire::OpenArgs args = OpenArgs(a_, "g", false);
    args.share_deny = wire::kShareBoth;
    EXPECT_EQ(other->Call(args).name(), "DAFSERR_GRACE");
  }
};

INSTANTIATE_TEST_SUITE_P(Steps, OpensAreExpectedAtEachStep,
                         testing::Range(size_t{kBefore}, kReplied + size_t{1}));

TEST_P(OpensAreExpectedAtEachStep, OfAnOpenThatCreates) {
  StartDoomed(Proc::kOpen, kSteps[step()]);
  if (HasFatalFailure()) return;
  OpenByHandle("g");
  SendAndDie(OpenArgs(a_, "new", true));
  Restart();
  if (HasFatalFailure()) return;
  if (Check(Proc::kOpen) == "DAFS_STATUS_OK") Reclaim(Fetch<wire::OpenArgs>().filehandle);
  ExpectThatConflictsWait();
}

// All that was counted is reclaimed, and the open that its client has yet to hear of still keeps
// the file.
TEST_P(OpensAreExpectedAtEachStep, OfAFileThatIsRemovedBeforeTheAnswerIsFetched) {
  StartDoomed(Proc::kOpen, kSteps[step()]);
  if (HasFatalFailure()) return;
  const wire::FileHandle g = OpenByHandle("g").filehandle;
  SendAndDie(OpenArgs(a_, "new", true));
  Restart();
  if (HasFatalFailure() || !Exists("new")) return;
  Reclaim(g);
  wire::RemoveArgs remove;
  remove.filehandle = a_;
  remove.target = "new";
  EXPECT_EQ(client_->Call(remove).name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(Exists("new"));
  ASSERT_EQ(Check(Proc::kOpen), "DAFS_STATUS_OK");
  const wire::FileHandle file = Fetch<wire::OpenArgs>().filehandle;
  Reclaim(file);
  wire::GetattrInlineArgs look;
  look.filehandle = file;
  EXPECT_EQ(client_->Call(look).name(), "DAFS_STATUS_OK");
}

TEST_P(OpensAreExpectedAtEachStep, OfAClose) {
  StartDoomed(Proc::kClose, kSteps[step()]);
  if (HasFatalFailure()) return;
  OpenByHandle("g");
  const wire::OpenHandleRes f = OpenByHandle("f");
  wire::CloseArgs close;
  close.filehandle = f.filehandle;
  close.state_id = f.state_id;
  SendAndDie(close);
  Restart();
  if (HasFatalFailure()) return;
  Reclaim(f.filehandle);
  ExpectThatConflictsWait();
}

TEST_P(ExactlyOnceAtEachStep, CreateOfADirectory) {
  auto make = [&] {
    wire::CreateArgs args;
    args.filehandle = a_;
    args.obj_type = wire::ObjectType::kDir;
    args.component = "d";
    return args;
  };
  Story<wire::CreateArgs>(step(), make, [&] { return Exists("d"); });
  if (step() < kCalled) return;
  const auto res = Fetch<wire::CreateArgs>();
  EXPECT_EQ(res.filehandle, LookUp(*client_, {"a", "d"}));
  EXPECT_NE(res.change_info.before, res.change_info.after);
}

// Its attributes are set by a second call: what is found without them is taken back.
TEST_P(ExactlyOnceAtEachStep, CreateOfADirectoryWithAnOwner) {
  auto make = [&] {
    wire::CreateArgs args;
    args.filehandle = a_;
    args.obj_type = wire::ObjectType::kDir;
    args.component = "d";
    args.attr.set(wire::kFattrOwner);
    args.attr.owner = "1234";
    return args;
  };
  auto owned = [&] {
    struct stat st;
    return stat(Path("a/d").c_str(), &st) == 0 && st.st_uid == 1234;
  };
  Story<wire::CreateArgs>(step(), make, owned, {}, kMarked);
}

TEST_P(ExactlyOnceAtEachStep, CreateOfASymbolicLink) {
  auto make = [&] {
    wire::CreateArgs args;
    args.filehandle = a_;
    args.obj_type = wire::ObjectType::kLnk;
    args.component = "l";
    args.linkdata = "nowhere";
    return args;
  };
  Story<wire::CreateArgs>(step(), make, [&] { return Exists("l"); });
}

TEST_P(ExactlyOnceAtEachStep, Link) {
  auto make = [&] {
    wire::LinkArgs args;
    args.destination_object = a_;
    args.source_object = LookUp(*client_, {"a", "f"});
    args.newname = "f2";
    return args;
  };
  Story<wire::LinkArgs>(step(), make, [&] { return Exists("f2"); });
}

TEST_P(ExactlyOnceAtEachStep, Remove) {
  auto make = [&] {
    wire::RemoveArgs args;
    args.filehandle = a_;
    args.target = "f";
    return args;
  };
  Story<wire::RemoveArgs>(step(), make, [&] { return !Exists("f"); });
  if (step() < kCalled) return;
  const auto res = Fetch<wire::RemoveArgs>();
  EXPECT_NE(res.change_info.before, res.change_info.after);
}

TEST_P(ExactlyOnceAtEachStep, Rename) {
  auto make = [&] {
    wire::RenameArgs args;
    args.sourcedir = a_;
    args.oldname = "f";
    args.targetdir = LookUp(*client_, {"a", "sub"});
    args.newname = "f2";
    return args;
  };
  Story<wire::RenameArgs>(step(), make, [&] { return !Exists("f") && Exists("sub/f2"); });
}

TEST_P(ExactlyOnceAtEachStep, RenameOverAnotherFile) {
  auto make = [&] {
    wire::RenameArgs args;
    args.sourcedir = args.targetdir = a_;
    args.oldname = "f";
    args.newname = "g";
    return args;
  };
  Story<wire::RenameArgs>(step(), make,
                          [&] { return !Exists("f") && ReadFile("a/g") == "0123456789"; });
}

// The private procedures of names do as RENAME and CREATE.
TEST_P(ExactlyOnceAtEachStep, RenameThatMustNotReplace) {
  auto make = [&] {
    wire::Rename2Args args;
    args.sourcedir = a_;
    args.oldname = "f";
    args.targetdir = LookUp(*client_, {"a", "sub"});
    args.newname = "f2";
    args.flags = wire::kRenameNoReplace;
    return args;
  };
  Story<wire::Rename2Args>(step(), make, [&] { return !Exists("f") && Exists("sub/f2"); });
  if (step() < kCalled) return;
  const auto res = Fetch<wire::Rename2Args>();
  EXPECT_NE(res.target.before, res.target.after);
}

// Made twice it would be undone.
TEST_P(ExactlyOnceAtEachStep, RenameThatExchanges) {
  auto make = [&] {
    wire::Rename2Args args;
    args.sourcedir = args.targetdir = a_;
    args.oldname = "f";
    args.newname = "g";
    args.flags = wire::kRenameExchange;
    return args;
  };
  Story<wire::Rename2Args>(
      step(), make, [&] { return ReadFile("a/f") == "gg" && ReadFile("a/g") == "0123456789"; });
}

TEST_P(ExactlyOnceAtEachStep, MakeNode) {
  auto make = [&] {
    wire::MakeNodeArgs args;
    args.filehandle = a_;
    args.component = "pipe";
    args.obj_type = wire::ObjectType::kFifo;
    return args;
  };
  Story<wire::MakeNodeArgs>(step(), make, [&] { return Exists("pipe"); });
  if (step() < kCalled) return;
  EXPECT_EQ(Fetch<wire::MakeNodeArgs>().filehandle, LookUp(*client_, {"a", "pipe"}));
}

// Bytes that were moved are not moved once more.
TEST_P(ExactlyOnceAtEachStep, AllocateThatMoves) {
  struct statfs fs;
  ASSERT_EQ(statfs(Path("a").c_str(), &fs), 0);
  const auto block = static_cast<size_t>(fs.f_bsize);
  const std::string first(block, 'a'), second(block, 'b'), third(block, 'c');
  for (const bool collapse : {true, false}) {
    WriteFile("a/f", first + second + third);
    if (fallocate(Fd(open(Path("a/f").c_str(), O_RDWR)).get(), FALLOC_FL_COLLAPSE_RANGE, 0,
                  static_cast<off_t>(block)) != 0) {
      GTEST_SKIP() << "the file system cannot move ranges";
    }
    WriteFile("a/f", first + second + third);
    auto make = [&] {
      wire::AllocateArgs args;
      args.filehandle = LookUp(*client_, {"a", "f"});
      args.offset = collapse ? 0 : block;
      args.length = block;
      args.mode = collapse ? wire::AllocateMode::kCollapseRange : wire::AllocateMode::kInsertRange;
      return args;
    };
    const std::string after =
        collapse ? second + third : first + std::string(block, '\0') + second + third;
    Story<wire::AllocateArgs>(step(), make, [&] { return ReadFile("a/f") == after; });
    client_->Vanish();
  }
}

// A hole is punched again if it is not known to be there.
TEST_P(ExactlyOnceAtEachStep, AllocateThatPunches) {
  WriteFile("a/f", std::string(65536, 'x'));
  auto make = [&] {
    wire::AllocateArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.length = 65536;
    args.mode = wire::AllocateMode::kPunchHole;
    return args;
  };
  if (step() == kCalled) return;  // done, and not yet known to be
  Story<wire::AllocateArgs>(step(), make,
                            [&] { return ReadFile("a/f") == std::string(65536, '\0'); });
}

TEST_P(ExactlyOnceAtEachStep, CopyRange) {
  auto make = [&] {
    wire::CopyRangeArgs args;
    args.source_filehandle = LookUp(*client_, {"a", "g"});
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.offset = 1;
    args.length = 2;
    return args;
  };
  if (step() == kCalled) return;  // done, and not yet known to be
  Story<wire::CopyRangeArgs>(step(), make, [&] { return ReadFile("a/f") == "0gg3456789"; });
  if (step() < kMarked) return;
  EXPECT_EQ(Fetch<wire::CopyRangeArgs>().count, 2u);
}

TEST_P(ExactlyOnceAtEachStep, RemoveOfANamedAttribute) {
  const std::string path = Path("a/f");
  if (setxattr(path.c_str(), "user.x", "old", 3, 0) != 0) GTEST_SKIP() << "no user attributes";
  auto make = [&] {
    wire::RemoveArgs args;
    args.filehandle = AttributesOf("f");
    args.target = "user.x";
    return args;
  };
  Story<wire::RemoveArgs>(step(), make,
                          [&] { return getxattr(path.c_str(), "user.x", nullptr, 0) < 0; });
  if (step() < kCalled) return;
  const auto res = Fetch<wire::RemoveArgs>();
  EXPECT_NE(res.change_info.before, res.change_info.after);
}

// Its CLOSE makes a value the attribute's.
TEST_P(ExactlyOnceAtEachStep, CloseOfANamedAttribute) {
  const std::string path = Path("a/f");
  if (setxattr(path.c_str(), "user.other", "", 0, 0) != 0) GTEST_SKIP() << "no user attributes";
  const std::string text = "new";
  auto make = [&] {
    wire::OpenArgs open = OpenArgs(AttributesOf("f"), "user.x", true);
    open.createmode = wire::CreateMode::kGuarded;
    auto opened = client_->Call(open);
    EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
    wire::WriteInlineArgs write;
    write.filehandle = opened.res.filehandle;
    write.state_id = opened.res.state_id;
    write.byte_count = 3;
    EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(text))).name(), "DAFS_STATUS_OK");
    wire::CloseArgs args;
    args.filehandle = opened.res.filehandle;
    args.state_id = opened.res.state_id;
    return args;
  };
  Story<wire::CloseArgs>(step(), make, [&] {
    char value[8];
    const ssize_t n = getxattr(path.c_str(), "user.x", value, sizeof value);
    return n == 3 && std::string(value, 3) == text;
  });
}

TEST_P(ExactlyOnceAtEachStep, OpenThatCreates) {
  Story<wire::OpenArgs>(
      step(), [&] { return OpenArgs(a_, "n", true); }, [&] { return Exists("n"); });
  if (step() < kCalled) return;
  const auto res = Fetch<wire::OpenArgs>();
  EXPECT_EQ(res.filehandle, LookUp(*client_, {"a", "n"}));
  EXPECT_EQ(res.component_count, 1u);
  // The open itself went with the server (DAFS-4.4.1.2-08).
  wire::CloseArgs close;
  close.filehandle = res.filehandle;
  close.state_id = res.state_id;
  EXPECT_EQ(client_->Call(close).name(), "DAFSERR_STALE_STATEID");
}

TEST_P(ExactlyOnceAtEachStep, OpenThatCreatesExclusively) {
  auto make = [&] {
    wire::OpenArgs args = OpenArgs(a_, "n", true);
    args.createmode = wire::CreateMode::kExclusive;
    args.create_verifier = wire::OpaqueFromUint64<wire::Verifier>(77);
    return args;
  };
  Story<wire::OpenArgs>(step(), make, [&] { return Exists("n"); });
}

// An intent is only for a name that is absent: nothing may take what is there for what was made.
TEST_P(ExactlyOnceAtEachStep, OpenThatCreatesGuardedAndFindsTheName) {
  wire::OpenArgs args;
  for (const bool owned : {false, true}) {
    SCOPED_TRACE(owned);
    StartDoomed(Proc::kOpen, kSteps[step()]);
    if (HasFatalFailure()) return;
    args = OpenArgs(a_, "f", true);
    args.createmode = wire::CreateMode::kGuarded;
    if (owned) {
      args.createattrs.set(wire::kFattrOwner);
      args.createattrs.owner = "1234";
    }
    if (step() < kRecorded) {
      EXPECT_EQ(client_->Call(args).name(), "DAFSERR_EXIST");  // what would kill it is not reached
      client_->Vanish();
    } else {
      SendAndDie(args);
    }
    if (HasFatalFailure()) return;
    Restart();
    if (HasFatalFailure()) return;
    EXPECT_EQ(ReadFile("a/f"), "0123456789");
    EXPECT_EQ(client_->Call(args).name(), "DAFSERR_EXIST");
    client_->Vanish();
  }
}

TEST_P(ExactlyOnceAtEachStep, OpenThatTruncates) {
  auto make = [&] {
    wire::OpenArgs args = OpenArgs(a_, "f", true);
    args.createattrs.set(wire::kFattrObjectSize);
    return args;
  };
  Story<wire::OpenArgs>(step(), make, [&] { return ReadFile("a/f").empty(); });
}

TEST_P(ExactlyOnceAtEachStep, Append) {
  const std::string text = "abc";
  auto make = [&] {
    wire::AppendInlineArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.stable_how = wire::StableHow::kFileSync;
    args.byte_count = 3;
    return args;
  };
  Story<wire::AppendInlineArgs>(
      step(), make, [&] { return ReadFile("a/f") == "0123456789abc"; },
      std::as_bytes(std::span(text)));
  EXPECT_EQ(ReadFile("a/f"), "0123456789abc");
  if (step() < kCalled) return;
  EXPECT_EQ(Fetch<wire::AppendInlineArgs>().offset, 10u);
}

// A write that is not marked is to be written again, and that changes nothing.
TEST_P(ExactlyOnceAtEachStep, Write) {
  const std::string text = "abc";
  auto make = [&] {
    wire::WriteInlineArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.offset = 4;
    args.byte_count = 3;
    return args;
  };
  if (step() == kCalled) return;  // written, and not yet known to be: the next test
  Story<wire::WriteInlineArgs>(
      step(), make, [&] { return ReadFile("a/f") == "0123abc789"; },
      std::as_bytes(std::span(text)));
  if (step() < kMarked) return;
  EXPECT_EQ(Fetch<wire::WriteInlineArgs>().count, 3u);
}

TEST_P(ExactlyOnceAtEachStep, Setattr) {
  auto make = [&] {
    wire::SetattrInlineArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.obj_attributes.set(wire::kFattrMode);
    args.obj_attributes.mode = 0640;
    args.obj_attributes.set(wire::kFattrObjectSize);
    args.obj_attributes.object_size = 5;
    return args;
  };
  auto executed = [&] {
    struct stat st;
    return stat(Path("a/f").c_str(), &st) == 0 && (st.st_mode & 0777) == 0640 && st.st_size == 5;
  };
  Story<wire::SetattrInlineArgs>(step(), make, executed);
  if (step() < kCalled) return;
  EXPECT_EQ(Fetch<wire::SetattrInlineArgs>().attr_request_bitmap,
            wire::kFattrMode | wire::kFattrObjectSize);
}

INSTANTIATE_TEST_SUITE_P(All, ExactlyOnceAtEachStep, testing::Range(size_t{0}, std::size(kSteps)),
                         [](const auto& info) { return kSteps[info.param]; });

// What a kill in the middle of a system call may leave of an append is taken back.
TEST_F(ExactlyOnce, ATornAppendIsTakenBack) {
  const std::string text(1000, 'x');
  StartDoomed(Proc::kAppendInline, "intent");
  wire::AppendInlineArgs args;
  args.filehandle = LookUp(*client_, {"a", "f"});
  args.stable_how = wire::StableHow::kDataSync;
  args.byte_count = 1000;
  SendAndDie(args, std::as_bytes(std::span(text)));
  std::ofstream(Path("a/f"), std::ios::binary | std::ios::app) << "xxx";
  Restart();
  EXPECT_EQ(Check(Proc::kAppendInline), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(ReadFile("a/f"), "0123456789");
}

// The name was absent, and before the server was there again a program of the machine had it.
TEST_F(ExactlyOnce, AFileWithDataIsNotTakenBackAsUnfinished) {
  StartDoomed(Proc::kOpen, "intent");
  if (HasFatalFailure()) return;
  wire::OpenArgs args = OpenArgs(a_, "n", true);
  args.createmode = wire::CreateMode::kGuarded;
  args.createattrs.set(wire::kFattrOwner);
  args.createattrs.owner = "1234";
  SendAndDie(args);
  if (HasFatalFailure()) return;
  WriteFile("a/n", "a program's");
  Restart();
  if (HasFatalFailure()) return;
  EXPECT_EQ(Check(Proc::kOpen), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(ReadFile("a/n"), "a program's");
  EXPECT_EQ(client_->Call(args).name(), "DAFSERR_EXIST");
}

// DAFS-5.2.4-05: nobody else comes to a file that a write may have reached in part, until its
// writer has asked.
TEST_F(ExactlyOnce, AFileWithALostWriteIsItsWritersFirst) {
  const std::string text = "abc";
  StartDoomed(Proc::kWriteInline, "called");
  wire::WriteInlineArgs write;
  write.filehandle = LookUp(*client_, {"a", "f"});
  write.byte_count = 3;
  SendAndDie(write, std::as_bytes(std::span(text)));
  StartDafsd();
  auto other = RawClient::Connect(*provider_, address_);
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(other->Call(ConnectArgs("c2")).name(), "DAFS_STATUS_OK");
  ActAsRoot(*other);
  wire::ReadInlineArgs read;
  read.filehandle = write.filehandle;
  read.byte_count = 3;
  EXPECT_EQ(other->Call(read).name(), "DAFSERR_GRACE");
  Connect();
  EXPECT_EQ(client_->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(other->Call(read).name(), "DAFSERR_GRACE");
  EXPECT_EQ(Check(Proc::kWriteInline), "DAFSERR_NOXID_MATCH");
  EXPECT_EQ(other->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(text))).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(ReadFile("a/f"), "abc3456789");
}

// No open outlives the server, so a CLOSE that was begun is done.
TEST_F(ExactlyOnce, ACloseThatWasBegunIsDone) {
  for (const char* step : {"intent", "called"}) {
    StartDoomed(Proc::kClose, step);
    auto opened = client_->Call(OpenArgs(a_, "f", false));
    ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
    wire::CloseArgs args;
    args.filehandle = opened.res.filehandle;
    args.state_id = opened.res.state_id;
    SendAndDie(args);
    Restart();
    EXPECT_EQ(Check(Proc::kClose), "DAFS_STATUS_OK");
    client_->Vanish();
  }
}

// With --stable=power every step is on stable storage before the next; the outcome is the same.
TEST_F(ExactlyOnce, WithStablePowerToo) {
  extra_ = {"--stable", "power"};
  for (size_t step = kBefore; step <= kReplied; ++step) {
    const std::string name = "d" + std::to_string(step);
    auto make = [&] {
      wire::CreateArgs args;
      args.filehandle = a_;
      args.obj_type = wire::ObjectType::kDir;
      args.component = name;
      return args;
    };
    Story<wire::CreateArgs>(step, make, [&] { return Exists(name); });
    client_->Vanish();
  }
}

}  // namespace
}  // namespace dafs::server
