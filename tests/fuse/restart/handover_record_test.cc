#include "fuse/restart/handover_record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/crc32c.h"

namespace dafs::fuse {
namespace {

constexpr size_t kHeader = 24;
constexpr size_t kVersionAt = 8;
constexpr size_t kCrcAt = 12;

template <class Id>
Id WireId(uint8_t first) {
  Id id;
  id.bytes[0] = first;
  return id;
}

wire::FileHandle RecordedHandle(uint8_t first) {
  wire::FileHandle handle;
  handle.fileid = WireId<wire::FileId>(first);
  return handle;
}

// One of each thing.
HandoverRecord Small() {
  HandoverRecord record;
  record.client_id_string = "host:/mnt/tag";
  record.verifier = WireId<wire::Verifier>(7);
  record.addresses = {std::string(16, '\2')};
  record.root_handles = {RecordedHandle(1)};
  const client::Identity user{1, 2, {3}};
  HandoverRecord::Open& open = record.opens.emplace_back();
  open.name = WireId<wire::StateId>(3);
  open.owner = "o";
  open.user = user;
  HandoverRecord::Lock& lock = record.locks.emplace_back();
  lock.file = RecordedHandle(2);
  lock.ranges = {{0, 9, true}};
  record.credentials.emplace_back().user = user;
  record.mount_point = "/mnt";
  InodeTable::Saved::Node node;
  node.nodeid = kRootNode;
  node.dentry = {1, "name"};
  node.change = 5;
  record.inodes.nodes = {node};
  HandoverRecord::File& file = record.files.emplace_back();
  file.fh = file.nodeid = 1;
  file.change = 9;
  record.directories.emplace_back().known_here.emplace_back().name = "n";
  HandoverRecord::Owner& owner = record.owners.emplace_back();
  owner.name = "p";
  owner.handles = {1, 2};
  record.waiting.push_back({.worker = 1, .bytes = "abc"});
  return record;
}

absl::StatusOr<HandoverRecord> Decode(const std::string& bytes) {
  return DecodeRecord(std::as_bytes(std::span(bytes)));
}

void MendCrc(std::string& bytes) {
  const uint32_t crc = ExtendCrc32c(0, std::as_bytes(std::span(bytes)).subspan(kHeader));
  std::memcpy(bytes.data() + kCrcAt, &crc, sizeof(crc));
}

TEST(HandoverRecordTest, DecodesWhatItEncodes) {
  const std::string bytes = EncodeRecord(Small());
  const absl::StatusOr<HandoverRecord> record = Decode(bytes);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(EncodeRecord(*record), bytes);
  EXPECT_EQ(record->mount_point, "/mnt");
  ASSERT_EQ(record->opens.size(), 1u);
  EXPECT_EQ(record->opens[0].user, (client::Identity{1, 2, {3}}));
  ASSERT_EQ(record->inodes.nodes.size(), 1u);
  EXPECT_EQ(record->inodes.nodes[0].dentry, (DentryName{1, "name"}));
  EXPECT_EQ(record->files[0].change, 9u);
  EXPECT_EQ(record->WaitingOf(1).size(), 1u);
  EXPECT_TRUE(record->WaitingOf(0).empty());
}

TEST(HandoverRecordTest, RefusesARecordWithAnyByteChanged) {
  const std::string bytes = EncodeRecord(Small());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    EXPECT_FALSE(Decode(damaged).ok()) << "byte " << at;
  }
}

TEST(HandoverRecordTest, RefusesARecordThatIsCutOrLonger) {
  const std::string bytes = EncodeRecord(Small());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decode(bytes.substr(0, size)).ok()) << size << " bytes";
  }
  EXPECT_FALSE(Decode(bytes + "x").ok());
}

// A program that can change the record can also mend its checksum.
TEST(HandoverRecordTest, SurvivesWrongFieldsWithARightChecksum) {
  const std::string bytes = EncodeRecord(Small());
  size_t refused = 0;
  for (size_t at = kHeader; at < bytes.size(); ++at) {
    for (const int with : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ with);
      MendCrc(damaged);
      const absl::StatusOr<HandoverRecord> record = Decode(damaged);
      if (record.ok()) {
        EXPECT_EQ(EncodeRecord(*record), damaged) << "byte " << at;
      } else {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0u);  // at least counts and lengths
}

TEST(HandoverRecordTest, SaysThatItHasAnotherVersion) {
  std::string bytes = EncodeRecord(Small());
  const uint32_t version = HandoverRecord::kVersion + 1;
  std::memcpy(bytes.data() + kVersionAt, &version, sizeof(version));
  const absl::Status status = Decode(bytes).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  const std::string versions =
      absl::StrCat("version ", version, ", not ", HandoverRecord::kVersion);
  EXPECT_NE(status.message().find(versions), absl::string_view::npos) << status;
}

TEST(HandoverRecordTest, ReadsWhatWasWrittenToAMemfd) {
  const absl::StatusOr<UniqueFd> memfd = WriteRecord(Small());
  ASSERT_TRUE(memfd.ok()) << memfd.status();
  const absl::StatusOr<HandoverRecord> record = ReadRecord(memfd->get());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(EncodeRecord(*record), EncodeRecord(Small()));
}

}  // namespace
}  // namespace dafs::fuse
