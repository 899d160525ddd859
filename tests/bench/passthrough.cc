// A pass-through FUSE file system: it passes every call to the directory `source`. The kernel
// caches attributes and names for `timeout` seconds, 0 by default. It has one thread, in libfuse's
// loop.
//
// scripts/bench compares mount.dafs with it: it shows what the kernel, libfuse and the system call
// cost together. It supports the calls that scripts/bench, tar and git need. With `over_tcp`, it
// sends a message to another process and waits for the reply, for each call that needs a request in
// a network file system. This adds the cost of TCP.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/round_trip.h"

namespace {

struct Settings {
  char* source = nullptr;
  int direct_io = 0;
  int over_tcp = 0;
  double timeout = 0;
};

// Holds an O_PATH descriptor, as an inode of libfuse's passthrough_ll does.
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
  dafs::bench::RoundTrip server;
};

FileSystem& Of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

Inode& At(fuse_req_t request, fuse_ino_t ino) {
  if (ino == FUSE_ROOT_ID) return Of(request).root;
  return *reinterpret_cast<Inode*>(ino);
}

std::string SelfPath(const Inode& inode) { return "/proc/self/fd/" + std::to_string(inode.fd); }

void ReplyResult(fuse_req_t request, int result) {
  fuse_reply_err(request, result == 0 ? 0 : errno);
}

// Looks up the inode of a name, and counts one lookup. Returns 0 or an errno.
int Find(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
  FileSystem& fs = Of(request);
  int fd = openat(At(request, parent).fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstatat(fd, "", &entry.attr, AT_EMPTY_PATH) != 0) {
    int error = errno;
    if (fd >= 0) close(fd);
    return error;
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
  entry.attr_timeout = entry.entry_timeout = fs.settings.timeout;
  return 0;
}

void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Of(request).server.Make();
  fuse_entry_param entry = {};
  if (int error = Find(request, parent, name, entry); error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_entry(request, &entry);
  }
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

void ReplyAttributes(fuse_req_t request, fuse_ino_t ino) {
  struct stat attributes = {};
  if (fstatat(At(request, ino).fd, "", &attributes, AT_EMPTY_PATH) != 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_attr(request, &attributes, Of(request).settings.timeout);
  }
}

void Getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  // With a timeout, the kernel requests attributes after a change. A network file system has them
  // from the reply to the change, so no message is sent.
  if (Of(request).settings.timeout <= 0) Of(request).server.Make();
  ReplyAttributes(request, ino);
}

void Setattr(fuse_req_t request, fuse_ino_t ino, struct stat* set, int what, fuse_file_info*) {
  Of(request).server.Make();
  const std::string path = SelfPath(At(request, ino));
  int result = 0;
  if (what & FUSE_SET_ATTR_MODE) result = chmod(path.c_str(), set->st_mode);
  if (result == 0 && (what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) {
    result = fchownat(
        At(request, ino).fd, "", what & FUSE_SET_ATTR_UID ? set->st_uid : static_cast<uid_t>(-1),
        what & FUSE_SET_ATTR_GID ? set->st_gid : static_cast<gid_t>(-1), AT_EMPTY_PATH);
  }
  if (result == 0 && (what & FUSE_SET_ATTR_SIZE)) result = truncate(path.c_str(), set->st_size);
  if (result == 0 && (what & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))) {
    timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    if (what & FUSE_SET_ATTR_ATIME) times[0] = set->st_atim;
    if (what & FUSE_SET_ATTR_MTIME) times[1] = set->st_mtim;
    if (what & FUSE_SET_ATTR_ATIME_NOW) times[0].tv_nsec = UTIME_NOW;
    if (what & FUSE_SET_ATTR_MTIME_NOW) times[1].tv_nsec = UTIME_NOW;
    result = utimensat(AT_FDCWD, path.c_str(), times, 0);
  }
  if (result == 0) {
    ReplyAttributes(request, ino);
  } else {
    ReplyResult(request, result);
  }
}

void Mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  if (int result = mkdirat(At(request, parent).fd, name, mode); result != 0) {
    ReplyResult(request, result);
  } else {
    Lookup(request, parent, name);
  }
}

void Symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  if (int result = symlinkat(target, At(request, parent).fd, name); result != 0) {
    ReplyResult(request, result);
  } else {
    Lookup(request, parent, name);
  }
}

void Readlink(fuse_req_t request, fuse_ino_t ino) {
  Of(request).server.Make();
  char target[4097] = {};
  if (readlinkat(At(request, ino).fd, "", target, sizeof target - 1) < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_readlink(request, target);
  }
}

void Unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Of(request).server.Make();
  ReplyResult(request, unlinkat(At(request, parent).fd, name, 0));
}

void Rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Of(request).server.Make();
  ReplyResult(request, unlinkat(At(request, parent).fd, name, AT_REMOVEDIR));
}

void Rename(fuse_req_t request, fuse_ino_t from, const char* old_name, fuse_ino_t to,
            const char* new_name, unsigned flags) {
  Of(request).server.Make();
  ReplyResult(request,
              renameat2(At(request, from).fd, old_name, At(request, to).fd, new_name, flags));
}

