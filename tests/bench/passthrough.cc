// A pass-through FUSE file system: every call goes to a directory behind it, nothing is cached.
// What the kernel, libfuse and the system call cost together, against which mount.dafs is measured
// (scripts/bench-latency). Enough of it for that: lookup, getattr, open, read, write, readdir.
// One thread, libfuse's own loop.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Settings {
  char* source = nullptr;
  int direct_io = 0;
};

// An inode holds an O_PATH descriptor, as libfuse's passthrough_ll does.
struct Inode {
  int fd = -1;
  uint64_t lookups = 0;
  std::pair<dev_t, ino_t> key;
};

struct FileSystem {
  Settings settings;
  Inode root;
  std::map<std::pair<dev_t, ino_t>, std::unique_ptr<Inode>> inodes;
  std::vector<char> buffer = std::vector<char>(1 << 20);
};

FileSystem& Of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

Inode& At(fuse_req_t request, fuse_ino_t ino) {
  if (ino == FUSE_ROOT_ID) return Of(request).root;
  return *reinterpret_cast<Inode*>(ino);  // NOLINT(performance-no-int-to-ptr): libfuse's node ids
}

std::string SelfPath(const Inode& inode) { return "/proc/self/fd/" + std::to_string(inode.fd); }

void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  FileSystem& fs = Of(request);
  int fd = openat(At(request, parent).fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  fuse_entry_param entry = {};
  if (fd < 0 || fstatat(fd, "", &entry.attr, AT_EMPTY_PATH) != 0) {
    int error = errno;
    if (fd >= 0) close(fd);
    fuse_reply_err(request, error);
    return;
  }
  std::pair<dev_t, ino_t> key(entry.attr.st_dev, entry.attr.st_ino);
  std::unique_ptr<Inode>& inode = fs.inodes[key];
  if (inode == nullptr) {
    inode = std::make_unique<Inode>();
    inode->fd = fd;
    inode->key = key;
  } else {
    close(fd);
  }
  ++inode->lookups;
  entry.ino = reinterpret_cast<fuse_ino_t>(inode.get());
  fuse_reply_entry(request, &entry);  // both timeouts are 0
}

void Forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups) {
  if (ino != FUSE_ROOT_ID) {
    Inode& inode = At(request, ino);
    inode.lookups -= lookups;
    if (inode.lookups == 0) {
      close(inode.fd);
      Of(request).inodes.erase(std::pair(inode.key));
    }
  }
  fuse_reply_none(request);
}

void Getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  struct stat attributes = {};
  if (fstatat(At(request, ino).fd, "", &attributes, AT_EMPTY_PATH) != 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_attr(request, &attributes, 0);
  }
}

void Open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  int fd = open(SelfPath(At(request, ino)).c_str(),
                (info->flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC);
  if (fd < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  info->fh = static_cast<uint64_t>(fd);
  info->direct_io = Of(request).settings.direct_io != 0;
  fuse_reply_open(request, info);
}

void Release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  close(static_cast<int>(info->fh));
  fuse_reply_err(request, 0);
}

void Read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  std::vector<char>& buffer = Of(request).buffer;
  ssize_t got =
      pread(static_cast<int>(info->fh), buffer.data(), std::min(size, buffer.size()), offset);
  if (got < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_buf(request, buffer.data(), static_cast<size_t>(got));
  }
}

void Write(fuse_req_t request, fuse_ino_t, const char* data, size_t size, off_t offset,
           fuse_file_info* info) {
  ssize_t put = pwrite(static_cast<int>(info->fh), data, size, offset);
  if (put < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_write(request, static_cast<size_t>(put));
  }
}

// The whole directory is sent each time from the entry asked for; good enough for ls.
void Readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  std::vector<char>& buffer = Of(request).buffer;
  DIR* directory = opendir(SelfPath(At(request, ino)).c_str());
  if (directory == nullptr) {
    fuse_reply_err(request, errno);
    return;
  }
  size = std::min(size, buffer.size());
  size_t used = 0;
  off_t next = 0;
  for (const dirent* entry = readdir(directory); entry != nullptr; entry = readdir(directory)) {
    if (next++ < offset) continue;
    struct stat attributes = {};
    attributes.st_ino = entry->d_ino;
    attributes.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    size_t needed = fuse_add_direntry(request, buffer.data() + used, size - used, entry->d_name,
                                      &attributes, next);
    if (needed > size - used) break;
    used += needed;
  }
  closedir(directory);
  fuse_reply_buf(request, buffer.data(), used);
}

int Serve(const Settings& settings, fuse_args& arguments, const fuse_cmdline_opts& command) {
  FileSystem fs;
  fs.settings = settings;
  fs.root.fd = open(settings.source, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fs.root.fd < 0) {
    std::fprintf(stderr, "passthrough: %s: %s\n", settings.source, std::strerror(errno));
    return 1;
  }
  fuse_lowlevel_ops operations = {};
  operations.lookup = Lookup;
  operations.forget = Forget;
  operations.getattr = Getattr;
  operations.open = Open;
  operations.release = Release;
  operations.read = Read;
  operations.write = Write;
  operations.readdir = Readdir;
  fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, &fs);
  if (session == nullptr) return 1;
  int status = 1;
  if (fuse_set_signal_handlers(session) == 0) {
    if (fuse_session_mount(session, command.mountpoint) == 0) {
      fuse_daemonize(command.foreground);
      status = fuse_session_loop(session);
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  return status == 0 ? 0 : 1;
}

}  // namespace

// dafs_passthrough DIR -o source=BEHIND[,direct_io] [-f]
int main(int argc, char** argv) {
  fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
  Settings settings;
  const fuse_opt known[] = {{"source=%s", offsetof(Settings, source), 0},
                            {"direct_io", offsetof(Settings, direct_io), 1},
                            FUSE_OPT_END};
  fuse_cmdline_opts command = {};
  if (fuse_opt_parse(&arguments, &settings, known, nullptr) != 0 ||
      fuse_parse_cmdline(&arguments, &command) != 0 || settings.source == nullptr ||
      command.mountpoint == nullptr) {
    std::fprintf(stderr, "usage: dafs_passthrough DIR -o source=BEHIND[,direct_io] [-f]\n");
    return 1;
  }
  int status = Serve(settings, arguments, command);
  std::free(command.mountpoint);
  fuse_opt_free_args(&arguments);
  return status;
}
