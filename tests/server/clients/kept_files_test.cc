// A server that cannot open a file in its state directory keeps that file. It discards no record of
// what was done and of what clients hold.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/clients/client_records.h"
#include "server/clients/response_cache.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/objects/orphan_record.h"

namespace dafs::server {
namespace {

// Leaves the process `count` further descriptors during the lifetime of the object.
class DescriptorsLeft {
 public:
  explicit DescriptorsLeft(rlim_t count) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = dup(STDERR_FILENO);
    close(next);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next) + count;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorsLeft(const DescriptorsLeft&) = delete;
  DescriptorsLeft& operator=(const DescriptorsLeft&) = delete;

 private:
  rlimit before_ = {};
};

class KeptFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dafs-kept-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<ResponseCache>> Responses() {
    return ResponseCache::Open({.state_dir = directory_}, absl::UnixEpoch());
  }
  absl::StatusOr<std::unique_ptr<ClientRecords>> Records() {
    return ClientRecords::Open(directory_, /*stable=*/false, has_served_);
  }
  absl::StatusOr<std::unique_ptr<WriteVerifier>> Verifier() {
    return WriteVerifier::Open(directory_, 1);
  }
  // Replaces the file with other content.
  void Spoil(const std::string& name) { std::ofstream(directory_ + "/" + name) << "not that"; }

  static void ExpectRefused(const absl::Status& status) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_NE(status.message().find("Too many open files"), std::string::npos) << status;
    EXPECT_NE(status.message().find("start again when it can be opened"), std::string::npos)
        << status;
  }

  // The log of a start with a response cache file of two pages, all zero except `bytes` from `at`
  // on.
  std::string LogOfResponses(size_t at, std::string_view bytes) {
    std::filesystem::create_directory(directory_ + "/responses");
    std::string content(2 * 4096, '\0');
    content.replace(at, bytes.size(), bytes);
    std::ofstream(directory_ + "/responses/0123456789abcdef") << content;
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Responses().ok());
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/responses/0123456789abcdef"));
    return testing::internal::GetCapturedStderr();
  }

  const CacheOwner owner_ = {.client_id_string = "c1",
                             .verifier = wire::OpaqueFromUint64<wire::Verifier>(1),
                             .principal = {.host = *PeerAddress::Parse("192.0.2.1")}};
  std::string directory_;
  bool has_served_ = false;
};

// A server that is killed while it writes the header of a new cache has left nothing that a client
// knows of.
TEST_F(KeptFilesTest, CacheThatNoSessionHasUsedIsNotCalledDamaged) {
  EXPECT_NE(LogOfResponses(8, "streams").find("empty; removed"), std::string::npos);
  EXPECT_NE(LogOfResponses(0, "dafrec99").find("damaged; removed"), std::string::npos);
  EXPECT_NE(LogOfResponses(4096, "slot").find("damaged; removed"), std::string::npos);
}

TEST_F(KeptFilesTest, ResponseCacheThatCannotBeOpenedIsKept) {
  const auto id = wire::OpaqueFromUint64<wire::SessionId>(7);
  {
    auto table = Responses();
    ASSERT_TRUE(table.ok()) << table.status();
    auto cache = (*table)->Create(id, wire::ByteOrder::kLittle, owner_, 4);
    ASSERT_NE(cache, nullptr);
    (*table)->Ended(*cache, /*keep=*/true, absl::UnixEpoch());
  }
  for (rlim_t left : {0u, 1u}) {  // for the directory, and for the files in it
    const DescriptorsLeft few(left);
    const absl::Status status = Responses().status();
    if (left == 1) ExpectRefused(status);
    EXPECT_FALSE(status.ok());
  }
  auto table = Responses();
  ASSERT_TRUE(table.ok()) << table.status();
  std::shared_ptr<SessionCache> cache;
  EXPECT_EQ((*table)->Find(id, owner_, wire::ByteOrder::kLittle, &cache), wire::DafsStatus::kOk);
}

TEST_F(KeptFilesTest, ClientRecordsThatCannotBeOpenedAreKept) {
  {
    auto records = Records();
    ASSERT_TRUE(records.ok()) << records.status();
    Holdings* holdings = (*records)->Take({"c1", owner_.verifier, owner_.principal, nullptr});
    ASSERT_NE(holdings, nullptr);
    ++holdings->opens;
  }
  {
    const DescriptorsLeft none(0);
    ExpectRefused(Records().status());
  }
  auto records = Records();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ((*records)->Owed().size(), 1u);
}

TEST_F(KeptFilesTest, WriteVerifierThatCannotBeOpenedIsKept) {
  uint64_t before = 0;
  {
    auto verifier = Verifier();
    ASSERT_TRUE(verifier.ok()) << verifier.status();
    (*verifier)->Change();
    before = (*verifier)->era();
  }
  {
    const DescriptorsLeft none(0);
    ExpectRefused(Verifier().status());
  }
  auto verifier = Verifier();
  ASSERT_TRUE(verifier.ok()) << verifier.status();
  EXPECT_EQ((*verifier)->era(), before);
}