void Create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  Of(request).server.Make();
  const int fd = openat(At(request, parent).fd, name,
                        (info->flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CREAT | O_CLOEXEC, mode);
  fuse_entry_param entry = {};
  if (fd < 0) {
    fuse_reply_err(request, errno);
  } else if (int error = Find(request, parent, name, entry); error != 0) {
    close(fd);
    fuse_reply_err(request, error);
  } else {
    info->fh = static_cast<uint64_t>(fd);
    info->direct_io = Of(request).settings.direct_io != 0;
    fuse_reply_create(request, &entry, info);
  }
}

void Statfs(fuse_req_t request, fuse_ino_t ino) {
  Of(request).server.Make();
  struct statvfs numbers = {};
  if (fstatvfs(At(request, ino).fd, &numbers) != 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_statfs(request, &numbers);
  }
}

void Open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Of(request).server.Make();
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

// Closes a duplicate, to return the error that close(2) would return, as passthrough_ll does.
void Flush(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  ReplyResult(request, close(dup(static_cast<int>(info->fh))));
}

void Fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
  Of(request).server.Make();
  ReplyResult(request, fsync(static_cast<int>(info->fh)));
}

void Read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  Of(request).server.Make(0, size);
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
  Of(request).server.Make(size);
  ssize_t put = pwrite(static_cast<int>(info->fh), data, size, offset);
  if (put < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_write(request, static_cast<size_t>(put));
  }
}

void Opendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  DIR* directory = opendir(SelfPath(At(request, ino)).c_str());
  if (directory == nullptr) {
    fuse_reply_err(request, errno);
    return;
  }
  info->fh = reinterpret_cast<uint64_t>(directory);
  fuse_reply_open(request, info);
}

void Releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  closedir(reinterpret_cast<DIR*>(info->fh));
  fuse_reply_err(request, 0);
}

void Readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  Of(request).server.Make();
  std::vector<char>& buffer = Of(request).buffer;
  DIR* directory = reinterpret_cast<DIR*>(info->fh);
  size = std::min(size, buffer.size());
  size_t used = 0;
  seekdir(directory, offset);
  while (const dirent* entry = readdir(directory)) {
    struct stat attributes = {};
    attributes.st_ino = entry->d_ino;
    attributes.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    const size_t needed = fuse_add_direntry(request, buffer.data() + used, size - used,
                                            entry->d_name, &attributes, entry->d_off);
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

fuse_lowlevel_ops Operations() {
  fuse_lowlevel_ops operations = {};
  operations.lookup = Lookup;
  operations.forget = Forget;
  operations.getattr = Getattr;
  operations.setattr = Setattr;
  operations.readlink = Readlink;
  operations.mkdir = Mkdir;
  operations.unlink = Unlink;
  operations.rmdir = Rmdir;
  operations.symlink = Symlink;
  operations.rename = Rename;
  operations.open = Open;
  operations.read = Read;
  operations.write = Write;
  operations.flush = Flush;
  operations.release = Release;
  operations.fsync = Fsync;
  operations.opendir = Opendir;
  operations.readdir = Readdir;
  operations.releasedir = Releasedir;
  operations.statfs = Statfs;
  operations.create = Create;
  return operations;
}

int Serve(const Settings& settings, fuse_args& arguments, const fuse_cmdline_opts& command) {
  FileSystem fs;
  fs.settings = settings;
  if (settings.over_tcp != 0 && !fs.server.Start()) {
    std::fprintf(stderr, "passthrough: cannot start the peer process: %s\n", std::strerror(errno));
    return 1;
  }
  fs.root.fd = open(settings.source, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fs.root.fd < 0) {
    std::fprintf(stderr, "passthrough: %s: %s\n", settings.source, std::strerror(errno));
    return 1;
  }
  const fuse_lowlevel_ops operations = Operations();
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

// dafs_passthrough DIR -o source=SOURCE[,direct_io][,over_tcp][,timeout=SECONDS] [-f]
int main(int argc, char** argv) {
  fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
  Settings settings;
  const fuse_opt known[] = {{"source=%s", offsetof(Settings, source), 0},
                            {"direct_io", offsetof(Settings, direct_io), 1},
                            {"over_tcp", offsetof(Settings, over_tcp), 1},
                            {"timeout=%lf", offsetof(Settings, timeout), 0},
                            FUSE_OPT_END};
  fuse_cmdline_opts command = {};
  if (fuse_opt_parse(&arguments, &settings, known, nullptr) != 0 ||
      fuse_parse_cmdline(&arguments, &command) != 0 || settings.source == nullptr ||
      command.mountpoint == nullptr) {
    std::fprintf(stderr,
                 "usage: dafs_passthrough DIR -o "
                 "source=SOURCE[,direct_io][,over_tcp][,timeout=SECONDS] [-f]\n");
    return 1;
  }
  int status = Serve(settings, arguments, command);
  std::free(command.mountpoint);
  fuse_opt_free_args(&arguments);
  return status;
}
