// Rules common to all responses: the order of the checks of a request, the response header, and
// whether a result follows it. Spec: WIRE 3.2, 9.2, 9.3.
#include <functional>
#include <set>

#include "tests/server/server_fixture.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {
namespace {

using wire::Proc;

constexpr size_t kHeader = 40;

bool Connects(Proc proc) {
  return proc == Proc::kClientConnect || proc == Proc::kClientConnectAuth ||
         proc == Proc::kConnectBind;
}
// Procedures that a client implements.
bool NotOffered(const wire::ProcInfo& info) { return info.direction == wire::Direction::kToClient; }
bool IsSetattr(Proc proc) { return proc == Proc::kSetattrInline || proc == Proc::kSetattrDirect; }

class AnswersTest : public ServerTest {
 protected:
  struct Answer {
    std::string name;
    size_t bytes = 0;
    wire::ResponseHeader header;
  };
  // Changes the request of each procedure before it is sent.
  using Change = std::function<void(Bytes& message)>;

  // Sends `message` and checks what holds for every response.
  static Answer Ask(RawClient& client, const Bytes& message) {
    EXPECT_TRUE(client.Send(message));
    const std::optional<Bytes> bytes = client.Receive();
    if (!bytes) return {"closed", 0, {}};
    auto asked = wire::DecodeRequestHeader(message, client.order);
    auto answer = wire::DecodeResponseHeader(*bytes, client.order);
    if (!asked.ok() || !answer.ok()) return {"malformed", 0, {}};
    EXPECT_EQ(answer->header.stream_id, asked->header.stream_id);
    EXPECT_EQ(answer->header.seq_number, asked->header.seq_number);
    EXPECT_EQ(answer->header.analyzer, asked->header.analyzer);
    EXPECT_EQ(answer->header.spec_cond, 0);
    EXPECT_GE(answer->header.target_nreq, 1);
    for (size_t i = 36; i < kHeader; ++i) EXPECT_EQ((*bytes)[i], std::byte{0}) << "reserved";
    return {std::string(wire::Name(answer->header.status)), bytes->size(), answer->header};
  }

  // Sends one request of every procedure, with arguments that are zero where possible.
  static void ForEach(RawClient& client, const Change& change,
                      const std::function<void(const wire::ProcInfo&, const Answer&)>& expect) {
    for (const wire::ProcInfo& info : wire::kProcedures) {
      SCOPED_TRACE(info.name);
      wire::VisitProc(info.number, [&]<Proc kProc>() {
        Bytes message = client.Encode(client.Header(), typename wire::ProcTraits<kProc>::Args());
        change(message);
        expect(info, Ask(client, message));
      });
    }
  }

