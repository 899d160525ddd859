#include "fuse/cache/record/live_record.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "client/exchange/in_flight.h"
#include "runtime/crc32c.h"

namespace dafs::fuse {
namespace {

// Address space only: a page takes memory when it is first written.
constexpr LiveRecord::Slot kMostSlots = LiveRecord::Slot{1} << 22;
constexpr size_t kSlotsBytes = size_t{kMostSlots} * LiveRecord::kSlotBytes;
constexpr size_t kBytes = kSlotsBytes + client::InFlightTable::kBytes;
constexpr uint32_t kPageBytes = 4096;
constexpr size_t RoundToPage(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

struct Header {
  // Zero: the slot is free. Otherwise kUsed and a CRC32C of the header from `key` on and the body.
  uint64_t state = 0;
  uint64_t count = 0;  // not under the checksum: it is changed by one store
  uint64_t key = 0;
  uint64_t version = 0;
  LiveRecord::Slot next = 0;  // the slot with the rest of the body; 0: this is all
  uint16_t part = 0;          // how many slots come before this one
  uint8_t size = 0;           // of the body in this slot
  uint8_t kind = 0;
};
static_assert(sizeof(Header) == LiveRecord::kHeaderBytes);
constexpr uint64_t kUsed = uint64_t{1} << 32;

// Slots are numbered from 1.
constexpr size_t OffsetOf(LiveRecord::Slot slot) {
  return size_t{slot - 1} * LiveRecord::kSlotBytes;
}

uint64_t StateOf(const Header& header, std::span<const std::byte> body) {
  const auto rest = std::as_bytes(std::span(&header, 1)).subspan(offsetof(Header, key));
  return kUsed | ExtendCrc32c(ExtendCrc32c(0, rest), body);
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
  if (header.state == 0 || header.size > LiveRecord::kSlotBody) return std::nullopt;
  if (StateOf(header, {slot + sizeof(header), header.size}) != header.state) return std::nullopt;
  return header;
}

// The items of a record, each as it was changed last.
class Items {
 public:
  explicit Items(const std::byte* memory) : memory_(memory) {}

  void Add(const std::byte* slot) {
    const std::optional<Header> header = HeaderAt(slot);
    if (!header.has_value() || header->part != 0) return;
    std::optional<std::vector<std::byte>> body = BodyOf(*header, slot);
    if (!body.has_value()) return;
    const std::pair<uint8_t, uint64_t> key(header->kind, header->key);
    const auto [known, is_new] = index_.try_emplace(key, items_.size());
    if (is_new) {
      items_.emplace_back();
      versions_.push_back(header->version);
    } else if (versions_[known->second] > header->version) {
      return;
    }
    versions_[known->second] = header->version;
    items_[known->second] = {header->kind, header->key, *std::move(body), header->count};
  }
  std::vector<LiveRecord::Item> Take() { return std::move(items_); }

 private:
  // nullopt: a part is missing.
  std::optional<std::vector<std::byte>> BodyOf(Header header, const std::byte* slot) {
    std::vector<std::byte> body;
    for (;;) {
      const std::byte* const begin = slot + sizeof(Header);
      body.insert(body.end(), begin, begin + header.size);
      if (header.next == 0) return body;
      // A true record has no more parts than slots, so a false one costs no more time.
      if (header.next > kMostSlots || ++parts_ > kMostSlots) return std::nullopt;
      slot = memory_ + OffsetOf(header.next);
      const std::optional<Header> next = HeaderAt(slot);
      if (!next.has_value() || next->kind != header.kind || next->key != header.key ||
          next->version != header.version || next->part != header.part + 1) {
        return std::nullopt;
      }
      header = *next;
    }
  }

  const std::byte* const memory_;
  size_t parts_ = 0;  // read so far, without the first ones
  std::vector<LiveRecord::Item> items_;
  std::vector<uint64_t> versions_;  // of items_
  absl::flat_hash_map<std::pair<uint8_t, uint64_t>, size_t> index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveRecord>> LiveRecord::Create(size_t data_bytes) {
  const size_t bytes = kBytes + RoundToPage(data_bytes);
  // ftruncate(2) beyond this limit would end the process.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) {
    return absl::ResourceExhaustedError("RLIMIT_FSIZE is too small");
  }
  UniqueFd memfd(memfd_create("dafs-live-record", MFD_CLOEXEC));
  if (!memfd.valid() || ftruncate(memfd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, "memfd_create");
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  madvise(memory, bytes, MADV_DONTDUMP);
  return std::unique_ptr<LiveRecord>(
      new LiveRecord(std::move(memfd), static_cast<std::byte*>(memory), bytes));
}

LiveRecord::LiveRecord(UniqueFd memfd, std::byte* memory, size_t bytes)
    : memfd_(std::move(memfd)), memory_(memory), bytes_(bytes), taken_(kBytes) {}

LiveRecord::~LiveRecord() { munmap(memory_, bytes_); }

std::span<std::byte> LiveRecord::TakeMemory(size_t bytes) {
  bytes = RoundToPage(bytes);
  const size_t at = taken_.fetch_add(bytes, std::memory_order_relaxed);
  if (at > bytes_ || bytes > bytes_ - at) return {};
  return {memory_ + at, bytes};
}

std::optional<uint64_t> LiveRecord::PlaceOf(std::span<const std::byte> data) const {
  const std::byte* const begin = memory_ + kBytes;
  const std::byte* const end = memory_ + bytes_;
  if (std::less<>()(data.data(), begin) || !std::less<>()(data.data(), end)) return std::nullopt;
  if (data.size() > static_cast<size_t>(end - data.data())) return std::nullopt;
  return data.data() - memory_;
}

bool LiveRecord::ReadData(int memfd, uint64_t place, std::span<std::byte> into) {
  if (place < kBytes || place > uint64_t{1} << 62) return false;
  const ssize_t got = pread(memfd, into.data(), into.size(), static_cast<off_t>(place));
  return got == static_cast<ssize_t>(into.size());
}

// All or none.
bool LiveRecord::Take(std::span<Slot> slots) {
  absl::MutexLock lock(&mutex_);
  if (free_.size() + (kMostSlots - next_ + 1) < slots.size()) return false;
  for (Slot& slot : slots) {
    if (free_.empty()) {
      slot = next_++;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
  }
  return true;
}

LiveRecord::Slot LiveRecord::Put(uint8_t kind, uint64_t key, std::span<const std::byte> body,
                                 uint64_t count, Slot old) {
  const size_t parts = std::max<size_t>(1, (body.size() + kSlotBody - 1) / kSlotBody);
  absl::InlinedVector<Slot, 8> slots(body.size() <= kMostBody ? parts : 0);
  if (slots.empty() || !Take({slots.data(), slots.size()})) {
    Drop(old);
    return 0;
  }
  Header header;
  header.count = count;
  header.key = key;
  header.version = version_.fetch_add(1, std::memory_order_relaxed) + 1;
  header.kind = kind;
  // The first part last: without it the others do not count.
  for (size_t part = parts; part-- > 0;) {
    const std::span<const std::byte> bytes =
        body.subspan(part * kSlotBody, std::min<size_t>(kSlotBody, body.size() - part * kSlotBody));
    header.part = static_cast<uint16_t>(part);
    header.size = static_cast<uint8_t>(bytes.size());
    header.next = part + 1 < parts ? slots[part + 1] : 0;
    std::byte* const at = memory_ + OffsetOf(slots[part]);
    std::memcpy(at + sizeof(header.state),
                reinterpret_cast<std::byte*>(&header) + sizeof(header.state),
                sizeof(header) - sizeof(header.state));
    if (!bytes.empty()) std::memcpy(at + sizeof(header), bytes.data(), bytes.size());
    StateAt(at).store(StateOf(header, bytes), std::memory_order_release);
  }
  Drop(old);
  return slots[0];
}

void LiveRecord::SetCount(Slot slot, uint64_t count) {
  if (slot != 0) CountAt(memory_ + OffsetOf(slot)).store(count, std::memory_order_relaxed);
}

void LiveRecord::AddToCount(Slot slot, uint64_t by) {
  if (slot != 0) CountAt(memory_ + OffsetOf(slot)).fetch_add(by, std::memory_order_relaxed);
}

uint64_t LiveRecord::KeyOf(Slot slot) const {
  uint64_t key = 0;
  std::memcpy(&key, memory_ + OffsetOf(slot) + offsetof(Header, key), sizeof(key));
  return key;
}

void LiveRecord::Drop(Slot slot) {
  if (slot == 0) return;
  absl::InlinedVector<Slot, 8> slots;
  while (slot != 0) {
    std::byte* const at = memory_ + OffsetOf(slot);
    StateAt(at).store(0, std::memory_order_release);
    slots.push_back(slot);
    std::memcpy(&slot, at + offsetof(Header, next), sizeof(slot));
  }
  absl::MutexLock lock(&mutex_);
  free_.insert(free_.end(), slots.begin(), slots.end());
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
  if (static_cast<size_t>(info.st_size) < kBytes) {
    return absl::DataLossError("the record of the mount is damaged: it has another length");
  }
  void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, memfd, 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  const auto* const memory = static_cast<const std::byte*>(mapped);
  Items found(memory);
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
