#include "fuse/mount/handover_record.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/iwarp/crc32c.h"

namespace dafs::fuse {
namespace {

struct Header {
  std::array<char, 8> magic = {'D', 'A', 'F', 'S', '-', 'r', 'e', 'c'};
  uint32_t version = HandoverRecord::kVersion;
  uint32_t crc = 0;  // CRC32C of the body
  uint64_t bytes = 0;
};

template <class T>
struct IsOpaque : std::false_type {};
template <class Tag, size_t N>
struct IsOpaque<wire::Opaque<Tag, N>> : std::true_type {};

// Stored like in memory: both programs run on this machine.
template <class T>
concept Plain = std::integral<T> || std::is_enum_v<T> || IsOpaque<T>::value ||
    std::same_as<T, wire::FileHandle>;

// The fields of each structure, once for both directions.
template <class M, class T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

void Fields(auto& a, Is<client::Identity> auto& m) { a(m.uid, m.gid, m.groups); }
void Fields(auto& a, Is<wire::LockRange> auto& m) { a(m.first, m.last, m.write); }
void Fields(auto& a, Is<Place> auto& m) { a(m.parent, m.name); }
void Fields(auto& a, Is<NodeNames::Saved> auto& m) {
  a(m.until_ns, m.change, m.seen, m.lost, m.others_until_ns);
}
void Fields(auto& a, Is<InodeTable::Saved::Node> auto& m) {
  a(m.nodeid, m.handle, m.type, m.file_id, m.lookups, m.place, m.names, m.newest, m.change,
    m.pages);
}
void Fields(auto& a, Is<InodeTable::Saved> auto& m) { a(m.generation, m.next, m.nodes); }
void Fields(auto& a, Is<HandoverRecord::Open> auto& m) {
  a(m.name, m.handle, m.owner, m.share_access, m.share_deny, m.executes, m.who, m.state_id,
    m.client_id, m.lost, m.lost_why, m.closing);
}
void Fields(auto& a, Is<HandoverRecord::Lock> auto& m) { a(m.file, m.open, m.process, m.ranges); }
void Fields(auto& a, Is<HandoverRecord::Credential> auto& m) { a(m.who, m.handle); }
void Fields(auto& a, Is<HandoverRecord::File> auto& m) {
  a(m.fh, m.nodeid, m.handle, m.state_id, m.flags, m.change, m.opener, m.by_own_right,
    m.owner_changed);
}
void Fields(auto& a, Is<HandoverRecord::Entry> auto& m) {
  a(m.cookie, m.name, m.handle, m.type, m.file_id);
}
void Fields(auto& a, Is<HandoverRecord::Directory> auto& m) {
  a(m.fh, m.nodeid, m.handle, m.opener, m.cookieverf, m.listed, m.known_here);
}
void Fields(auto& a, Is<HandoverRecord::Owner> auto& m) {
  a(m.nodeid, m.kernel_owner, m.number, m.process, m.name, m.state_id, m.pid, m.handles);
}
void Fields(auto& a, Is<HandoverRecord::Waiting> auto& m) { a(m.worker, m.bytes); }
void Fields(auto& a, Is<HandoverRecord> auto& m) {
  a(m.client_id_string, m.verifier, m.addresses, m.root_handles, m.max_read, m.max_write,
    m.max_append, m.lease_seconds, m.squashed, m.squashed_in_part, m.last_activity_ns, m.last_open,
    m.opens, m.locks, m.credentials_of, m.credentials);
  a(m.mount_point, m.by_mount8, m.default_permissions, m.requests_by, m.init_flags, m.next_owner,
    m.next_file, m.next_directory, m.inodes, m.files, m.directories, m.last_process, m.owners,
    m.waiting);
  a(m.restarts, m.asked_ns, m.blocked_ns, m.drained_ns, m.committed_ns);
}

class Writer {
 public:
  void operator()(const auto&... fields) { (Put(fields), ...); }
  std::string Take() { return std::move(out_); }

 private:
  template <Plain T>
  void Put(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Put(const std::string& text) {
    Put(uint64_t{text.size()});
    out_ += text;
  }
  template <class T>
  void Put(const std::vector<T>& list) {
    Put(uint64_t{list.size()});
    for (const T& one : list) Put(one);
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value.has_value()) Put(*value);
  }
  template <class T>
  requires(!Plain<T>) void Put(const T& structure) { Fields(*this, structure); }

  std::string out_;
};

// Keeps its first error; after it every field is as its default.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  void operator()(auto&... fields) { (Get(fields), ...); }
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> Take(uint64_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return {};
    }
    const std::span<const std::byte> taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  void Get(bool& value) {
    uint8_t byte = 0;
    Get(byte);
    if (byte > 1) ok_ = false;
    value = ok_ && byte == 1;
  }
  template <Plain T>
  requires(!std::same_as<T, bool>) void Get(T& value) {
    const std::span<const std::byte> bytes = Take(sizeof(value));
    if (ok_) std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(value));
  }
  void Get(std::string& text) {
    uint64_t size = 0;
    Get(size);
    const std::span<const std::byte> bytes = Take(size);
    if (ok_) text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <class T>
  void Get(std::vector<T>& list) {
    uint64_t count = 0;
    Get(count);
    // Each element takes a byte at least, so a wrong count ends at the end of the bytes.
    for (uint64_t i = 0; i < count && ok_; ++i) {
      T one = {};
      Get(one);
      if (ok_) list.push_back(std::move(one));
    }
  }
  template <class T>
  void Get(std::optional<T>& value) {
    bool has = false;
    Get(has);
    if (!has) return;
    T one = {};
    Get(one);
    if (ok_) value = std::move(one);
  }
  template <class T>
  requires(!Plain<T>) void Get(T& structure) { Fields(*this, structure); }

  std::span<const std::byte> in_;
  bool ok_ = true;
};

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the record of the mount is damaged: ",
                                          absl::string_view(what.data(), what.size())));
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
  Writer writer;
  writer(record);
  const std::string body = writer.Take();
  Header header;
  header.crc = dat::iwarp::ExtendCrc32c(0, std::as_bytes(std::span(body)));
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
  if (header.crc != dat::iwarp::ExtendCrc32c(0, body)) return Damaged("its checksum is wrong");
  HandoverRecord record;
  Reader reader(body);
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
