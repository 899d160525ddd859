// A FUSE file system with one file, `file`, that answers each request at once and stores nothing:
//   dafs_null_fuse DIR session|buffers|channel
// It has one thread and no backing store, so what a call takes is the cost of the kernel and of the
// way in which requests are received: libfuse's fuse_session_loop; libfuse's receive_buf and
// process_buf, which leave the loop to the caller; or the KernelChannel of mount.dafs. For
// scripts/bench (peers null-...).
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuse/kernel/channel.h"
#include "fuse/kernel/init.h"
#include "fuse/kernel/protocol.h"
#include "fuse/kernel/request_reader.h"
#include "runtime/files/unique_fd.h"

namespace {

using dafs::fuse::AsBytes;
using dafs::fuse::KernelChannel;
using dafs::fuse::RequestReader;

constexpr uint64_t kFile = 2;  // node id; the root is FUSE_ROOT_ID
constexpr uint64_t kFileBytes = 64 << 20;
constexpr size_t kLargest = 1 << 20;  // bytes of a read or write
constexpr std::string_view kName = "file";

alignas(4096) char data[kLargest];  // the content of every part of the file

mode_t ModeOf(uint64_t node) { return node == kFile ? S_IFREG | 0644 : S_IFDIR | 0755; }
uint64_t SizeOf(uint64_t node) { return node == kFile ? kFileBytes : 0; }

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// --- libfuse ---

struct stat StatOf(fuse_ino_t node) {
  struct stat attributes = {};
  attributes.st_ino = node;
  attributes.st_mode = ModeOf(node);
  attributes.st_nlink = 1;
  attributes.st_size = static_cast<off_t>(SizeOf(node));
  return attributes;
}

void LookUp(fuse_req_t request, fuse_ino_t, const char* name) {
  if (name != kName) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry = {};
  entry.ino = kFile;
  entry.attr = StatOf(kFile);
  fuse_reply_entry(request, &entry);
}

void GetAttributes(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  const struct stat attributes = StatOf(node);
  fuse_reply_attr(request, &attributes, 0);
}

void Open(fuse_req_t request, fuse_ino_t, fuse_file_info* file) { fuse_reply_open(request, file); }

void Read(fuse_req_t request, fuse_ino_t, size_t size, off_t, fuse_file_info*) {
  fuse_reply_buf(request, data, std::min(size, sizeof(data)));
}

void Write(fuse_req_t request, fuse_ino_t, const char*, size_t size, off_t, fuse_file_info*) {
  fuse_reply_write(request, size);
}

void Init(void*, fuse_conn_info* connection) {
  // The data is in memory on both sides: pipes would only add calls.
  connection->want &=
      ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  connection->max_write = kLargest;
}

// Returns 0 at the end of the mount, -errno if requests cannot be received.
int LoopOverBuffers(fuse_session* session) {
  fuse_buf buffer = {};
  int got = 0;
  while (fuse_session_exited(session) == 0) {
    got = fuse_session_receive_buf(session, &buffer);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    fuse_session_process_buf(session, &buffer);
  }
  std::free(buffer.mem);
  return std::min(got, 0);
}

int ByLibfuse(char* program, const char* directory, bool own_loop) {
  fuse_lowlevel_ops operations = {};
  operations.init = Init;
  operations.lookup = LookUp;
  operations.getattr = GetAttributes;
  operations.open = Open;
  operations.read = Read;
  operations.write = Write;
  char allow_other[] = "-oallow_other";
  char* words[] = {program, allow_other, nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(2, words);
  fuse_session* const session =
      fuse_session_new(&arguments, &operations, sizeof(operations), nullptr);
  if (session == nullptr || fuse_session_mount(session, directory) != 0) Fail(directory);
  const int error = own_loop ? LoopOverBuffers(session) : fuse_session_loop(session);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  if (error < 0) {
    errno = -error;
    Fail("receiving requests");
  }
  return 0;
}

// --- the channel of mount.dafs ---

fuse_attr AttributesOf(uint64_t node) {
  fuse_attr attributes = {};
  attributes.ino = node;
  attributes.mode = ModeOf(node);
  attributes.nlink = 1;
  attributes.size = SizeOf(node);
  return attributes;
}

// Answers the request in `bytes`.
void Answer(KernelChannel& channel, std::span<const std::byte> bytes) {
  RequestReader in(bytes);
  const auto header = in.Take<fuse_in_header>();
  if (!in.ok()) return;  // without a number there is nothing to answer
  switch (header.opcode) {
    case FUSE_INIT: {
      const dafs::fuse::InitAnswer init = dafs::fuse::AnswerInit(in.rest(), {});
      if (init.error != 0) {
        channel.ReplyError(header.unique, init.error);
      } else {
        channel.Reply(header.unique, {AsBytes(init.out)});
      }
      break;
    }
    case FUSE_LOOKUP: {
      if (in.TakeString() != kName) {
        channel.ReplyError(header.unique, ENOENT);
        break;
      }
      fuse_entry_out entry = {};
      entry.nodeid = kFile;
      entry.attr = AttributesOf(kFile);
      channel.Reply(header.unique, {AsBytes(entry)});
      break;
    }
    case FUSE_GETATTR: {
      fuse_attr_out attributes = {};
      attributes.attr = AttributesOf(header.nodeid);
      channel.Reply(header.unique, {AsBytes(attributes)});
      break;
    }
    case FUSE_OPEN:
      channel.Reply(header.unique, {AsBytes(fuse_open_out{})});
      break;
    case FUSE_READ: {
      const size_t size = std::min<size_t>(in.Take<fuse_read_in>().size, sizeof(data));
      channel.Reply(header.unique, {std::as_bytes(std::span(data, size))});
      break;
    }
    case FUSE_WRITE: {
      fuse_write_out written = {};
      written.size = in.Take<fuse_write_in>().size;
      channel.Reply(header.unique, {AsBytes(written)});
      break;
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
      break;
    case FUSE_RELEASE:
      channel.ReplyError(header.unique, 0);
      break;
    default:
      channel.ReplyError(header.unique, ENOSYS);
  }
}

int ByChannel(const char* directory) {
  dafs::UniqueFd fd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fd.valid()) Fail("/dev/fuse");
  const std::string options =
      "fd=" + std::to_string(fd.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  if (mount("null", directory, "fuse.null", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    Fail(directory);
  }
  KernelChannel channel(std::move(fd));
  std::vector<std::byte> request(kLargest + dafs::fuse::kWriteHeaderBytes);
  for (;;) {
    const KernelChannel::ReadOutcome got = channel.Read(request);
    if (got.status == KernelChannel::ReadStatus::kEnd) return 0;
    if (got.status == KernelChannel::ReadStatus::kRequest) {
      Answer(channel, std::span(request).first(got.bytes));
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string_view loop = count == 3 ? words[2] : "";
  std::memset(data, 1, sizeof(data));
  if (loop == "session") return ByLibfuse(words[0], words[1], false);
  if (loop == "buffers") return ByLibfuse(words[0], words[1], true);
  if (loop == "channel") return ByChannel(words[1]);
  std::fprintf(stderr, "usage: dafs_null_fuse DIR session|buffers|channel\n");
  return 2;
}
