// The real dafsd, killed at every step of every procedure. The response cache of the next instance
// has the request exactly if the file system has its effect. If it does not, issuing the request
// again completes it.
#include <fcntl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <functional>

#include "runtime/files/unique_fd.h"
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

  // Opens a session with a response cache, as root.
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

  // Starts a dafsd that kills itself at `step` of the next `procedure`, and connects.
  void StartDoomed(Proc procedure, const std::string& step) {
    StartDafsd({"--kill-at", std::string(wire::Name(procedure)) + ":" + step});
    Connect();
  }

  // Sends a request, and expects SIGKILL to end the server.
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
  // The stored response, decoded as the result of `Args`.
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

  // Runs one request with a kill at one step. `executed` returns whether the file system has the
  // effect. `first_known` is the first step after which the server reports the request as executed.
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

// A client reclaims, or does not reclaim, an open whose OPEN or CLOSE was interrupted. In both
// cases the server still expects the other opens, so operations that conflict with them wait.
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

TEST_P(OpensAreExpectedAtEachStep, AfterAnInterruptedCreatingOpen) {
  StartDoomed(Proc::kOpen, kSteps[step()]);
  if (HasFatalFailure()) return;
  OpenByHandle("g");
  SendAndDie(OpenArgs(a_, "new", true));
  Restart();
  if (HasFatalFailure()) return;
  if (Check(Proc::kOpen) == "DAFS_STATUS_OK") Reclaim(Fetch<wire::OpenArgs>().filehandle);
  ExpectThatConflictsWait();
}

// The client has reclaimed every counted open. The file still exists for the open whose response
// the client has not yet fetched.
TEST_P(OpensAreExpectedAtEachStep, RemovedFileStaysUntilTheResponseIsFetched) {
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

TEST_P(OpensAreExpectedAtEachStep, AfterAnInterruptedClose) {
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

// With the tests of the other procedures, shows the entries and the effects of all of them.
//
// Shows DAFS-5.2.4-01, DAFS-5.2.4-02, DAFS-5.2.4-03, FAST03-3.2-08.
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

// A second call sets the attributes. A directory without them is removed after the restart.
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

// The private procedures on names behave like RENAME and CREATE.
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

// Executing an exchange twice would undo it.
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

// Bytes that were moved are not moved a second time.
TEST_P(ExactlyOnceAtEachStep, AllocateThatMoves) {
  struct statfs fs;
  ASSERT_EQ(statfs(Path("a").c_str(), &fs), 0);
  const auto block = static_cast<size_t>(fs.f_bsize);
  const std::string first(block, 'a'), second(block, 'b'), third(block, 'c');
  for (const bool collapse : {true, false}) {
    WriteFile("a/f", first + second + third);
    if (fallocate(UniqueFd(open(Path("a/f").c_str(), O_RDWR)).get(), FALLOC_FL_COLLAPSE_RANGE, 0,
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

// The hole is punched again unless the server knows that it was punched.
TEST_P(ExactlyOnceAtEachStep, AllocateThatPunches) {
  WriteFile("a/f", std::string(65536, 'x'));
  auto make = [&] {
    wire::AllocateArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.length = 65536;
    args.mode = wire::AllocateMode::kPunchHole;
    return args;
  };
  if (step() == kCalled) return;  // done, but the server does not know it yet
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
  if (step() == kCalled) return;  // done, but the server does not know it yet
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

// The CLOSE stores the new value of the attribute.
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
  // The open itself ended with the server (DAFS-4.4.1.2-08).
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

// The server records an intent only for an absent name, so it never takes an existing file for the
// created one.
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
      EXPECT_EQ(client_->Call(args).name(), "DAFSERR_EXIST");  // the kill step is not reached
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

// An unmarked write is repeated. Repeating it changes nothing.
TEST_P(ExactlyOnceAtEachStep, Write) {
  const std::string text = "abc";
  auto make = [&] {
    wire::WriteInlineArgs args;
    args.filehandle = LookUp(*client_, {"a", "f"});
    args.offset = 4;
    args.byte_count = 3;
    return args;
  };
  if (step() == kCalled) return;  // written, but the server does not know it yet
  Story<wire::WriteInlineArgs>(
      step(), make, [&] { return ReadFile("a/f") == "0123abc789"; },
      std::as_bytes(std::span(text)));
  if (step() < kMarked) return;
  EXPECT_EQ(Fetch<wire::WriteInlineArgs>().count, 3u);
}

// Shows DAFS-3.2.3.2.2-02 (SETATTR, inline).
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

// The server removes the part of an append that a kill in the middle of a system call may leave.
TEST_F(ExactlyOnce, TornAppendIsRemoved) {
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

// Shows DAFS-5.2.4-04: what a kill has left is undone, and what was executed is kept, before
// another client sees the file system.
TEST_F(ExactlyOnce, RecordedOperationsAreFinishedBeforeTheFirstAccess) {
  const auto as_other = [&](const auto& args) {
    auto other = RawClient::Connect(*provider_, address_);
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(other->Call(ConnectArgs("c2")).name(), "DAFS_STATUS_OK");
    ActAsRoot(*other);
    return other->Call(args);
  };
  wire::CreateArgs create;
  create.obj_type = wire::ObjectType::kDir;
  create.attr.set(wire::kFattrOwner);
  create.attr.owner = "1234";
  for (const auto& [step, status] : {std::pair("called", "DAFSERR_NOENT"),  // it has no owner yet
                                     std::pair("marked", "DAFS_STATUS_OK")}) {
    SCOPED_TRACE(step);
    StartDoomed(Proc::kCreate, step);
    if (HasFatalFailure()) return;
    create.filehandle = a_;
    create.component = step;
    SendAndDie(create);
    ASSERT_TRUE(Exists(step));
    StartDafsd();
    wire::LookupArgs lookup;
    lookup.directory = a_;
    lookup.path = {step};
    EXPECT_EQ(as_other(lookup).name(), status);
  }
  const std::string text(1000, 'x');
  StartDoomed(Proc::kAppendInline, "intent");
  if (HasFatalFailure()) return;
  wire::AppendInlineArgs append;
  append.filehandle = LookUp(*client_, {"a", "f"});
  append.stable_how = wire::StableHow::kDataSync;
  append.byte_count = 1000;
  SendAndDie(append, std::as_bytes(std::span(text)));
  std::ofstream(Path("a/f"), std::ios::binary | std::ios::app) << "xxx";
  StartDafsd();
  wire::ReadInlineArgs read;
  read.filehandle = append.filehandle;
  read.byte_count = 100;
  auto got = as_other(read);
  EXPECT_EQ(got.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(got.res.bytes_read, 10u);
}

// The name was absent. A local program creates it before the server has restarted.
TEST_F(ExactlyOnce, FileWithDataIsNotRemovedAsUnfinished) {
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

// No other client accesses a file that a write may have reached in part, until the writer has
// queried that write.
TEST_F(ExactlyOnce, FileWithALostWriteWaitsForItsWriter) {
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

// No open survives the server, so a CLOSE that was begun is complete.
TEST_F(ExactlyOnce, CloseThatWasBegunIsComplete) {
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
TEST_F(ExactlyOnce, SameOutcomeWithStablePower) {
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
