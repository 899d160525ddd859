// Calls to an NFS server through libnfs, one at a time, without a mount.
#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/bench/bench_calls.h"

namespace dafs::bench {
namespace {

// libnfs returns a negative errno.
bool Good(int result) {
  if (result < 0) errno = -result;
  return result >= 0;
}

const std::string kTop = "/";

class LibnfsCalls : public Calls {
 public:
  explicit LibnfsCalls(nfs_context* nfs) : nfs_(nfs) {}
  ~LibnfsCalls() override { nfs_destroy_context(nfs_); }

  File Open(const char* path, int flags) override {
    nfsfh* file = nullptr;
    const int result = (flags & O_CREAT) != 0 ? nfs_create(nfs_, At(path), flags, 0644, &file)
                                              : nfs_open(nfs_, At(path), flags & O_ACCMODE, &file);
    return Good(result) ? reinterpret_cast<File>(file) : kNoFile;
  }
  bool Close(File file) override { return Good(nfs_close(nfs_, Handle(file))); }
  bool Read(File file, char* into, size_t size, size_t at) override {
    for (size_t done = 0; done < size;) {  // the server may return less
      const int got = nfs_pread(nfs_, Handle(file), at + done, size - done, into + done);
      if (!Good(got) || got == 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }
  bool Write(File file, const char* from, size_t size, size_t at) override {
    for (size_t done = 0; done < size;) {
      const int put = nfs_pwrite(nfs_, Handle(file), at + done, size - done, from + done);
      if (!Good(put) || put == 0) return false;
      done += static_cast<size_t>(put);
    }
    return true;
  }
  bool Stat(const char* path) override {
    nfs_stat_64 attributes = {};
    return Good(nfs_stat64(nfs_, At(path), &attributes));
  }
  bool Rename(const char* from, const char* to) override {
    const std::string old_path = At(from);
    return Good(nfs_rename(nfs_, old_path.c_str(), At(to)));
  }
  bool Unlink(const char* path) override { return Good(nfs_unlink(nfs_, At(path))); }
  bool MakeDirectory(const char* path) override { return Good(nfs_mkdir(nfs_, At(path))); }
  bool RemoveDirectory(const char* path) override { return Good(nfs_rmdir(nfs_, At(path))); }
  bool ListLong(const char*) override {
    errno = ENOSYS;
    return false;
  }

 private:
  static nfsfh* Handle(File file) { return reinterpret_cast<nfsfh*>(file); }
  const char* At(const char* path) { return (path_ = kTop).append(path).c_str(); }

  nfs_context* const nfs_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Calls> MakeCalls(const char* directory) {
  nfs_context* nfs = nfs_init_context();
  if (nfs == nullptr) return nullptr;
  nfs_url* url = nfs_parse_url_dir(nfs, directory);
  if (url == nullptr || nfs_mount(nfs, url->server, url->path) != 0) {
    std::fprintf(stderr, "%s: %s\n", directory, nfs_get_error(nfs));
    nfs_destroy_context(nfs);
    errno = EIO;
    return nullptr;
  }
  nfs_destroy_url(url);
  return std::make_unique<LibnfsCalls>(nfs);
}

}  // namespace dafs::bench
