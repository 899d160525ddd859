#include "wire/dat/verbs/domain.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/dat/verbs/errors.h"

namespace dafs::dat::verbs {
namespace {

// The access flags of a region: the peer's rights, the owner's rights, and those that this kind of
// device needs.
// Spec gap: the specification exposes to the peer only the client's buffers of direct transfers. On
// iWARP adapters (not on siw) a region for our own RDMA reads is open to remote writes too. The
// read request names its context to the peer, which may then write there while the connection
// lives. To register each target only for the duration of its read would cost a registration per
// read.
int AccessFlags(Access access, const DeviceLimits& limits) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  switch (access) {
    case Access::kLocal:
      if (limits.read_sink_needs_remote_write) flags |= IBV_ACCESS_REMOTE_WRITE;
      break;
    case Access::kRemoteRead:
      flags |= IBV_ACCESS_REMOTE_READ;
      break;
    case Access::kRemoteWrite:
      flags |= IBV_ACCESS_REMOTE_WRITE;
      break;
    case Access::kRemoteBoth:
      flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
      break;
    case Access::kWindows:
      flags |= IBV_ACCESS_MW_BIND;
      break;
  }
  return flags;
}

}  // namespace

VerbsRegion::VerbsRegion(std::span<std::byte> memory, Access access, MemoryRegion handle,
                         const VerbsDomain& domain)
    : Region(memory, access, handle->rkey, reinterpret_cast<uintptr_t>(memory.data())),
      handle_(std::move(handle)),
      domain_(domain) {}

bool VerbsRegion::can_be_read_sink() const {
  return access() != Access::kRemoteRead || !domain_.limits().read_sink_needs_remote_write;
}

absl::StatusOr<std::unique_ptr<VerbsDomain>> VerbsDomain::Create(Opener& opener,
                                                                 ibv_context* context,
                                                                 uint8_t port) {
  DeviceList devices;
  opener.RunForDevices([&devices] { devices.reset(rdma_get_devices(nullptr)); });
  if (devices == nullptr) return CallFailed("list RDMA devices", errno);
  ASSIGN_OR_RETURN(DeviceLimits limits, QueryDevice(context, port));
  std::shared_ptr<ibv_cq> cover;
  if (limits.is_siw) cover = opener.CoverBadKey(context);
  ProtectionDomain protection_domain(ibv_alloc_pd(context));
  if (protection_domain == nullptr) {
    return CallFailed(absl::StrCat("make a protection domain on ", limits.name), errno);
  }
  return std::unique_ptr<VerbsDomain>(new VerbsDomain(
      std::move(devices), std::move(cover), std::move(protection_domain), std::move(limits)));
}

// wire/dat/verbs/verbs.h describes the faults of rdma_rxe's windows.
absl::Status VerbsDomain::windows() const {
  if (limits_.max_windows == 0) {
    return absl::UnimplementedError(absl::StrCat(limits_.name, " has no memory windows"));
  }
  if (limits_.is_rxe) {
    return absl::FailedPreconditionError(
        absl::StrCat("rdma_rxe does not enforce the bounds of memory windows on ", limits_.name,
                     ", and a server can crash this machine through them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Region>> VerbsDomain::Register(std::span<std::byte> memory,
                                                              Access access) {
  if (memory.empty()) return absl::InvalidArgumentError("register memory: it is empty");
  MemoryRegion handle(ibv_reg_mr(protection_domain_.get(), memory.data(), memory.size(),
                                 AccessFlags(access, limits_)));
  if (handle == nullptr) {
    const int error = errno;
    std::string what = absl::StrCat("register ", memory.size(), " bytes with ", limits_.name);
    if (error == ENOMEM || error == EAGAIN) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, ": out of memory that may be locked; ", MemoryLockRemedy()));
    }
    return CallFailed(what, error);
  }
  return std::make_unique<VerbsRegion>(memory, access, std::move(handle), *this);
}

}  // namespace dafs::dat::verbs
