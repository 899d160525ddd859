#include "fuse/cache/live_record.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/session/in_flight.h"
#include "wire/dat/iwarp/crc32c.h"

namespace dafs::fuse {
namespace {

// Address space only: a page takes memory when it is first written.
constexpr LiveRecord::Slot kMostSlots = LiveRecord::Slot{1} << 22;
constexpr size_t kSlotsBytes = size_t{kMostSlots} * LiveRecord::kSlotBytes;
constexpr size_t kBytes = kSlotsBytes + client::InFlightTable::kBytes;
constexpr uint32_t kPageBytes = 4096;

struct Header {
  // Zero: the slot is free. Otherwise kUsed and a CRC32C of the header from `key` on and the body.
  uint64_t state = 0;
  uint64_t count = 0;  // not under the checksum: it is changed by one store
  uint64_t key = 0;
  uint64_t version = 0;
  uint32_t size = 0;  // of the body
  uint8_t kind = 0;
  std::array<uint8_t, 3> unused = {};
};
static_assert(sizeof(Header) == LiveRecord::kHeaderBytes);
constexpr uint64_t kUsed = uint64_t{1} << 32;

// Slots are numbered from 1.
constexpr size_t OffsetOf(LiveRecord::Slot slot) {
  return size_t{slot - 1} * LiveRecord::kSlotBytes;
}

uint64_t StateOf(const Header& header, std::span<const std::byte> body) {
  const auto rest = std::as_bytes(std::span(&header, 1)).subspan(offsetof(Header, key));
  return kUsed | dat::iwarp::ExtendCrc32c(dat::iwarp::ExtendCrc32c(0, rest), body);
}

// Another process reads them after this one was killed.
std::atomic_ref<uint64_t> StateAt(std::byte* slot) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(slot));
}
std::atomic_ref<uint64_t> CountAt(std::byte* slot) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(slot + offsetof(Header, count)));
}

// nullopt: it is free or was not finished.
std::optional<Header> HeaderAt(const std::byte* slot) {
  Header header;
  std::memcpy(&header, slot, sizeof(header));
  if (header.state == 0 || header.size > LiveRecord::kMostBody) return std::nullopt;
  if (StateOf(header, {slot + sizeof(header), header.size}) != header.state) return std::nullopt;
  return header;
}

// The items of a record, each as it was changed last.
class Items {
 public:
  void Add(const std::byte* slot) {
    const std::optional<Header> header = HeaderAt(slot);
    if (!header.has_value()) return;
    const std::pair<uint8_t, uint64_t> key(header->kind, header->key);
    const auto [known, is_new] = index_.try_emplace(key, items_.size());
    if (is_new) {
      items_.emplace_back();
      versions_.push_back(header->version);
    } else if (versions_[known->second] > header->version) {
      return;
    }
    const std::byte* const body = slot + sizeof(Header);
    versions_[known->second] = header->version;
    items_[known->second] = {header->kind, header->key, {body, body + header->size}, header->count};
  }
  std::vector<LiveRecord::Item> Take() { return std::move(items_); }

 private:
  std::vector<LiveRecord::Item> items_;
  std::vector<uint64_t> versions_;  // of items_
  absl::flat_hash_map<std::pair<uint8_t, uint64_t>, size_t> index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveRecord>> LiveRecord::Create() {
  // ftruncate(2) beyond this limit would end the process.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < kBytes) {
    return absl::ResourceExhaustedError("RLIMIT_FSIZE is too small");
  }
  UniqueFd memfd(memfd_create("dafs-live-record", MFD_CLOEXEC));
  if (!memfd.valid() || ftruncate(memfd.get(), kBytes) != 0) {
    return absl::ErrnoToStatus(errno, "memfd_create");
  }
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  madvise(memory, kBytes, MADV_DONTDUMP);
  return std::unique_ptr<LiveRecord>(
      new LiveRecord(std::move(memfd), static_cast<std::byte*>(memory)));
}

LiveRecord::LiveRecord(UniqueFd memfd, std::byte* memory)
    : memfd_(std::move(memfd)), memory_(memory) {}

LiveRecord::~LiveRecord() { munmap(memory_, kBytes); }

