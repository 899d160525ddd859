#include "fuse/restart/handover_record.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fuse/cache/record/record_bytes.h"
#include "runtime/crc32c.h"
#include "runtime/text.h"

namespace dafs::fuse {

// Not in the unnamed namespace, where RecordWriter and RecordReader would not find them.

void Fields(auto& a, Is<DentryName> auto& m) { a(m.parent, m.name); }
void Fields(auto& a, Is<InodeDentries::Saved> auto& m) {
  a(m.until_ns, m.change, m.seen, m.lost, m.others_until_ns);
}
void Fields(auto& a, Is<InodeTable::Saved::Node> auto& m) {
  a(m.nodeid, m.handle, m.type, m.file_id, m.lookups, m.dentry, m.names, m.newest, m.change,
    m.pages);
}
void Fields(auto& a, Is<InodeTable::Saved> auto& m) { a(m.generation, m.next, m.nodes); }
void Fields(auto& a, Is<HandoverRecord::Open> auto& m) {
  a(m.name, m.handle, m.owner, m.share_access, m.share_deny, m.executes, m.user, m.state_id,
    m.client_id, m.lost, m.lost_why, m.closing, m.is_local);
}
void Fields(auto& a, Is<HandoverRecord::Lock> auto& m) {
  a(m.file, m.open, m.process, m.ranges, m.is_local);
}
void Fields(auto& a, Is<HandoverRecord::Delegation> auto& m) {
  a(m.file, m.state_id, m.client_id, m.user, m.was_write);
}
void Fields(auto& a, Is<HandoverRecord::Credential> auto& m) { a(m.user, m.handle); }
void Fields(auto& a, Is<HandoverRecord::Waiting> auto& m) { a(m.worker, m.bytes); }
void Fields(auto& a, Is<HandoverRecord> auto& m) {
  a(m.client_id_string, m.verifier, m.addresses, m.root_handles, m.max_read, m.max_write,
    m.max_append, m.lease_seconds, m.squashed, m.squashed_in_part, m.last_activity_ns, m.last_open,
    m.opens, m.locks, m.delegations, m.credentials_of, m.credentials);
  a(m.mount_point, m.place, m.by_mount8, m.default_permissions, m.requests_by, m.init_flags,
    m.next_owner, m.next_file, m.next_directory, m.inodes, m.files, m.directories, m.last_process,
    m.owners, m.waiting);
  a(m.restarts, m.asked_ns, m.blocked_ns, m.drained_ns, m.committed_ns);
}

namespace {

struct Header {
  std::array<char, 8> magic = {'D', 'A', 'F', 'S', '-', 'r', 'e', 'c'};
  uint32_t version = HandoverRecord::kVersion;
  uint32_t crc = 0;  // CRC32C of the body
  uint64_t bytes = 0;
};

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the record of the mount is damaged: ", Text(what)));
}

}  // namespace

std::vector<std::vector<std::byte>> HandoverRecord::WaitingOf(size_t worker) const {
  std::vector<std::vector<std::byte>> requests;
  for (const Waiting& one : waiting) {
    if (one.worker != worker) continue;
    const auto bytes = std::as_bytes(std::span(one.bytes));
    requests.emplace_back(bytes.begin(), bytes.end());
  }
  return requests;
}

std::string EncodeRecord(const HandoverRecord& record) {
  RecordWriter writer;
  writer(record);
  const std::string body = writer.Take();
  Header header;
  header.crc = ExtendCrc32c(0, std::as_bytes(std::span(body)));
  header.bytes = body.size();
  std::string all(reinterpret_cast<const char*>(&header), sizeof(header));
  return all + body;
}

absl::StatusOr<HandoverRecord> DecodeRecord(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return Damaged("it is too short");
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof(header));
  if (header.magic != Header().magic) return Damaged("it does not begin as one");
  if (header.version != HandoverRecord::kVersion) {
    return absl::UnimplementedError(absl::StrCat("the record of the mount has version ",
                                                 header.version, ", not ",
                                                 HandoverRecord::kVersion));
  }
  const std::span<const std::byte> body = bytes.subspan(sizeof(header));
  if (header.bytes != body.size()) return Damaged("it has another length");
  if (header.crc != ExtendCrc32c(0, body)) return Damaged("its checksum is wrong");
  HandoverRecord record;
  RecordReader reader(body);
  reader(record);
  if (!reader.ok() || !reader.at_end()) return Damaged("its fields do not fit");
  return record;
}

absl::StatusOr<UniqueFd> WriteRecord(const HandoverRecord& record) {
  const std::string bytes = EncodeRecord(record);
  UniqueFd memfd(memfd_create("dafs-record", MFD_CLOEXEC));
  if (!memfd.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t more = write(memfd.get(), bytes.data() + written, bytes.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return absl::ErrnoToStatus(errno, "write the record of the mount");
    written += static_cast<size_t>(more);
  }
  return memfd;
}

absl::StatusOr<HandoverRecord> ReadRecord(int memfd) {
  struct stat info;
  if (fstat(memfd, &info) != 0) return absl::ErrnoToStatus(errno, "read the record of the mount");
  const auto size = static_cast<size_t>(info.st_size);
  void* const bytes =
      size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, memfd, 0);
  if (bytes == MAP_FAILED) return Damaged("it cannot be read");
  absl::StatusOr<HandoverRecord> record =
      DecodeRecord({static_cast<const std::byte*>(bytes), size});
  munmap(bytes, size);
  return record;
}

}  // namespace dafs::fuse
