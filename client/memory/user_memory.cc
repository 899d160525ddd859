#include "client/memory/user_memory.h"

#include "absl/strings/str_cat.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// A handle is {generation, 16 bits; index plus one, 16 bits}.
constexpr size_t kMostEntries = 0xffff;

dat::Access AccessOf(MemoryAccess access) {
  switch (access) {
    case MemoryAccess::kReads:
      return dat::Access::kRemoteWrite;
    case MemoryAccess::kWrites:
      return dat::Access::kRemoteRead;
    case MemoryAccess::kBoth:
      break;
  }
  return dat::Access::kRemoteBoth;
}

bool Allows(dat::Access granted, dat::Access needed) {
  return (static_cast<unsigned>(granted) & static_cast<unsigned>(needed)) != 0;
}

}  // namespace

UserMemory::~UserMemory() = default;

const UserMemory::Entry* UserMemory::Find(MemoryHandle handle) const {
  const size_t place = handle.value & 0xffff;
  if (place == 0 || place > entries_.size()) return nullptr;
  const Entry& entry = entries_[place - 1];
  return !entry.memory.empty() && entry.generation == handle.value >> 16 ? &entry : nullptr;
}

UserMemory::Entry* UserMemory::Find(MemoryHandle handle) {
  return const_cast<Entry*>(static_cast<const UserMemory*>(this)->Find(handle));
}

absl::StatusOr<MemoryHandle> UserMemory::Register(std::span<std::byte> memory,
                                                  MemoryAccess access) {
  if (memory.empty()) return absl::InvalidArgumentError("register memory: no bytes");
  size_t index = 0;
  while (index < entries_.size() && !entries_[index].memory.empty()) ++index;
  if (index == kMostEntries) {
    return absl::ResourceExhaustedError(absl::StrCat("register memory: ", kMostEntries,
                                                     " regions are registered; "
                                                     "register fewer and larger ones"));
  }
  std::unique_ptr<dat::Region> region;
  if (domain_ != nullptr) {
    const dat::Access right = by_windows_ ? dat::Access::kWindows : AccessOf(access);
    ASSIGN_OR_RETURN(region, domain_->Register(memory, right));
  }
  if (index == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[index];
  entry.memory = memory;
  entry.access = AccessOf(access);
  ++entry.generation;
  entry.region = std::move(region);
  bytes_ += memory.size();
  return MemoryHandle{static_cast<uint32_t>(entry.generation) << 16 |
                      static_cast<uint32_t>(index + 1)};
}

absl::Status UserMemory::Deregister(MemoryHandle handle) {
  Entry* entry = Find(handle);
  if (entry == nullptr) return absl::NotFoundError("deregister memory: it is not registered");
  if (entry->uses > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("deregister memory: ", entry->uses, " segments of outstanding I/O use it"));
  }
  bytes_ -= entry->memory.size();
  entry->memory = {};
  entry->region.reset();
  return absl::OkStatus();
}

absl::Status UserMemory::Check(const MemorySegment& segment, bool for_write) const {
  const Entry* entry = Find(segment.handle);
  if (entry == nullptr) return absl::NotFoundError("the memory handle names no memory");
  const auto begin = reinterpret_cast<uintptr_t>(entry->memory.data());
  const auto at = reinterpret_cast<uintptr_t>(segment.data);
  if (at < begin || at - begin > entry->memory.size() ||
      segment.size > entry->memory.size() - (at - begin)) {
    return absl::OutOfRangeError(absl::StrCat("a segment of ", segment.size,
                                              " bytes lies outside of its memory handle's ",
                                              entry->memory.size(), " bytes"));
  }
  if (!Allows(entry->access, for_write ? dat::Access::kRemoteRead : dat::Access::kRemoteWrite)) {
    return absl::PermissionDeniedError(for_write ? "the memory is registered for reads only"
                                                 : "the memory is registered for writes only");
  }
  return absl::OkStatus();
}

void UserMemory::BeginUse(MemoryHandle handle) {
  if (Entry* entry = Find(handle)) ++entry->uses;
}

void UserMemory::EndUse(MemoryHandle handle) {
  if (Entry* entry = Find(handle)) --entry->uses;
}

absl::StatusOr<wire::DirectOpBuffer> UserMemory::Expose(MemoryHandle handle, std::byte* at,
                                                        uint32_t size, bool for_write) const {
  const Entry* entry = Find(handle);
  DAFS_CHECK(entry != nullptr && entry->region != nullptr,
             "memory of the application is advertised without a session");
  return remote_access_.Expose(*entry->region, at, size,
                               for_write ? dat::Access::kRemoteRead : dat::Access::kRemoteWrite);
}

absl::Status UserMemory::RegisterAll(dat::Domain& domain, bool access_by_windows) {
  DeregisterAll();
  by_windows_ = access_by_windows;
  for (Entry& entry : entries_) {
    if (entry.memory.empty()) continue;
    const dat::Access right = by_windows_ ? dat::Access::kWindows : entry.access;
    ASSIGN_OR_RETURN(entry.region, domain.Register(entry.memory, right));
  }
  domain_ = &domain;
  return absl::OkStatus();
}

void UserMemory::DeregisterAll() {
  domain_ = nullptr;
  for (Entry& entry : entries_) entry.region.reset();
}

}  // namespace dafs::client
