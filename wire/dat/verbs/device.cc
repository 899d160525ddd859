#include "wire/dat/verbs/device.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "wire/dat/verbs/errors.h"

namespace dafs::dat::verbs {
namespace {

// The vendor id that siw reports (kernel, drivers/infiniband/sw/siw/siw.h): "bmt".
constexpr uint32_t kSiwVendor = 0x626d74;
// The vendor id of rdma_rxe (drivers/infiniband/sw/rxe/rxe_param.h).
constexpr uint32_t kRxeVendor = 0xffffff;
// siw sends a page of the smallest size or more by reference (its SENDPAGE_THRESH).
constexpr uint64_t kSiwReferenceBytes = 4096;

uint32_t AtLeastOne(int value) { return static_cast<uint32_t>(std::max(value, 1)); }

}  // namespace

absl::StatusOr<DeviceLimits> QueryDevice(ibv_context* context, uint8_t port) {
  DeviceLimits limits;
  limits.name = ibv_get_device_name(context->device);
  ibv_device_attr device = {};
  if (int error = ibv_query_device(context, &device); error != 0) {
    return CallFailed(absl::StrCat("query device ", limits.name), error);
  }
  ibv_port_attr port_attributes = {};
  if (int error = ibv_query_port(context, port, &port_attributes); error != 0) {
    return CallFailed(absl::StrCat("query device ", limits.name, " port ", port), error);
  }
  limits.is_iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  limits.is_siw = limits.is_iwarp && device.vendor_id == kSiwVendor;
  if (limits.is_siw) limits.signal_bytes = kSiwReferenceBytes;
  limits.read_sink_needs_remote_write = limits.is_iwarp && !limits.is_siw;
  limits.can_invalidate = (device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  limits.is_rxe = !limits.is_iwarp && device.vendor_id == kRxeVendor;
  constexpr unsigned kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (limits.can_invalidate && (device.device_cap_flags & kWindows) != 0) {
    limits.max_windows = static_cast<uint32_t>(std::max(device.max_mw, 0));
  }
  limits.max_segments = AtLeastOne(device.max_sge);
  // Some InfiniBand drivers leave max_sge_rd at 0, which means no special limit.
  limits.max_read_segments = device.max_sge_rd > 0 || limits.is_iwarp
                                 ? std::min(AtLeastOne(device.max_sge_rd), limits.max_segments)
                                 : limits.max_segments;
  limits.max_work = AtLeastOne(device.max_qp_wr);
  limits.max_completions = AtLeastOne(device.max_cqe);
  limits.max_reads_out = AtLeastOne(device.max_qp_init_rd_atom);
  limits.max_reads_in = AtLeastOne(device.max_qp_rd_atom);
  // siw reports all ones. InfiniBand allows at most 2^31 (9.4.3).
  constexpr uint64_t kMaxMessage = uint64_t{1} << 31;
  limits.max_message_bytes = port_attributes.max_msg_sz == 0
                                 ? kMaxMessage
                                 : std::min<uint64_t>(port_attributes.max_msg_sz, kMaxMessage);
  return limits;
}

}  // namespace dafs::dat::verbs
