// The record of clients is missing or damaged when the server starts.
#include <filesystem>
#include <fstream>
#include <ostream>

#include "tests/server/clients/grace_fixture.h"

namespace dafs::server {
namespace {

// Damage to the record of clients while the server is down.
struct Damage {
  const char* name;
  void (*inflict)(const std::string& path);
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

void Overwrite(const std::string& path, std::streamoff at, const std::string& with) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file << with;
}

const Damage kDamages[] = {
    {"missing", [](const std::string& path) { std::filesystem::remove(path); }},
    {"one byte shorter",
     [](const std::string& path) {
       std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
     }},
    {"one byte longer",
     [](const std::string& path) {
       std::filesystem::resize_file(path, std::filesystem::file_size(path) + 1);
     }},
    {"empty", [](const std::string& path) { std::filesystem::resize_file(path, 0); }},
    {"wrong magic", [](const std::string& path) { Overwrite(path, 0, "client99"); }},
    {"a record overwritten",
     [](const std::string& path) { Overwrite(path, 4096, std::string(1280, 'x')); }},
    {"a page erased",
     [](const std::string& path) { Overwrite(path, 4096, std::string(4096, '\0')); }},
    {"garbage",
     [](const std::string& path) {
       Overwrite(path, 0, std::string(std::filesystem::file_size(path), '\xa5'));
     }},
};

class DamagedRecordTest : public GraceTest, public testing::WithParamInterface<Damage> {
 protected:
  void RestartWithDamage() {
    server_.reset();
    GetParam().inflict(Path("state/clients"));
    StartServer();
  }
};

INSTANTIATE_TEST_SUITE_P(All, DamagedRecordTest, testing::ValuesIn(kDamages));

TEST_P(DamagedRecordTest, ProtectsTheLocksOfTheOldClients) {
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  RestartWithDamage();
  if (HasFatalFailure()) return;
  auto other = Client("c2");
  EXPECT_EQ(Open(*other, "f").name(), kGrace);
  EXPECT_EQ(Read(*other, held.res.filehandle).name(), kGrace);
  StartServer();  // a second restart changes nothing
  other = Client("c2");
  EXPECT_EQ(Open(*other, "f").name(), kGrace);
  auto after = Client("c1");
  auto reclaimed = Reclaim(*after, held.res.filehandle);
  ASSERT_EQ(reclaimed.name(), kOk);
  EXPECT_EQ(Lock(*after, reclaimed.res, 0, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Lock(*after, reclaimed.res, 20, wire::kLockReclaim).name(), kOk);
  EXPECT_EQ(Open(*other, "f").name(), kGrace);
}

TEST_P(DamagedRecordTest, ClientsWaitOnlyForTheGracePeriod) {
  options_.grace_time = absl::Milliseconds(300);
  options_.lease_time = absl::Milliseconds(800);
  auto before = Client("c1");
  auto held = OpenWithTwoLocks(*before);
  RestartWithDamage();
  if (HasFatalFailure()) return;
  auto other = Client("c2");
  EXPECT_EQ(OpenWhenPossible(*other, "f", 0), kOk);
  auto after = Client("c1");
  EXPECT_EQ(Reclaim(*after, held.res.filehandle).name(), kExpired);
  StartServer();
  other = Client("c3");
  EXPECT_EQ(Open(*other, "g").name(), kOk);
}

}  // namespace
}  // namespace dafs::server
