#include "wire/dat/verbs/errors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/dat/refusal.h"

namespace dafs::dat::verbs {
namespace {

using IbvDevices = std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)>;

IbvDevices ListDevices(int* count) {
  *count = 0;
  return IbvDevices(ibv_get_device_list(count), &ibv_free_device_list);
}

absl::StatusCode CodeOfWork(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:  // a message longer than the receive posted for it
      return absl::StatusCode::kDataLoss;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
      return absl::StatusCode::kInternal;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
      return absl::StatusCode::kPermissionDenied;
    default:
      // This includes IBV_WC_LOC_QP_OP_ERR, which rxe reports if the link is down.
      return absl::StatusCode::kUnavailable;
  }
}

std::string Rejection(int status, bool is_iwarp) {
  // Reasons of an InfiniBand REJ (IBA 12.6.7.2) for which a user has a remedy.
  constexpr int kInvalidServiceId = 8;
  constexpr int kConsumerDefined = 28;
  if (is_iwarp) return absl::StrCat("connection refused (", std::strerror(std::abs(status)), ")");
  if (status == kInvalidServiceId) return "connection refused: no program listens on that port";
  if (status == kConsumerDefined) return "connection refused by the server";
  return absl::StrCat("connection refused (reason ", status, ")");
}

}  // namespace

absl::Status CallFailed(const std::string& what, int error) {
  error = std::abs(error);
  std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case EINVAL:
      return absl::InvalidArgumentError(message);
    case ETIMEDOUT:
      return absl::DeadlineExceededError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status WorkFailed(const std::string& work, ibv_wc_status status, const Address& peer) {
  return absl::Status(CodeOfWork(status), absl::StrCat(work, " with ", peer.ToString(), ": ",
                                                       ibv_wc_status_str(status)));
}

absl::Status ConnectionEnded(rdma_cm_event_type event, int event_status, const Address& peer,
                             bool is_iwarp) {
  if (event == RDMA_CM_EVENT_DISCONNECTED && event_status == 0) return absl::OkStatus();
  std::string message = absl::StrCat("rdma ", peer.ToString(), ": ");
  switch (event) {
    case RDMA_CM_EVENT_REJECTED:
      absl::StrAppend(&message, Rejection(event_status, is_iwarp));
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      absl::StrAppend(&message, "unreachable: no answer to the connection request");
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      absl::StrAppend(&message, "the RDMA device was removed");
      break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
      absl::StrAppend(&message, "the network address moved to another device");
      break;
    default:
      absl::StrAppend(&message, "connection ended");
  }
  absl::StrAppend(&message, " (", rdma_event_str(event));
  if (event_status < 0) absl::StrAppend(&message, ", ", std::strerror(-event_status));
  absl::StrAppend(&message, ")");
  absl::Status status = absl::UnavailableError(message);
  return event == RDMA_CM_EVENT_REJECTED ? Refused(std::move(status)) : status;
}

absl::Status CheckDevices(Opener& opener) {
  // On a machine without RDMA, do not start the opener's threads.
  std::error_code error;
  int count = 0;
  if (!std::filesystem::is_empty("/sys/class/infiniband", error) && !error) {
    opener.RunForDevices([&count] { IbvDevices devices = ListDevices(&count); });
  }
  if (count == 0) {
    return absl::UnavailableError(
        "rdma: no RDMA device on this machine: load the driver of the adapter and install its "
        "provider (package ibverbs-providers), or make a software device: "
        "modprobe siw; rdma link add siw0 type siw netdev eth0");
  }
  constexpr char kManager[] = "/dev/infiniband/rdma_cm";
  if (access(kManager, R_OK | W_OK) != 0) {
    return errno == EACCES
               ? absl::UnavailableError(absl::StrCat("rdma: no permission for ", kManager,
                                                     ": become root or chmod 666 it"))
               : absl::UnavailableError(absl::StrCat("rdma: no ", kManager, ": modprobe rdma_ucm"));
  }
  return absl::OkStatus();
}

std::string DeviceNames(Opener& opener) {
  std::string names;
  opener.RunForDevices([&names] {
    int count = 0;
    IbvDevices devices = ListDevices(&count);
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&names, i == 0 ? "" : ", ", ibv_get_device_name(devices.get()[i]));
    }
  });
  return names.empty() ? "none" : names;
}

std::string MemoryLockRemedy() {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  std::string now = limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                                    : absl::StrCat(limit.rlim_cur / 1024, " KiB");
  return absl::StrCat("the memory-lock limit is ", now,
                      ": raise it (ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd unit; "
                      "memlock in /etc/security/limits.conf)");
}

}  // namespace dafs::dat::verbs