LiveRecord::Slot LiveRecord::Take() {
  absl::MutexLock lock(&mutex_);
  if (free_.empty()) return next_ > kMostSlots ? 0 : next_++;
  const Slot slot = free_.back();
  free_.pop_back();
  return slot;
}

LiveRecord::Slot LiveRecord::Put(uint8_t kind, uint64_t key, std::span<const std::byte> body,
                                 uint64_t count, Slot old) {
  const Slot slot = body.size() <= kMostBody ? Take() : 0;
  if (slot != 0) {
    Header header;
    header.count = count;
    header.key = key;
    header.version = version_.fetch_add(1, std::memory_order_relaxed) + 1;
    header.size = static_cast<uint32_t>(body.size());
    header.kind = kind;
    std::byte* const at = memory_ + OffsetOf(slot);
    std::memcpy(at + sizeof(header.state),
                reinterpret_cast<std::byte*>(&header) + sizeof(header.state),
                sizeof(header) - sizeof(header.state));
    if (!body.empty()) std::memcpy(at + sizeof(header), body.data(), body.size());
    StateAt(at).store(StateOf(header, body), std::memory_order_release);
  }
  Drop(old);
  return slot;
}

void LiveRecord::SetCount(Slot slot, uint64_t count) {
  CountAt(memory_ + OffsetOf(slot)).store(count, std::memory_order_relaxed);
}

void LiveRecord::Drop(Slot slot) {
  if (slot == 0) return;
  StateAt(memory_ + OffsetOf(slot)).store(0, std::memory_order_release);
  absl::MutexLock lock(&mutex_);
  free_.push_back(slot);
}

// The state of a free slot is zero, with its page or without. The list is taken out meanwhile, so
// that no request waits; a new item gets a slot that was never used.
void LiveRecord::ReleaseUnused() {
  constexpr size_t kInPage = kPageBytes / kSlotBytes;
  std::vector<Slot> free;
  {
    absl::MutexLock lock(&mutex_);
    free.swap(free_);
  }
  std::sort(free.begin(), free.end());
  for (size_t i = 0; i + kInPage <= free.size(); ++i) {
    if (OffsetOf(free[i]) % kPageBytes != 0) continue;
    if (free[i + kInPage - 1] != free[i] + kInPage - 1) continue;
    madvise(memory_ + OffsetOf(free[i]), kPageBytes, MADV_REMOVE);
    i += kInPage - 1;
  }
  std::reverse(free.begin(), free.end());  // the first slots are used first
  absl::MutexLock lock(&mutex_);
  free.insert(free.end(), free_.begin(), free_.end());
  free_.swap(free);
}

std::span<std::byte> LiveRecord::in_flight() const {
  return {memory_ + kSlotsBytes, client::InFlightTable::kBytes};
}

std::vector<std::byte> LiveRecord::ReadInFlight(int memfd) {
  std::vector<std::byte> bytes(client::InFlightTable::kBytes);
  const ssize_t got = pread(memfd, bytes.data(), bytes.size(), off_t{kSlotsBytes});
  if (got != static_cast<ssize_t>(bytes.size())) return {};
  return bytes;
}

absl::StatusOr<std::vector<LiveRecord::Item>> LiveRecord::Read(int memfd) {
  struct stat info;
  if (fstat(memfd, &info) != 0) return absl::ErrnoToStatus(errno, "read the record of the mount");
  if (static_cast<size_t>(info.st_size) != kBytes) {
    return absl::DataLossError("the record of the mount is damaged: it has another length");
  }
  void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, memfd, 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  const auto* const memory = static_cast<const std::byte*>(mapped);
  Items found;
  // Only the pages that were ever used; the rest of the file is a hole.
  off_t at = 0;
  while ((at = lseek(memfd, at, SEEK_DATA)) >= 0) {
    const off_t hole = std::min(lseek(memfd, at, SEEK_HOLE), off_t{kSlotsBytes});
    if (hole <= at) break;
    for (; at < hole; at += kSlotBytes) found.Add(memory + at);
  }
  munmap(mapped, kBytes);
  return found.Take();
}

}  // namespace dafs::fuse
