// Protection domains and registered memory. Spec: E.6.1, E.6.2 (one protection domain for
// everything in a session). One thread, as in wire/dat/dat.h. Internal to the verbs provider.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/device.h"
#include "wire/dat/verbs/handles.h"

namespace dafs::dat::verbs {

class VerbsDomain;

class VerbsRegion final : public Region {
 public:
  VerbsRegion(std::span<std::byte> memory, Access access, MemoryRegion handle,
              const VerbsDomain& domain);

  uint32_t local_key() const { return handle_->lkey; }
  ibv_mr* handle() const { return handle_.get(); }
  const VerbsDomain& domain() const { return domain_; }
  // Whether the device allows an RDMA read of ours to place data here.
  bool can_be_read_sink() const;

 private:
  MemoryRegion handle_;
  const VerbsDomain& domain_;
};

class VerbsDomain final : public Domain {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsDomain>> Create(Opener& opener, ibv_context* context,
                                                             uint8_t port);

  absl::StatusOr<std::unique_ptr<Region>> Register(std::span<std::byte> memory,
                                                   Access access) override;
  absl::Status windows() const override;

  ibv_context* context() const { return protection_domain_->context; }
  ibv_pd* protection_domain() const { return protection_domain_.get(); }
  const DeviceLimits& limits() const { return limits_; }

 private:
  VerbsDomain(DeviceList devices, std::shared_ptr<ibv_cq> cover, ProtectionDomain protection_domain,
              DeviceLimits limits)
      : devices_(std::move(devices)),
        cover_(std::move(cover)),
        protection_domain_(std::move(protection_domain)),
        limits_(std::move(limits)) {}

  DeviceList devices_;             // keeps the device open as long as the protection domain exists
  std::shared_ptr<ibv_cq> cover_;  // Opener::CoverBadKey
  ProtectionDomain protection_domain_;
  DeviceLimits limits_;
};

}  // namespace dafs::dat::verbs
