// Registered memory of the iwarp provider: the STag table of a Domain.
// Spec: RFC 5040, 2.2 and 7 (access checks); RFC 5041, 5.1 (tagged buffers); B.5.
// A domain, its regions and the endpoints on it belong to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "wire/dat/dat.h"

namespace dafs::dat::iwarp {

class IwarpDomain;

class IwarpRegion final : public Region {
 public:
  IwarpRegion(IwarpDomain& domain, std::span<std::byte> memory, Access access, uint32_t stag,
              uint64_t target_address)
      : Region(memory, access, stag, target_address), domain_(domain) {}
  ~IwarpRegion() override;

  // Whether the peer has invalidated the context, so that it names nothing any more.
  bool invalidated() const { return invalidated_; }

 private:
  friend class IwarpDomain;
  IwarpDomain& domain_;
  bool invalidated_ = false;
};

// Notified when memory is deregistered, because a partly sent batch may still refer to that memory.
class RegionUser {
 public:
  virtual ~RegionUser() = default;
  virtual void RegionGone(std::span<const std::byte> memory) = 0;
};

class IwarpDomain final : public Domain {
 public:
  IwarpDomain();
  ~IwarpDomain() override;

  absl::StatusOr<std::unique_ptr<Region>> Register(std::span<std::byte> memory,
                                                   Access access) override;

  // kFailedPrecondition: this program implements windows itself, without a device and with the same
  // checks as for regions.
  absl::Status windows() const override;

  // The result of checking a peer's access.
  enum class Verdict : uint8_t { kAllowed, kInvalidStag, kOutOfBounds, kWraps, kNoAccess };
  // Checks that a peer may do `needed` to `size_bytes` (not 0) at `target_address` of `stag`. On
  // kAllowed, `*at` is the memory, valid until control returns to the user of the domain.
  Verdict Check(uint32_t stag, uint64_t target_address, uint64_t size_bytes, Access needed,
                std::byte** at) const;

  // Handles a Send with Invalidate from a peer. Returns false if `stag` names no region that a peer
  // may access.
  bool Invalidate(uint32_t stag);

  // Whether `segment` lies within a region of this domain (or is empty).
  bool Contains(const Segment& segment) const;

  void AddUser(RegionUser* user);
  void RemoveUser(RegionUser* user);

 private:
  friend class IwarpRegion;
  void Deregister(IwarpRegion* region);
  IwarpRegion* Find(uint32_t stag) const;

  // An STag is {random key, 16 bits; slot, 16 bits}. A reused slot gets a new key, and the slot
  // that was freed first is reused first. Target addresses start at a random page, so that a peer
  // learns neither our addresses nor those of other regions.
  std::vector<IwarpRegion*> slots_;
  std::deque<uint32_t> free_slots_;
  std::vector<RegionUser*> users_;
};

}  // namespace dafs::dat::iwarp
