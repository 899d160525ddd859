// Registered memory of the iwarp provider: the table of STags behind a Domain.
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

  // Whether the peer invalidated the context: it names nothing any more.
  bool invalidated() const { return invalidated_; }

 private:
  friend class IwarpDomain;
  IwarpDomain& domain_;
  bool invalidated_ = false;
};

// Told when memory goes away that a half-written batch of its endpoint may still point to.
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

  // Windows are this program's own doing here: no device, no check that is not made for regions.
  absl::Status windows() const override;

  // What access by a peer comes to.
  enum class Verdict : uint8_t { kAllowed, kInvalidStag, kOutOfBounds, kWraps, kNoAccess };
  // Checks that a peer may do `needed` to `size_bytes` (not 0) at `target_address` of `stag`; on
  // kAllowed `*at` is the memory, valid until control returns to the user of the domain.
  Verdict Check(uint32_t stag, uint64_t target_address, uint64_t size_bytes, Access needed,
                std::byte** at) const;

  // Send with Invalidate from a peer: false if `stag` names no region a peer has access to.
  bool Invalidate(uint32_t stag);

  // Whether `segment` lies within a region of this domain (or is empty).
  bool Contains(const Segment& segment) const;

  void AddUser(RegionUser* user);
  void RemoveUser(RegionUser* user);

 private:
  friend class IwarpRegion;
  void Deregister(IwarpRegion* region);
  IwarpRegion* Find(uint32_t stag) const;

  // An STag is {random key, 16 bits; slot, 16 bits}: a slot that is used again gets a new key, and
  // freed slots are used again oldest first. Target addresses start at a random page, so that a
  // peer learns neither our addresses nor those of other regions.
  std::vector<IwarpRegion*> slots_;
  std::deque<uint32_t> free_slots_;
  std::vector<RegionUser*> users_;
};

}  // namespace dafs::dat::iwarp
