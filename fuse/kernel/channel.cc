#include "fuse/kernel/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {
namespace {

constexpr size_t kPartsMax = 4;  // the header and three parts
// A write to /dev/fuse never waits. A test's socket may make it wait, and is read soon.
constexpr int kWriteWaitMs = 1000;

}  // namespace

UniqueFd KernelChannel::CloneDevice(int fd) {
  UniqueFd clone(open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  auto source = static_cast<uint32_t>(fd);
  if (clone.valid() && ioctl(clone.get(), FUSE_DEV_IOC_CLONE, &source) == 0) return clone;
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

KernelChannel::ReadOutcome KernelChannel::Read(std::span<std::byte> into) {
  for (int tries = 0; tries < 16; ++tries) {
    ssize_t got = read(fd_.get(), into.data(), into.size());
    if (got > 0) return {ReadStatus::kRequest, static_cast<size_t>(got)};
    if (got == 0) return {ReadStatus::kEnd, 0};
    // ENOENT: the kernel withdrew the request during the read.
    if (errno == EINTR || errno == ENOENT) continue;
    if (errno == EAGAIN) return {ReadStatus::kNothing, 0};
    return {ReadStatus::kEnd, 0};  // ENODEV: unmounted; ECONNABORTED, ECONNRESET: aborted
  }
  return {ReadStatus::kNothing, 0};
}

bool KernelChannel::AtEnd() const {
  pollfd wait = {.fd = fd_.get(), .events = 0, .revents = 0};
  return poll(&wait, 1, 0) > 0 && (wait.revents & (POLLERR | POLLHUP)) != 0;
}

bool KernelChannel::Write(std::initializer_list<Bytes> parts) {
  iovec vector[kPartsMax];
  size_t count = 0;
  for (Bytes part : parts) {
    if (part.empty() || count == kPartsMax) continue;
    vector[count++] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  for (int tries = 0; tries < 16; ++tries) {
    if (writev(fd_.get(), vector, static_cast<int>(count)) >= 0) {
      return !is_relayed_ || AwaitRelay();
    }
    if (errno == EAGAIN) {
      pollfd wait = {.fd = fd_.get(), .events = POLLOUT, .revents = 0};
      poll(&wait, 1, kWriteWaitMs);
    } else if (errno != EINTR) {
      break;
    }
  }
  has_lost_relay_ = is_relayed_;
  return false;
}

bool KernelChannel::AwaitRelay() {
  std::byte taken{0};
  ssize_t got = -1;
  do {
    got = read(fd_.get(), &taken, 1);
  } while (got < 0 && errno == EINTR);
  has_lost_relay_ = got != 1;
  return taken != std::byte{0};
}

bool KernelChannel::Reply(uint64_t unique, std::initializer_list<Bytes> parts) {
  size_t size = sizeof(fuse_out_header);
  Bytes data[kPartsMax - 1];
  size_t count = 0;
  for (Bytes part : parts) {
    if (count == kPartsMax - 1) break;
    size += part.size();
    data[count++] = part;
  }
  fuse_out_header header = {.len = static_cast<uint32_t>(size), .error = 0, .unique = unique};
  return Write({AsBytes(header), data[0], data[1], data[2]});
}

bool KernelChannel::ReplyError(uint64_t unique, int error) {
  fuse_out_header header = {.len = sizeof(header), .error = -error, .unique = unique};
  return Write({AsBytes(header)});
}

bool KernelChannel::Invalidate(uint64_t nodeid, int64_t offset) {
  fuse_notify_inval_inode_out body = {.ino = nodeid, .off = offset, .len = 0};
  fuse_out_header header = {
      .len = sizeof(header) + sizeof(body), .error = FUSE_NOTIFY_INVAL_INODE, .unique = 0};
  return Write({AsBytes(header), AsBytes(body)});
}

void KernelChannel::ForgetName(uint64_t parent, std::string_view name, NameDrop how) {
  fuse_notify_inval_entry_out body = {};
  body.parent = parent;
  body.namelen = static_cast<uint32_t>(name.size());
  // Kernels before 6.2 ignore the flag, and remove the name.
  body.flags = how == NameDrop::kExpire ? FUSE_EXPIRE_ONLY : 0;
  const size_t size = sizeof(fuse_out_header) + sizeof(body) + name.size() + 1;
  fuse_out_header header = {
      .len = static_cast<uint32_t>(size), .error = FUSE_NOTIFY_INVAL_ENTRY, .unique = 0};
  constexpr std::byte kEnd{0};
  Write({AsBytes(header), AsBytes(body), std::as_bytes(std::span(name)), Bytes(&kEnd, 1)});
}

bool KernelChannel::ForgetAllNames() {
  fuse_out_header header = {.len = sizeof(header), .error = kNotifyIncEpoch, .unique = 0};
  return Write({AsBytes(header)});
}

bool KernelChannel::Resend() {
  fuse_out_header header = {.len = sizeof(header), .error = kNotifyResend, .unique = 0};
  return Write({AsBytes(header)});
}

bool KernelChannel::AskForNothing(uint64_t unique, uint64_t nodeid) {
  fuse_notify_retrieve_out body = {};
  body.notify_unique = unique;
  body.nodeid = nodeid;
  fuse_out_header header = {
      .len = sizeof(header) + sizeof(body), .error = FUSE_NOTIFY_RETRIEVE, .unique = 0};
  return Write({AsBytes(header), AsBytes(body)});
}

}  // namespace dafs::fuse
