// The control socket of a server with known clients, opens and locks.
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/text.h"
#include "server/admin/answers.h"
#include "server/admin/report_text.h"
#include "tests/server/promises_fixture.h"
#include "wire/messages/attributes.h"
#include "wire/messages/locks.h"
#include "wire/messages/posix.h"
#include "wire/protocol/program_version.h"

namespace dafs::server {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using wire::LockType;

constexpr char kTag[] = "/0123456789abcdef0123456789abcdef";

class AdminTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    WriteFile("a/f", "content");
    mkdir(Path("a/dir").c_str(), 0777);
    WriteFile("a/dir/g", "content");
    options_.admin_socket = Path("run/dafsd.sock");
    options_.read_exports = [this] { return wanted_; };
    wanted_ = options_.exports;
    StartServer();
  }

  // The exports that a reload reads.
  absl::StatusOr<std::vector<Export>> wanted_ = absl::InternalError("");

  absl::StatusOr<std::string> Ask(const std::string& request) {
    return AskControlSocket(options_.admin_socket, request, "dafsd");
  }
  std::string Text(const std::string& request) {
    const absl::StatusOr<std::string> answer = Ask(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or("");
  }
  Json Report(const std::string& request) {
    return Json::parse(Text("json " + request), nullptr, /*allow_exceptions=*/false);
  }
  std::string Refusal(const std::string& request) {
    return std::string(Ask(request).status().message());
  }

  struct Opened {
    std::unique_ptr<RawClient> client;
    wire::FileHandle filehandle;
    wire::StateId state_id;

    std::string Lock(uint64_t offset, uint64_t length, LockType type, uint32_t options = 0) {
      wire::LockArgs args;
      args.filehandle = filehandle;
      args.state_id = state_id;
      args.offset = offset;
      args.length = length;
      args.lock_type = type;
      args.options = options;
      return client->Call(args).name();
    }
  };
  // A client with this name that has opened the file of export "a" in `path`.
  Opened Open(const std::string& name, std::vector<std::string> path, uint32_t access = 3) {
    Opened opened{Session(name), {}, {}};
    const std::string file = path.back();
    path.back() = "a";
    std::rotate(path.begin(), path.end() - 1, path.end());
    wire::OpenArgs args = OpenArgs(LookUp(*opened.client, path), file, false);
    args.share_access = access;
    auto reply = opened.client->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    opened.filehandle = reply.res.filehandle;
    opened.state_id = reply.res.state_id;
    return opened;
  }
};

