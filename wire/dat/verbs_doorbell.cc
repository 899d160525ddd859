#include "wire/dat/verbs_doorbell.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace dafs::dat::verbs {
namespace {

// No work requests: those are in the queue.
ib_uverbs_post_send EmptyPost(const ibv_qp* queue_pair) {
  ib_uverbs_post_send command = {};
  command.qp_handle = queue_pair->handle;
  command.wqe_size = sizeof(ib_uverbs_send_wr);
  return command;
}

ib_uverbs_attr Attribute(uint16_t id, const void* data, size_t size) {
  ib_uverbs_attr attribute = {};
  attribute.attr_id = id;
  attribute.len = static_cast<uint16_t>(size);
  attribute.flags = UVERBS_ATTR_F_MANDATORY;
  attribute.data = reinterpret_cast<uintptr_t>(data);
  return attribute;
}

// UVERBS_METHOD_INVOKE_WRITE: a command of write() as an ioctl.
int RingByIoctl(ibv_qp* queue_pair) {
  constexpr size_t kAttributes = 3;
  const ib_uverbs_post_send command = EmptyPost(queue_pair);
  ib_uverbs_post_send_resp response = {};
  // A constant lies in the place of its address.
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

int RingByWrite(ibv_qp* queue_pair) {
  ib_uverbs_post_send_resp response = {};
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_post_send command;
  } call = {{}, EmptyPost(queue_pair)};
  call.header.command = IB_USER_VERBS_CMD_POST_SEND;
  call.header.in_words = sizeof call / 4;
  call.header.out_words = sizeof response / 4;
  call.command.response = reinterpret_cast<uintptr_t>(&response);
  const ssize_t written = write(queue_pair->context->cmd_fd, &call, sizeof call);
  return written == static_cast<ssize_t>(sizeof call) ? 0 : errno;
}

}  // namespace

int Doorbell::Ring(ibv_qp* queue_pair, Opener& opener) {
  if (by_ioctl_) {
    const int error = RingByIoctl(queue_pair);
    if (error == 0) return 0;
    by_ioctl_ = false;  // not known, or known otherwise; a queue that is broken says so below too
  }
  int error = 0;
  opener.Run([queue_pair, &error] { error = RingByWrite(queue_pair); });
  return error;
}

}  // namespace dafs::dat::verbs
