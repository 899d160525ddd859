#include "fuse/operations/files/ioctls.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "client/files/files.h"
#include "fuse/files/commit_file.h"
#include "fuse/kernel/protocol.h"
#include "runtime/files/direct_ioctl.h"

namespace dafs::fuse {
namespace {

// Copies `text` with a NUL. False: there is no room.
template <size_t N>
bool Store(std::string_view text, char (&into)[N]) {
  if (text.size() >= N) return false;
  std::memcpy(into, text.data(), text.size());
  return true;
}

// How a client without keys or names of its own reaches the export as this mount does. False: it
// cannot.
bool DescribeMount(const Options& options, client::Client& client, DirectIoctl& answer) {
  if (options.sec != Sec::kSys || options.xprtsec != Xprtsec::kNone || !options.fence_id.empty()) {
    return false;
  }
  std::string server;
  for (const client::Paths::Report& path : client.paths().GetReport()) {
    if (path.transport == "tcp" && path.sessions > 0) server = path.address;
  }
  answer.version = kDirectIoctlVersion;
  if (options.checksum) answer.flags |= kDirectIoctlChecksum;
  if (options.crc) answer.flags |= kDirectIoctlCrc;
  if ((options.mount_flags & MS_NOATIME) != 0) answer.flags |= kDirectIoctlNoAtime;
  return !server.empty() && Store(server, answer.server) &&
         Store("/" + absl::StrJoin(client.options().export_path, "/"), answer.export_path);
}

}  // namespace

Task<void> IoctlOperations::Ioctl(Call& call) {
  RequestReader in = call.reader();
  const auto ioctl = in.Take<fuse_ioctl_in>();
  Task<void> task = in.ok() && ioctl.cmd == static_cast<uint32_t>(kDirectIoctl)
                        ? LocateFile(call, ioctl.fh, ioctl.out_size)
                        : locks_.Ioctl(call);
  co_await task;
}

Task<void> IoctlOperations::LocateFile(Call& call, uint64_t handle, uint32_t room) {
  const std::shared_ptr<OpenState> open = state_.open_files.Find(handle);
  DirectIoctl answer;
  if (open == nullptr) {
    call.ReplyErrno(ENOTTY);  // a directory
    co_return;
  }
  if ((open->flags & O_DIRECT) == 0 || room < sizeof(answer)) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  client::Files& files = files_.Of(*open->opener);
  if (!DescribeMount(state_.options, files.client(), answer)) {
    call.ReplyErrno(EOPNOTSUPP);
    co_return;
  }
  const auto& [fshandle, fileid] = open->handle;
  static_assert(sizeof(answer.filehandle) == sizeof(fshandle.bytes) + sizeof(fileid.bytes));
  std::memcpy(answer.filehandle, fshandle.bytes.data(), sizeof(fshandle.bytes));
  std::memcpy(answer.filehandle + sizeof(fshandle.bytes), fileid.bytes.data(),
              sizeof(fileid.bytes));
  if (files.commits().NeedsCommit(open->handle)) {
    Task<absl::Status> committing = CommitFile(files_, open);
    const absl::Status status = co_await committing;
    if (!status.ok()) {
      call.ReplyStatus(status);
      co_return;
    }
  }
  const fuse_ioctl_out out = {};
  call.Reply({AsBytes(out), AsBytes(answer)});
}

}  // namespace dafs::fuse
