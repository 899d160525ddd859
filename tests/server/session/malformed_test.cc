// Sends every malformed request of the vectors to a live session in its byte order.
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "server/procedures/procedures.h"
#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

class MalformedTest : public ServerTest {};

Bytes FromHex(const std::string& hex) {
  const std::string raw = absl::HexStringToBytes(hex);
  Bytes bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

// Shows WIRE 9.2 (R45); every case of malformed.json with kind "request".
TEST_F(MalformedTest, EachReturnsItsStatusOrEndsOnlyItsOwnSession) {
  StartServer();
  std::ifstream file(DAFS_SOURCE_DIR "/tests/wire/vectors/malformed.json");
  ASSERT_TRUE(file.good());
  const nlohmann::json vectors = nlohmann::json::parse(file);
  auto bystander = Session("bystander");
  int count = 0;
  for (const auto& vector : vectors["cases"]) {
    if (vector["kind"] != "request") continue;
    const std::string name = vector["name"];
    SCOPED_TRACE(name);
    wire::ClientConnectAuthArgs connect = ConnectArgs("c-" + name);
    connect.max_request_size = 64 << 10;
    auto client = Session(connect, vector["byte_order"] == "little" ? wire::ByteOrder::kLittle
                                                                    : wire::ByteOrder::kBig);
    ASSERT_NE(client, nullptr);
    // The connect request had number 0x0100 on stream 0. The vectors use the next number.
    const Bytes message = FromHex(vector["hex"]);
    ++count;
    ASSERT_TRUE(client->Send(message));
    std::optional<Bytes> answer = client->Receive();
    if (vector["channel_closed"]) {
      EXPECT_FALSE(answer.has_value());
      continue;
    }
    ASSERT_TRUE(answer.has_value());
    auto header = wire::DecodeResponseHeader(*answer, client->order);
    ASSERT_TRUE(header.ok());
    // Step 6 of 9.2 comes first if the server does not implement the procedure.
    const auto proc = static_cast<wire::Proc>(vector["procedure"].get<uint32_t>());
    const std::string expected =
        vector["status_name"] == "DAFSERR_INVAL" && FindProcedure(kProcedureTable, proc) == nullptr
            ? "DAFSERR_NOTSUPP"
            : vector["status_name"];
    EXPECT_EQ(std::string(wire::Name(header->header.status)), expected);
    auto again = bystander->Call(wire::NullArgs());
    EXPECT_EQ(again.name(), "DAFS_STATUS_OK");
  }
  EXPECT_GT(count, 200);
}

}  // namespace
}  // namespace dafs::server