TEST_F(AdminTest, StatusCountsWhatClientsHold) {
  Opened first = Open("c1", {"f"}), second = Open("c2", {"f"});
  ASSERT_EQ(first.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(second.Lock(0, 1, LockType::kWriteBlocking), "DAFSERR_DENIED");
  const Json status = Report("status");
  EXPECT_EQ(status["clients"], 2);
  EXPECT_EQ(status["connections"], 2);
  EXPECT_EQ(status["opens"], 2);
  EXPECT_EQ(status["locks"], 1);
  EXPECT_EQ(status["lock_waiters"], 1);
  EXPECT_EQ(status["process"], getpid());
  EXPECT_EQ(status["state_directory"], Path("state"));
  EXPECT_EQ(status["server_id"].get<std::string>().size(), 32u);
  EXPECT_EQ(status["instance"], 1);
  EXPECT_EQ(status["cluster_id"], status["server_id"]);
  EXPECT_EQ(status["exports"], 1);
  EXPECT_EQ(status["exports_not_served"], 0);
  EXPECT_EQ(status["grace"]["active"], false);
  EXPECT_EQ(status["delegations"]["held"], 0);
  for (const char* count : {"recalled", "revoked", "recall_mean_us", "recall_longest_us"}) {
    EXPECT_EQ(status["delegations"][count], 0) << count;
  }
  EXPECT_EQ(status["message_memory_bytes"], server_->message_bytes());
  ASSERT_EQ(status["listens"].size(), 1u);
  EXPECT_THAT(status["listens"][0].get<std::string>(), HasSubstr(address().ToString()));
  EXPECT_THAT(Text("status"),
              AllOf(HasSubstr("2 clients"), HasSubstr("2 opens, 1 locks, 1 waiting"),
                    HasSubstr(Path("state"))));
}

TEST_F(AdminTest, PromisesAreCountedWithTheTimesOfTheirAnswers) {
  auto holder = Holder("c1"), other = Connect("c2");
  Json report = Report("clients")["clients"];
  for (const Json& client : report) {
    EXPECT_EQ(client["promises"], client["name"] == "c1" ? 1 : 0) << client;
    EXPECT_EQ(client["recalls"]["count"], 0);
    EXPECT_EQ(client["recalls"]["revoked"], 0);
  }
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  EXPECT_EQ(Report("status")["promises"]["answers"], 0);
  holder->Answer(*announced);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  const Json promises = Report("status")["promises"];
  EXPECT_EQ(promises["clients"], 1);
  EXPECT_EQ(promises["calls"], 1);
  EXPECT_EQ(promises["answers"], 1);
  EXPECT_GT(promises["answer_mean_us"], 0);
  EXPECT_GE(promises["answer_longest_us"], promises["answer_mean_us"]);
  EXPECT_THAT(Text("status"), HasSubstr("1 calls, answered in "));
}

TEST_F(AdminTest, RequestsAreCountedByProcedure) {
  Opened one = Open("c1", {"f"});
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(one.client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  ASSERT_EQ(one.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  const Json stats = Report("stats");
  EXPECT_EQ(stats["sessions"]["opened"], 1);
  EXPECT_EQ(stats["sessions"]["lost"], 0);
  EXPECT_EQ(stats["silent_workers"], 0);
  EXPECT_EQ(stats["slow_us"], 0);
  EXPECT_EQ(stats["bucket_bounds_us"].size(), 31u);
  EXPECT_EQ(stats["procedures"]["LOCK"]["calls"], 1);
  const Json null = stats["procedures"]["NULL"];
  EXPECT_EQ(null["calls"], 3);
  EXPECT_EQ(null["errors"], 0);
  EXPECT_EQ(null["received_bytes"], 3 * 40);
  EXPECT_EQ(null["sent_bytes"], 3 * 40);
  uint64_t counted = 0;
  for (const Json& bucket : null["buckets"]) counted += bucket.get<uint64_t>();
  EXPECT_EQ(counted, 3u);
  EXPECT_LE(null["p50_us"], null["p99_us"]);
  EXPECT_LE(null["longest_us"], null["total_us"]);
  EXPECT_THAT(Text("stats"), AllOf(HasSubstr("PROCEDURE"), HasSubstr("NULL"),
                                   HasSubstr("1 sessions opened, 0 lost")));
}

class SlowAdminTest : public AdminTest {
 protected:
  void SetUp() override {
    options_.slow = absl::Milliseconds(2);
    AdminTest::SetUp();
  }
};

// The request waits for the answer of the holder, which comes late.
TEST_F(SlowAdminTest, ASlowRequestIsLoggedWithFileClientAndTimes) {
  auto holder = Holder("c1"), other = Connect("c2");
  testing::internal::CaptureStderr();
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  const absl::Time since = Loop::Now();
  while (Loop::Now() - since < absl::Milliseconds(5)) Report("status");
  holder->Answer(*announced);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("slow: CREATE of "), HasSubstr(" by client c2 (uid "),
                         HasSubstr(" executed")));
  const Json stats = Report("stats");
  EXPECT_EQ(stats["slow_us"], 2000);
  EXPECT_GE(stats["slow_operations"], 1);
  EXPECT_THAT(Text("stats"), HasSubstr(" requests took 2ms or longer"));
}

TEST_F(AdminTest, ClientsAreShownByPlaceAndTheBusiestFirst) {
  Opened idle = Open(absl::StrCat("host1:/mnt/a", kTag), {"f"});
  Opened busy = Open(absl::StrCat("host2:/mnt/b c", kTag), {"f"});
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(busy.client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  ASSERT_EQ(idle.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  const Json report = Report("clients");
  EXPECT_EQ(report["cut"], false);
  EXPECT_EQ(report["silent_workers"], 0);
  ASSERT_EQ(report["clients"].size(), 2u);
  const Json& first = report["clients"][0];
  EXPECT_EQ(first["host"], "host2");
  EXPECT_EQ(first["mount_point"], "/mnt/b c");
  EXPECT_EQ(first["name"], "host2:/mnt/b c");
  EXPECT_GE(first["requests"], 50);
  EXPECT_GT(first["received_bytes"], 50 * 40);
  EXPECT_GT(first["sent_bytes"], 50 * 40);
  EXPECT_EQ(first["has_lease"], true);
  ASSERT_EQ(first["sessions"].size(), 1u);
  EXPECT_NE(first["sessions"][0]["transport"], "");
  EXPECT_LT(first["idle_us"], first["age_us"]);
  const Json& second = report["clients"][1];
  EXPECT_EQ(second["host"], "host1");
  EXPECT_LT(second["requests"], 50);
  EXPECT_EQ(second["opens"], 1);
  EXPECT_EQ(second["locks"], 1);
  EXPECT_THAT(Text("clients"), AllOf(HasSubstr("host1:/mnt/a\n"), HasSubstr("host2:/mnt/b c\n")));
}

TEST_F(AdminTest, OddBytesInTheNameOfAClientAreEscaped) {
  Opened strange = Open("\xff\"\n\x01 name", {"f"});
  const Json report = Report("clients");
  ASSERT_EQ(report["clients"].size(), 1u);
  EXPECT_EQ(report["clients"][0]["name"], "\\xff\\\"\\n\\x01 name");
  EXPECT_EQ(report["clients"][0]["host"], "");
}

TEST_F(AdminTest, OpensNameTheFileTheClientAndTheAccess) {
  Opened first = Open("c1", {"f"}), second = Open("c2", {"dir", "g"}, /*access=*/1);
  const Json opens = Report("opens")["opens"];
  ASSERT_EQ(opens.size(), 2u);
  EXPECT_EQ(opens[0]["file"], Path("a/dir/g"));
  EXPECT_EQ(opens[0]["client"], "c2");
  EXPECT_EQ(opens[0]["access"], "read");
  EXPECT_EQ(opens[0]["kind"], "open");
  EXPECT_EQ(opens[1]["file"], Path("a/f"));
  EXPECT_EQ(opens[1]["client"], "c1");
  EXPECT_EQ(opens[1]["access"], "read-write");
  EXPECT_EQ(opens[1]["export"], "/a");
  EXPECT_THAT(Text("opens"), AllOf(HasSubstr(Path("a/f")), HasSubstr(Path("a/dir/g"))));
}

TEST_F(AdminTest, OpensAndLocksOfOneFileOrDirectoryOnly) {
  Opened first = Open("c1", {"f"}), second = Open("c2", {"dir", "g"});
  ASSERT_EQ(first.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(second.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  for (const std::string list : {"opens", "locks"}) {
    const auto files = [&](const std::string& path) {
      std::vector<std::string> found;
      const Json report = Report(list + " " + path);
      for (const Json& row : report[list]) {
        found.push_back(row["file"].get<std::string>());
      }
      return found;
    };
    EXPECT_THAT(files(Path("a/f")), testing::ElementsAre(Path("a/f")));
    EXPECT_THAT(files(Path("a/dir")), testing::ElementsAre(Path("a/dir/g")));
    EXPECT_THAT(files(Path("a")), testing::SizeIs(2));
    EXPECT_THAT(files("/"), testing::SizeIs(2));
    EXPECT_THAT(files(Path("a/di")), testing::IsEmpty());
    EXPECT_THAT(files(Path("a/f/x")), testing::IsEmpty());
  }
}

TEST_F(AdminTest, LocksShowHoldersBeforeWaiters) {
  Opened holder = Open("c1", {"f"}), waiter = Open("c2", {"f"});
  ASSERT_EQ(holder.Lock(10, 5, LockType::kRead), "DAFS_STATUS_OK");
  ASSERT_EQ(waiter.Lock(0, wire::kLockToEnd, LockType::kWriteBlocking), "DAFSERR_DENIED");
  const Json locks = Report("locks")["locks"];
  ASSERT_EQ(locks.size(), 2u);
  EXPECT_EQ(locks[0]["state"], "held");
  EXPECT_EQ(locks[0]["client"], "c1");
  EXPECT_EQ(locks[0]["type"], "read");
  EXPECT_EQ(locks[0]["first"], 10);
  EXPECT_EQ(locks[0]["last"], 14);
  EXPECT_EQ(locks[0]["file"], Path("a/f"));
  EXPECT_EQ(locks[1]["state"], "waits");
  EXPECT_EQ(locks[1]["client"], "c2");
  EXPECT_EQ(locks[1]["type"], "write");
  EXPECT_THAT(Text("locks"), AllOf(HasSubstr("10-14"), HasSubstr("0-end"), HasSubstr("waits")));
}

TEST_F(AdminTest, ExportsShowTheirOptions) {
  const Json exports = Report("exports")["exports"];
  ASSERT_EQ(exports.size(), 1u);
  EXPECT_EQ(exports[0]["name"], "/a");
  EXPECT_EQ(exports[0]["directory"], Path("a"));
  EXPECT_EQ(exports[0]["squash"], "none");
  EXPECT_EQ(exports[0]["read_only"], false);
  EXPECT_EQ(exports[0]["secure"], true);
  EXPECT_EQ(exports[0]["served"], true);
  EXPECT_THAT(Text("exports"), HasSubstr("rw,no_root_squash,secure"));
}

TEST_F(AdminTest, AnUnknownWordIsAnsweredWithTheWords) {
  for (const char* request : {"bogus", "json bogus", "json", "statusx", " status"}) {
    EXPECT_THAT(Refusal(request), AllOf(HasSubstr("unknown request"), HasSubstr("opens [FILE]")))
        << request;
  }
  EXPECT_THAT(Refusal("status now"), HasSubstr("takes no argument"));
}

TEST_F(AdminTest, OnlyRootChangesSomething) {
  for (const char* request : {"log debug", "evict c1", "reload", "drain", "drain undo",
                              "unlock all /f", "forget-locks /f"}) {
    const auto answer = AnswerAdmin({}, {.text = request, .uid = 1000});
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kPermissionDenied) << request;
  }
}

TEST_F(AdminTest, AnotherUserCannotConnect) {
  chmod(Path("run").c_str(), 0755);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    _exit(absl::IsPermissionDenied(Ask("status").status()) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(AdminTest, LogLevelIsSet) {
  const bool before = LogEnabled(Severity::kDebug);
  EXPECT_EQ(Text("log debug"), "log level set to debug\n");
  EXPECT_TRUE(LogEnabled(Severity::kDebug));
  EXPECT_EQ(Report("log warning")["done"], "log level set to warning");
  EXPECT_FALSE(LogEnabled(Severity::kNotice));
  SetLogLevel(before ? Severity::kDebug : Severity::kInfo);
  EXPECT_THAT(Refusal("log loud"), HasSubstr("give error, warning"));
  EXPECT_THAT(Refusal("log"), HasSubstr("give error, warning"));
}

TEST_F(AdminTest, AnEvictedClientLosesItsSessionsOpensAndLocks) {
  Opened evicted = Open(absl::StrCat("host1:/mnt/a", kTag), {"f"}), other = Open("c2", {"f"});
  ASSERT_EQ(evicted.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  EXPECT_THAT(Refusal("evict unknown"), HasSubstr("no client with this id or name"));
  EXPECT_THAT(Text("evict host1:/mnt/a"), HasSubstr("it held 1 opens and 1 locks"));
  EXPECT_TRUE(evicted.client->AwaitClosed());
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->open_count() > 1 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(server_->open_count(), 1u);
  EXPECT_EQ(other.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  EXPECT_EQ(other.client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

TEST_F(AdminTest, AnEvictedClientMayConnectAgainWithoutWhatItHeld) {
  Opened evicted = Open("c1", {"f"});
  ASSERT_EQ(evicted.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  const std::string id = Report("clients")["clients"][0]["id"].get<std::string>();
  EXPECT_THAT(Text("evict " + id), HasSubstr("client c1 evicted"));
  EXPECT_TRUE(evicted.client->AwaitClosed());
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->open_count() > 0 && Loop::Now() < deadline) sched_yield();
  evicted.client = Session("c1");
  EXPECT_EQ(evicted.Lock(0, 1, LockType::kWrite), "DAFSERR_EXPIRED");
  Opened again = Open("c1", {"f"});
  EXPECT_EQ(again.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
}

TEST_F(AdminTest, ADrainingServerTakesNoNewClients) {
  Opened old = Open("c1", {"f"});
  const auto state = [this] { return Report("status")["drain"]["state"].get<std::string>(); };
  const auto connects = [this](const std::string& name, uint64_t verifier) {
    return Connection()->Call(ConnectArgs(name, verifier)).name();
  };
  EXPECT_EQ(state(), "serving");
  EXPECT_THAT(Text("drain"), HasSubstr("1 clients left, with 1 opens and 0 locks"));
  EXPECT_EQ(state(), "draining");
  EXPECT_THAT(Text("status"), HasSubstr("draining: 1 clients left"));
  EXPECT_EQ(connects("c2", 1), "DAFSERR_DELAY");
  EXPECT_EQ(connects("c1", 2), "DAFSERR_DELAY");  // another instance is a new client
  // The client goes on, also in a new session.
  EXPECT_EQ(old.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  EXPECT_EQ(connects("c1", 1), "DAFS_STATUS_OK");
  wire::CloseArgs close;
  close.filehandle = old.filehandle;
  close.state_id = old.state_id;
  EXPECT_EQ(old.client->Call(close).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(old.client->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  old.client.reset();
  const absl::Time deadline = Loop::Now() + kPatience;
  while (state() != "drained" && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(state(), "drained");
  EXPECT_EQ(Text("drain"), "drained: no client is left\n");
  EXPECT_EQ(Text("drain undo"), "takes new clients\n");
  EXPECT_EQ(connects("c2", 1), "DAFS_STATUS_OK");
  EXPECT_THAT(Refusal("drain now"), HasSubstr("takes undo"));
}

TEST_F(AdminTest, BrokenLocksAreShownAndForgotten) {
  const std::string file = " " + Path("a/f");
  Opened holder = Open("c1", {"f"}), other = Open("c2", {"f"});
  ASSERT_EQ(holder.Lock(3, 10, LockType::kWrite, wire::kLockPersist), "DAFS_STATUS_OK");
  EXPECT_TRUE(Report("failed-locks")["locks"].empty());
  EXPECT_THAT(Refusal("forget-locks" + file), HasSubstr("no broken lock"));
  // Its lock is released as that of a client that failed.
  ASSERT_THAT(Text("unlock all" + file), HasSubstr("1 locks of 1 owners released"));
  const absl::Time deadline = Loop::Now() + kPatience;
  while (Report("failed-locks")["locks"].empty() && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(Report("failed-locks")["locks"][0]["state"], "breakable");
  EXPECT_THAT(Refusal("forget-locks" + file), HasSubstr("no broken lock"));
  EXPECT_EQ(other.Lock(3, 1, LockType::kWrite), "DAFSERR_LOCK_BROKEN");
  const Json lock = Report("failed-locks" + file)["locks"][0];
  EXPECT_EQ(lock["state"], "broken");
  EXPECT_EQ(lock["client"], "c1");
  EXPECT_EQ(lock["last"], 12);
  EXPECT_THAT(Text("failed-locks"), HasSubstr("3-12"));
  EXPECT_THAT(Refusal("forget-locks"), HasSubstr("give FILE"));
  EXPECT_THAT(Text("forget-locks" + file), HasSubstr("1 broken locks forgotten"));
  EXPECT_TRUE(Report("failed-locks")["locks"].empty());
  EXPECT_EQ(other.Lock(3, 1, LockType::kWrite), "DAFS_STATUS_OK");
}

TEST_F(AdminTest, AnUndoThatFailsIsGivenUp) {
  const std::string file = " " + Path("a/f");
  Opened holder = Open("c1", {"f"}), other = Open("c2", {"f"});
  ASSERT_EQ(holder.Lock(0, 10, LockType::kWrite, wire::kLockAutorecovery), "DAFS_STATUS_OK");
  wire::SetattrInlineArgs cut;
  cut.filehandle = holder.filehandle;
  cut.state_id = holder.state_id;
  cut.obj_attributes.set(wire::kFattrObjectSize);
  cut.obj_attributes.object_size = 3;
  ASSERT_EQ(holder.client->Call(cut).name(), "DAFS_STATUS_OK");
  EXPECT_THAT(Refusal("forget-locks" + file), HasSubstr("no broken lock or failed undo"));
  for (const auto& undo : std::filesystem::directory_iterator(Path("a/.dafsd-orphans"))) {
    ASSERT_TRUE(std::filesystem::remove(undo));  // so that nothing can be restored
  }
  ASSERT_THAT(Text("unlock all" + file), HasSubstr("1 locks of 1 owners released"));
  const absl::Time deadline = Loop::Now() + kPatience;
  absl::StatusOr<std::string> said = Ask("forget-locks" + file);
  while (!said.ok() && Loop::Now() < deadline) said = Ask("forget-locks" + file);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_THAT(*said, HasSubstr("0 broken locks forgotten"));
  EXPECT_THAT(*said, HasSubstr("the undo for 1 owners given up"));
  EXPECT_TRUE(Report("failed-locks")["locks"].empty());
  EXPECT_EQ(other.Lock(0, 10, LockType::kWrite), "DAFS_STATUS_OK");
  EXPECT_EQ(std::filesystem::file_size(Path("a/f")), 3u);
}

TEST_F(AdminTest, LocksThatOutliveTheirClientAreMarked) {
  Opened holder = Open("c1", {"f"});
  ASSERT_EQ(holder.Lock(0, 10, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(holder.Lock(20, 10, LockType::kWrite, wire::kLockPersist), "DAFS_STATUS_OK");
  ASSERT_EQ(holder.Lock(40, 10, LockType::kWrite, wire::kLockAutorecovery), "DAFS_STATUS_OK");
  const Json locks = Report("locks")["locks"];
  ASSERT_EQ(locks.size(), 3u);
  EXPECT_EQ(locks[0]["persistent"], false);
  EXPECT_EQ(locks[0]["auto_recovery"], false);
  EXPECT_EQ(locks[1]["persistent"], true);
  EXPECT_EQ(locks[1]["auto_recovery"], false);
  EXPECT_EQ(locks[2]["persistent"], false);
  EXPECT_EQ(locks[2]["auto_recovery"], true);
  EXPECT_THAT(Text("locks"), HasSubstr("held auto-recovery"));
}

// Shows DAFS-4.4.1.2-36
TEST_F(AdminTest, UnlockReleasesTheLocksOfOneOwnerAndNotifiesIt) {
  Opened holder = Open("c1", {"f"}), waiter = Open("c2", {"f"});
  ASSERT_EQ(holder.Lock(0, 10, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(holder.Lock(20, 10, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(waiter.Lock(40, 1, LockType::kWrite), "DAFS_STATUS_OK");
  ASSERT_EQ(waiter.Lock(0, 1, LockType::kWriteBlocking), "DAFSERR_DENIED");
  const Json locks = Report("locks")["locks"];
  ASSERT_EQ(locks.size(), 4u);
  std::string id;
  for (const Json& lock : locks) {
    if (lock["client"] == "c1") id = lock["id"].get<std::string>();
  }
  EXPECT_THAT(Text("locks"), HasSubstr(id));
  const std::string file = " " + Path("a/f");
  EXPECT_THAT(Refusal("unlock 0" + file), HasSubstr("no such lock"));
  EXPECT_THAT(Refusal("unlock " + id + " /absent"), HasSubstr("no such lock"));
  EXPECT_THAT(Refusal("unlock all"), HasSubstr("give ID or all, and FILE"));
  EXPECT_EQ(Report("status")["locks"], 3);
  EXPECT_THAT(Text("unlock " + id + file), HasSubstr("2 locks of 1 owners released"));
  const absl::Time deadline = Loop::Now() + kPatience;
  while (Report("status")["locks"] != 1 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(holder.Lock(0, 1, LockType::kWrite), "DAFSERR_EXPIRED");
  EXPECT_EQ(waiter.Lock(0, 1, LockType::kWriteBlocking), "DAFS_STATUS_OK");
  EXPECT_THAT(Text("unlock all" + file), HasSubstr("2 locks of 1 owners released"));
  while (Report("status")["locks"] != 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(Report("status")["locks"], 0);
}

TEST_F(AdminTest, ClientsShowTheirVersionAndTheirLoad) {
  Opened idle = Open("idle", {"f"}), busy = Open("busy", {"f"});
  wire::ExtensionsArgs args;
  args.wanted = wire::BitsOf({1, 20, 3});
  auto reply = busy.client->Call(args);
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.res.granted, 0u);
  for (int i = 0; i < 200; ++i) busy.client->Call(wire::NullArgs());
  const Json clients = Report("clients load")["clients"];
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0]["name"], "busy");
  EXPECT_EQ(clients[0]["version"], "1.20.3");
  EXPECT_EQ(clients[1]["version"], "");
  EXPECT_GT(clients[0]["requests_per_s"], clients[1]["requests_per_s"]);
  EXPECT_GT(clients[0]["received_bytes_per_s"], 0);
  EXPECT_GT(clients[0]["sent_bytes_per_s"], 0);
  EXPECT_THAT(Text("clients load"), AllOf(HasSubstr("REQUESTS/S"), HasSubstr("1.20.3")));
  EXPECT_THAT(Refusal("clients bogus"), HasSubstr("takes load or no argument"));
}

TEST_F(AdminTest, TheBusiestFilesAreShownFirst) {
  Opened f = Open("c1", {"f"}), g = Open("c2", {"dir", "g"});
  const auto ask = [](Opened& opened, int times) {
    wire::GetattrInlineArgs args;
    args.filehandle = opened.filehandle;
    args.attr_request_bitmap = wire::kFattrChange;
    for (int i = 0; i < times; ++i) ASSERT_EQ(opened.client->Call(args).name(), "DAFS_STATUS_OK");
  };
  ask(f, 50);
  ask(g, 300);
  const Json files = Report("files")["files"];
  ASSERT_GE(files.size(), 2u);
  EXPECT_EQ(files[0]["file"], Path("a/dir/g"));
  EXPECT_EQ(files[1]["file"], Path("a/f"));
  EXPECT_GT(files[0]["requests_per_s"], files[1]["requests_per_s"]);
  EXPECT_GT(files[0]["bytes_per_s"], 0);
  EXPECT_LE(files.size(), 20u);
  EXPECT_THAT(Text("files"), AllOf(HasSubstr("REQUESTS/S"), HasSubstr(Path("a/dir/g"))));
}

TEST_F(AdminTest, AReloadKeepsSessionsAndServesOtherExports) {
  Opened opened = Open("c1", {"f"});
  EXPECT_EQ(Text("reload"), "no export has changed\n");
  mkdir(Path("b").c_str(), 0777);
  Export added = options_.exports[0];
  added.name = "/b";
  added.directory = Path("b");
  wanted_->push_back(added);
  EXPECT_EQ(Report("reload")["done"], "added /b");
  LookUp(*opened.client, {"b"});
  EXPECT_EQ(Report("status")["exports"], 2);
  EXPECT_EQ(Report("exports")["exports"].size(), 2u);
  wanted_->erase(wanted_->begin());
  EXPECT_EQ(Text("reload"), "removed /a\n");
  EXPECT_EQ(opened.Lock(0, 1, LockType::kWrite), "DAFSERR_EXPIRED");
  EXPECT_EQ(server_->open_count(), 0u);
  EXPECT_EQ(Report("exports")["exports"][0]["name"], "/b");
  wanted_ = {options_.exports[0]};
  EXPECT_EQ(Text("reload"), "added /a; removed /b\n");
  EXPECT_EQ(Open("c1", {"f"}).Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
}

TEST_F(AdminTest, AReloadThatFailsChangesNothingAndSaysWhy) {
  Opened opened = Open("c1", {"f"});
  wanted_ = absl::InvalidArgumentError("/etc/x:3: it is wrong");
  EXPECT_THAT(Refusal("reload"),
              AllOf(HasSubstr("/etc/x:3: it is wrong"), HasSubstr("nothing has changed")));
  wanted_ = options_.exports;
  (*wanted_)[0].directory = Path("absent");
  EXPECT_THAT(Refusal("reload"), AllOf(HasSubstr(Path("absent")), HasSubstr("No such file")));
  EXPECT_EQ(opened.Lock(0, 1, LockType::kWrite), "DAFS_STATUS_OK");
  EXPECT_EQ(Report("exports")["exports"][0]["directory"], Path("a"));
}

std::vector<std::string> ServersIn(const wire::GetFsattrRes& res) {
  std::vector<std::string> servers;
  for (const wire::FsLocations& each : res.obj_attributes.failover_locations) {
    for (const wire::FsLocation& one : each.locations) servers.push_back(one.server);
  }
  return servers;
}

class LocationsTest : public AdminTest {
 protected:
  static wire::GetFsattrArgs Fetch(const wire::FileHandle& file) {
    wire::GetFsattrArgs args;
    args.filehandle = file;
    args.attr_request_bitmap = wire::kFsattrFailoverLocations;
    return args;
  }
  static bool IsFlagged(RawClient& client) {
    return (client.Call(wire::NullArgs()).header.spec_cond & wire::kSpcondFailover) != 0;
  }
};

// Shows DAFS-5.3.1-01, DAFS-5.3.1-03, DAFS-5.3-01, DAFS-6.1.4-08.
TEST_F(LocationsTest, AChangeIsFlaggedUntilTheClientThatHasTheOldValueFetchesTheNewOne) {
  auto fetched = Session("c1"), other = Session("c2");
  const wire::FileHandle file = LookUp(*fetched, {"a"});
  EXPECT_THAT(ServersIn(fetched->Call(Fetch(file)).res), testing::IsEmpty());
  (*wanted_)[0].failover = {{"b.example", "/a"}, {"192.0.2.1:7", "/a"}};
  EXPECT_EQ(Text("reload"), "changed the options of /a\n");
  EXPECT_THAT(Text("exports"), HasSubstr("failover=b.example:/a+192.0.2.1:7:/a"));
  EXPECT_TRUE(IsFlagged(*fetched));
  EXPECT_TRUE(IsFlagged(*fetched));
  EXPECT_FALSE(IsFlagged(*other)) << "it has not fetched the value before";
  EXPECT_EQ(Report("status")["drain"]["untold"], 1);
  const auto reply = fetched->Call(Fetch(file));
  EXPECT_THAT(ServersIn(reply.res), testing::ElementsAre("b.example", "192.0.2.1:7"));
  const wire::FsLocations& locations = reply.res.obj_attributes.failover_locations.at(0);
  EXPECT_THAT(locations.fs_root, testing::ElementsAre("a"));
  EXPECT_THAT(locations.locations[0].root_path, testing::ElementsAre("a"));
  EXPECT_FALSE(IsFlagged(*fetched));
  EXPECT_EQ(Report("status")["drain"]["untold"], 0);
  EXPECT_EQ(Text("reload"), "no export has changed\n");
  EXPECT_FALSE(IsFlagged(*fetched));
}

// Shows DAFS-5.3-04.
TEST_F(LocationsTest, EachExportHasLocationsOfItsOwn) {
  mkdir(Path("b").c_str(), 0777);
  Export added = options_.exports[0];
  added.name = "/b";
  added.directory = Path("b");
  added.failover = {{"other.example", "/b"}};
  (*wanted_)[0].failover = {{"one.example", "/a"}};
  wanted_->push_back(added);
  Text("reload");
  auto client = Session("c1");
  const wire::FileHandle a = LookUp(*client, {"a"}), b = LookUp(*client, {"b"});
  EXPECT_THAT(ServersIn(client->Call(Fetch(a)).res), testing::ElementsAre("one.example"));
  EXPECT_THAT(ServersIn(client->Call(Fetch(b)).res), testing::ElementsAre("other.example"));
  EXPECT_THAT(ServersIn(client->Call(Fetch(Root(*client))).res), testing::IsEmpty());
  // The flag stays until every value that has changed was fetched.
  (*wanted_)[0].failover.clear();
  (*wanted_)[1].failover.clear();
  Text("reload");
  client->Call(Fetch(a));
  EXPECT_TRUE(IsFlagged(*client));
  client->Call(Fetch(b));
  EXPECT_FALSE(IsFlagged(*client));
}

TEST_F(LocationsTest, DrainToAnotherMachineTakesNoNewClientsAndFlagsAnswersToTheOthers) {
  auto client = Session("c1");
  const wire::FileHandle file = LookUp(*client, {"a"});
  client->Call(Fetch(file));
  EXPECT_THAT(Refusal("end"), HasSubstr("not draining"));
  for (const char* bad :
       {"drain to ", "drain to a b", "drain to /x", "drain to h:0", "drain to h:x"}) {
    EXPECT_THAT(Refusal(bad), HasSubstr("HOST")) << bad;
  }
  EXPECT_FALSE(IsFlagged(*client));
  EXPECT_THAT(Text("drain to b.example:7"), HasSubstr("draining"));
  EXPECT_TRUE(IsFlagged(*client));
  EXPECT_THAT(ServersIn(client->Call(Fetch(file)).res), testing::ElementsAre("b.example:7"));
  EXPECT_FALSE(IsFlagged(*client));
  auto late = Connection();
  EXPECT_EQ(late->Call(ConnectArgs("c3")).name(), "DAFSERR_DELAY");
}

TEST_F(AdminTest, TheSocketOfAnotherServerIsKept) {
  ServerOptions options = options_;
  mkdir(Path("state2").c_str(), 0700);
  options.state_dir = Path("state2");
  auto second = Server::Start(options, Providers());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(options_.admin_socket), HasSubstr("--admin-socket")));
  // The default does not keep the server from serving.
  options.is_admin_socket_default = true;
  second = Server::Start(options, Providers());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Report("status")["state_directory"], Path("state"));
  second->reset();
  EXPECT_EQ(Report("status")["state_directory"], Path("state"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.admin_socket));
}

TEST(AdminText, AListThatIsCutSaysSo) {
  const Json report = {{"opens",
                        {{{"file", ""},
                          {"export", "/a"},
                          {"handle", "0102"},
                          {"client", ""},
                          {"client_id", "00ff"},
                          {"access", "read"},
                          {"kind", "open"}}}},
                       {"cut", true}};
  EXPECT_THAT(OpensReportText(report), AllOf(HasSubstr("/a: handle 0102"), HasSubstr("00ff"),
                                             HasSubstr("only 1 are shown; there are more")));
}

}  // namespace
}  // namespace dafs::server
