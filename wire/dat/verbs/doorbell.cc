#include "wire/dat/verbs/doorbell.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace dafs::dat::verbs {
namespace {

ib_uverbs_attr Attribute(uint16_t id, const void* data, size_t size) {
  ib_uverbs_attr attribute = {};
  attribute.attr_id = id;
  attribute.len = static_cast<uint16_t>(size);
  attribute.flags = UVERBS_ATTR_F_MANDATORY;
  attribute.data = reinterpret_cast<uintptr_t>(data);
  return attribute;
}

}  // namespace

// UVERBS_METHOD_INVOKE_WRITE (Linux 4.20): a command of write() as an ioctl.
int RingDoorbell(ibv_qp* queue_pair) {
  constexpr size_t kAttributes = 3;
  ib_uverbs_post_send command = {};  // no work requests: they are in the queue already
  command.qp_handle = queue_pair->handle;
  command.wqe_size = sizeof(ib_uverbs_send_wr);
  ib_uverbs_post_send_resp response = {};
  // A constant is stored in the attribute itself, in place of its address.
  ib_uverbs_attr which = Attribute(UVERBS_ATTR_WRITE_CMD, nullptr, sizeof which.data);
  which.data = IB_USER_VERBS_CMD_POST_SEND;
  alignas(ib_uverbs_ioctl_hdr)
      std::byte bytes[sizeof(ib_uverbs_ioctl_hdr) + kAttributes * sizeof(ib_uverbs_attr)] = {};
  auto* const call = reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes);
  call->length = sizeof bytes;
  call->object_id = UVERBS_OBJECT_DEVICE;
  call->method_id = UVERBS_METHOD_INVOKE_WRITE;
  call->num_attrs = kAttributes;
  const bool iwarp = queue_pair->context->device->transport_type == IBV_TRANSPORT_IWARP;
  call->driver_id = iwarp ? RDMA_DRIVER_SIW : RDMA_DRIVER_RXE;
  call->attrs[0] = Attribute(UVERBS_ATTR_CORE_IN, &command, sizeof command);
  call->attrs[1] = Attribute(UVERBS_ATTR_CORE_OUT, &response, sizeof response);
  call->attrs[2] = which;
  return ioctl(queue_pair->context->cmd_fd, RDMA_VERBS_IOCTL, call) == 0 ? 0 : errno;
}

}  // namespace dafs::dat::verbs