// Clients without a record may hold any state until the grace period has ended.
TEST_F(KeptFilesTest, ClientsWithoutARecordAreUnknownUntilTheyAreForgotten) {
  has_served_ = true;
  {
    auto records = Records();  // missing
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_NE((*records)->Unknown(), nullptr);
  }
  {
    auto records = Records();
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_NE((*records)->Unknown(), nullptr);
    (*records)->Unknown()->ForgetLost();
  }
  auto records = Records();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ((*records)->Unknown(), nullptr);
}

TEST_F(KeptFilesTest, UnknownClientsAreForgottenAfterTheirPeriodEndedInPart) {
  has_served_ = true;
  for (const bool expects : {true, false}) {
    auto records = Records();  // missing at first
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ((*records)->Unknown() != nullptr, expects);
    (*records)->ExpireAbsent();
  }
}

TEST_F(KeptFilesTest, ClientBeyondTheRecordTableIsUnknownToTheNextInstance) {
  {
    auto records = Records();
    ASSERT_TRUE(records.ok()) << records.status();
    const auto take = [&](size_t number) {
      return (*records)->Take(
          {absl::StrCat("c", number), owner_.verifier, owner_.principal, nullptr});
    };
    for (size_t i = 0; i < ClientRecords::kSlots; ++i) ASSERT_NE(take(i), nullptr);
    EXPECT_EQ(take(ClientRecords::kSlots), nullptr);
    EXPECT_EQ((*records)->Unknown(), nullptr);
  }
  auto records = Records();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_NE((*records)->Unknown(), nullptr);
}

// Flips one bit in each byte of a record that identifies its client.
TEST_F(KeptFilesTest, DamagedRecordMakesItsClientUnknown) {
  constexpr size_t kFirst = 4096;  // the header
  constexpr size_t kHoldingsBegin =
      36;  // of a slot: counts change with each open and have no checksum
  constexpr size_t kHoldingsEnd = 64;
  for (size_t at = 0; at < 70; ++at) {
    if (at >= kHoldingsBegin && at < kHoldingsEnd) continue;
    std::filesystem::remove(directory_ + "/clients");
    {
      auto records = Records();
      ASSERT_TRUE(records.ok()) << records.status();
      Holdings* holdings = (*records)->Take({"c1", owner_.verifier, owner_.principal, nullptr});
      ASSERT_NE(holdings, nullptr);
      ++holdings->opens;
    }
    {
      std::fstream file(directory_ + "/clients", std::ios::in | std::ios::out | std::ios::binary);
      const auto place = static_cast<std::streamoff>(kFirst + at);
      file.seekg(place);
      const int byte = file.get();
      file.seekp(place);
      file.put(static_cast<char>(byte ^ 1));
    }
    auto records = Records();
    ASSERT_TRUE(records.ok()) << records.status();
    const bool is_padding = !(*records)->Owed().empty();
    EXPECT_EQ((*records)->Unknown() == nullptr, is_padding) << "byte " << at;
  }
}

TEST_F(KeptFilesTest, ValidOrphanRecordsSurviveBesideDamagedLines) {
  {
    OrphanRecord record(directory_);
    EXPECT_TRUE(record.entries().empty());
    for (const uint64_t subvolume : {0u, 256u, 257u, 256u}) {
      FileSystem fs;
      fs.fshandle.bytes[15] = 0xa7;
      fs.subvolume = subvolume;
      record.Add(fs);
    }
  }
  std::ofstream(directory_ + "/orphan-directories", std::ios::app) << "no handle\n12 34\n";
  OrphanRecord record(directory_);
  ASSERT_EQ(record.entries().size(), 3u);
  EXPECT_EQ(record.entries().front().fshandle.bytes[15], 0xa7);
  EXPECT_EQ(record.entries().back().subvolume, 257u);
  record.Remove(record.entries().front());
  EXPECT_EQ(record.entries().size(), 2u);
  EXPECT_EQ(OrphanRecord(directory_).entries(), record.entries());
}

// A file that was created but not completed holds no information.
TEST_F(KeptFilesTest, InvalidStateFilesAreReplaced) {
  ASSERT_EQ(mkdir((directory_ + "/responses").c_str(), 0700), 0);
  Spoil("responses/0123");
  Spoil("clients");
  Spoil("write-verifier");
  auto table = Responses();
  EXPECT_TRUE(table.ok()) << table.status();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/responses/0123"));
  EXPECT_TRUE(Records().ok()) << Records().status();
  EXPECT_TRUE(Verifier().ok()) << Verifier().status();
}

}  // namespace
}  // namespace dafs::server