  static void Put(Bytes& message, size_t at, uint32_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) message[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
  static void Unchanged(Bytes&) {}
};

// Shows DAFS-6.1.3-04; WIRE 9.2 step 4.
TEST_F(AnswersTest, WithoutASessionOnlyConnectingIsAllowed) {
  StartServer();
  auto client = Connection();
  ForEach(*client, Unchanged, [](const wire::ProcInfo& info, const Answer& answer) {
    if (Connects(info.number)) return;
    EXPECT_EQ(answer.name, "DAFSERR_ILLEGAL_STATE");
    EXPECT_EQ(answer.bytes, kHeader);
    EXPECT_EQ(answer.header.target_nreq, 1);
  });
}

// WIRE 9.2 step 5 comes before the later checks.
TEST_F(AnswersTest, WithoutAuthenticationOnlyAuthenticatingIsAllowed) {
  StartServer();
  auto client = Connection();
  wire::ClientConnectArgs connect;
  connect.client_id_string = "nobody yet";
  ASSERT_EQ(client->Call(connect).name(), "DAFS_STATUS_OK");
  ForEach(
      *client, [](Bytes& message) { Put(message, 10, wire::kChfBack, 2); },
      [](const wire::ProcInfo& info, const Answer& answer) {
        if (Connects(info.number)) {
          EXPECT_EQ(answer.name, "DAFSERR_ILLEGAL_STATE");
        } else if (info.number == Proc::kClientAuth || info.number == Proc::kSecinfo ||
                   info.number == Proc::kDisconnect) {
          EXPECT_EQ(answer.name, "DAFSERR_CHAIN_FORM");
        } else {
          EXPECT_EQ(answer.name, "DAFSERR_NOT_AUTHENTICATED");
        }
        EXPECT_EQ(answer.bytes, kHeader);
      });
}

// If a request has two faults, the earlier step of 9.2 decides the status, for every procedure.
TEST_F(AnswersTest, FirstFaultDecidesTheStatus) {
  StartServer();
  auto client = Session();
  struct Step {
    const char* status;
    Change fault;
  };
  // From the last step to the first: each fault is found before those listed above it.
  const Step steps[] = {
      {"DAFSERR_NO_CREDS", [](Bytes& m) { Put(m, 28, 0x77777777, 4); }},
      {"DAFSERR_INVAL", [](Bytes& m) { Put(m, 12, 60000, 2); }},  // stream_id
      {"DAFSERR_CHAIN_FORM", [](Bytes& m) { Put(m, 10, 0x8000, 2); }},
      {"DAFSERR_NOTSUPP", [](Bytes& m) { Put(m, 32, 107, 4); }},
      {"DAFSERR_ILLEGAL_PROT", [](Bytes& m) { Put(m, 4, 9, 4); }},
  };
  for (size_t worst = 0; worst < std::size(steps); ++worst) {
    SCOPED_TRACE(steps[worst].status);
    ForEach(
        *client,
        [&](Bytes& message) {
          for (size_t i = 0; i <= worst; ++i) steps[i].fault(message);
        },
        [&](const wire::ProcInfo& info, const Answer& answer) {
          const bool prot = worst == std::size(steps) - 1;
          const bool renamed = worst >= std::size(steps) - 2;  // to procedure 107
          const char* expected = prot || renamed         ? steps[worst].status
                                 : Connects(info.number) ? "DAFSERR_ILLEGAL_STATE"
                                 : NotOffered(info)      ? "DAFSERR_NOTSUPP"
                                                         : steps[worst].status;
          EXPECT_EQ(answer.name, expected);
          // 9.3: of these statuses only INVAL has a result, that of SETATTR.
          const bool result = IsSetattr(info.number) && answer.name == "DAFSERR_INVAL";
          EXPECT_EQ(answer.bytes, result ? kHeader + 8 : kHeader);
        });
  }
  // On stream 0 the server has not received every number.
  ASSERT_TRUE(client->SendRequest(wire::NullArgs(), 1));
  EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
}

// WIRE 9.1, R15, step 6: with any arguments, and for every number that is in no table. Shows
// DAFS-7-13
TEST_F(AnswersTest, UnofferedProceduresReturnNotSupported) {
  StartServer();
  auto client = Session();
  for (const uint32_t number : {0u, 1u, 99u, 107u, 120u, 121u, 151u, 152u, 153u, 154u, 155u, 161u,
                                999u, 1004u, 1999u, 2000u, 0xffffffffu}) {
    for (const size_t bytes : {kHeader, kHeader + 8, size_t{1024}}) {
      Bytes message = client->Encode(client->Header(), wire::NullArgs());
      message.resize(bytes, std::byte{0xff});
      Put(message, 32, number, 4);
      Put(message, 36, static_cast<uint32_t>(bytes), 4);
      EXPECT_EQ(Ask(*client, message).name, "DAFSERR_NOTSUPP") << number << ", " << bytes;
    }
  }
  // In a chain it counts as a failed member.
  Bytes member = client->Encode(client->Header(0, wire::kChfForw), wire::NullArgs());
  Put(member, 32, 120, 4);
  EXPECT_EQ(Ask(*client, member).name, "DAFSERR_NOTSUPP");
  member = client->Encode(client->Header(0, wire::kChfBack), wire::NullArgs());
  EXPECT_EQ(Ask(*client, member).name, "DAFSERR_CHAIN_BROKEN");
}

// Step 10: a truncated fixed section, for procedures that have one.
TEST_F(AnswersTest, TruncatedFixedSectionReturnsInvalid) {
  StartServer();
  auto client = Session();
  ForEach(
      *client,
      [](Bytes& message) {
        auto header = wire::DecodeRequestHeader(message, wire::ByteOrder::kLittle);
        const wire::ProcInfo* info = wire::FindProc(header->header.procedure);
        if (info->args_size == 0)
          return Put(message, 10, 0x8000, 2);  // otherwise the server would execute it
        message.resize(kHeader + (info->args_size - 1u) / 8 * 8);
        Put(message, 36, static_cast<uint32_t>(message.size()), 4);
      },
      [](const wire::ProcInfo& info, const Answer& answer) {
        if (info.args_size == 0 || Connects(info.number) || NotOffered(info)) return;
        EXPECT_EQ(answer.name, "DAFSERR_INVAL");
        EXPECT_EQ(answer.bytes, IsSetattr(info.number) ? kHeader + 8 : kHeader);
      });
}

// WIRE 9.4 OPEN: with an error, all fields except filehandle and component_count are zero.
TEST_F(AnswersTest, OpenThatFailsAfterTheLookupReturnsNoStateId) {
  StartServer();
  WriteFile("a/f", "content");
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0644), 0);
  auto client = Session();
  wire::RegisterCredArgs user;
  user.cred_type = wire::CredType::kId;
  user.uid = user.gid = 1000;
  auto registered = client->Call(user);
  ASSERT_EQ(registered.name(), "DAFS_STATUS_OK");
  client->cred_handle = registered.res.cred_handle;
  // The user may open it for reading, but not truncate it.
  wire::OpenArgs open = OpenArgs(Root(*client), "f", true);
  open.pathname = {"a", "f"};
  open.share_access = 1;
  open.createattrs.set(wire::kFattrObjectSize);
  auto reply = client->Call(open);
  EXPECT_EQ(reply.name(), "DAFSERR_ACCES");
  EXPECT_EQ(reply.message.size(), kHeader + 152);
  EXPECT_EQ(reply.res.component_count, 1u);
  EXPECT_TRUE(reply.res.state_id.is_zero());
  EXPECT_EQ(server_->open_count(), 0u);
  EXPECT_EQ(ReadFile("a/f"), "content");
}

}  // namespace
}  // namespace dafs::server
