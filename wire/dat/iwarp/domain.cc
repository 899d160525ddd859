#include "wire/dat/iwarp/domain.h"

#include <sys/random.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"

namespace dafs::dat::iwarp {
namespace {

constexpr uint32_t kMaxRegions = 0xffff;  // slots have 16 bits of the STag
constexpr uint64_t kPageBytes = 4096;     // peers see the offset in the page: it shows alignment

uint64_t RandomBits() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) == static_cast<ssize_t>(sizeof(bits))) return bits;
  std::random_device device;  // for a kernel without getrandom(2)
  return (uint64_t{device()} << 32) | device();
}

// Whether a peer can reach the region by the region's own context.
bool CanBeReached(Access access) { return access != Access::kLocal && access != Access::kWindows; }

}  // namespace

IwarpRegion::~IwarpRegion() { domain_.Deregister(this); }

IwarpDomain::IwarpDomain() = default;
IwarpDomain::~IwarpDomain() = default;

absl::StatusOr<std::unique_ptr<Region>> IwarpDomain::Register(std::span<std::byte> memory,
                                                              Access access) {
  if (memory.empty()) {
    return absl::InvalidArgumentError("register: a region of 0 bytes");
  }
  uint32_t slot = 0;
  if (slots_.size() < kMaxRegions) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.push_back(nullptr);
  } else if (!free_slots_.empty()) {
    slot = free_slots_.front();
    free_slots_.pop_front();
  } else {
    return absl::ResourceExhaustedError(
        absl::StrCat("register ", memory.size(), " bytes: all ", kMaxRegions,
                     " regions of the session are in use; register fewer and larger regions"));
  }
  const uint64_t random = RandomBits();
  // The key is never zero, because STag 0 names nothing.
  const uint32_t key = 1 + static_cast<uint32_t>(random % 0xffff);
  const uint64_t page = (RandomBits() >> 17) / kPageBytes * kPageBytes;  // below 2^47: never wraps
  const uint64_t in_page = reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes;
  auto region =
      std::make_unique<IwarpRegion>(*this, memory, access, (key << 16) | slot, page + in_page);
  slots_[slot] = region.get();
  return region;
}

absl::Status IwarpDomain::windows() const {
  return absl::FailedPreconditionError(
      "over TCP this program would enforce them itself, at a cost and without more protection");
}

void IwarpDomain::Deregister(IwarpRegion* region) {
  const uint32_t slot = region->context() & 0xffff;
  slots_[slot] = nullptr;
  free_slots_.push_back(slot);
  for (RegionUser* user : users_) user->RegionGone(region->memory());
}

IwarpRegion* IwarpDomain::Find(uint32_t stag) const {
  const uint32_t slot = stag & 0xffff;
  if (slot >= slots_.size()) return nullptr;
  IwarpRegion* region = slots_[slot];
  if (region == nullptr || region->context() != stag || region->invalidated_) return nullptr;
  return region;
}

IwarpDomain::Verdict IwarpDomain::Check(uint32_t stag, uint64_t target_address, uint64_t size_bytes,
                                        Access needed, std::byte** at) const {
  IwarpRegion* region = Find(stag);
  if (region == nullptr) return Verdict::kInvalidStag;
  if (target_address + size_bytes < target_address) return Verdict::kWraps;
  const uint64_t region_bytes = region->memory().size();
  if (target_address < region->target_address()) return Verdict::kOutOfBounds;
  const uint64_t offset = target_address - region->target_address();
  if (offset > region_bytes || size_bytes > region_bytes - offset) return Verdict::kOutOfBounds;
  const auto granted = static_cast<uint8_t>(region->access());
  if ((granted & static_cast<uint8_t>(needed)) != static_cast<uint8_t>(needed)) {
    return Verdict::kNoAccess;
  }
  *at = region->memory().data() + offset;
  return Verdict::kAllowed;
}

bool IwarpDomain::Invalidate(uint32_t stag) {
  IwarpRegion* region = Find(stag);
  if (region == nullptr || !CanBeReached(region->access())) return false;
  region->invalidated_ = true;
  return true;
}

bool IwarpDomain::Contains(const Segment& segment) const {
  if (segment.size_bytes == 0) return true;
  if (segment.region == nullptr) return false;
  const auto* region = static_cast<const IwarpRegion*>(segment.region);
  if (&region->domain_ != this) return false;
  const auto begin = reinterpret_cast<uintptr_t>(region->memory().data());
  const auto at = reinterpret_cast<uintptr_t>(segment.data);
  return at >= begin && at - begin <= region->memory().size() &&
         segment.size_bytes <= region->memory().size() - (at - begin);
}

void IwarpDomain::AddUser(RegionUser* user) { users_.push_back(user); }
void IwarpDomain::RemoveUser(RegionUser* user) { std::erase(users_, user); }

}  // namespace dafs::dat::iwarp
