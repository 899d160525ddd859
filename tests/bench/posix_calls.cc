// The calls of bench_calls.h as system calls on a directory.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/bench/bench_calls.h"

namespace dafs::bench {
namespace {

class PosixCalls : public Calls {
 public:
  explicit PosixCalls(const char* directory) : prefix_(std::string(directory) + "/") {}

  File Open(const char* path, int flags) override {
    return open(At(path), flags | O_CLOEXEC, 0644);
  }
  bool Close(File file) override { return close(static_cast<int>(file)) == 0; }
  bool Read(File file, char* into, size_t size, size_t at) override {
    const ssize_t got = pread(static_cast<int>(file), into, size, static_cast<off_t>(at));
    return got == static_cast<ssize_t>(size);
  }
  bool Write(File file, const char* from, size_t size, size_t at) override {
    const ssize_t put = pwrite(static_cast<int>(file), from, size, static_cast<off_t>(at));
    return put == static_cast<ssize_t>(size);
  }
  bool Stat(const char* path) override {
    struct stat attributes = {};
    return stat(At(path), &attributes) == 0;
  }
  bool Rename(const char* from, const char* to) override {
    const std::string old_path = prefix_ + from;
    return rename(old_path.c_str(), At(to)) == 0;
  }
  bool Unlink(const char* path) override { return unlink(At(path)) == 0; }
  bool MakeDirectory(const char* path) override { return mkdir(At(path), 0755) == 0; }
  bool RemoveDirectory(const char* path) override { return rmdir(At(path)) == 0; }
  bool ListLong(const char* path) override {
    DIR* directory = opendir(At(path));
    if (directory == nullptr) return false;
    bool good = true;
    struct stat attributes = {};
    while (const dirent* entry = readdir(directory)) {
      good &= fstatat(dirfd(directory), entry->d_name, &attributes, AT_SYMLINK_NOFOLLOW) == 0;
    }
    closedir(directory);
    return good;
  }

 private:
  const char* At(const char* path) { return (path_ = prefix_).append(path).c_str(); }

  const std::string prefix_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Calls> MakeCalls(const char* directory) {
  if (access(directory, X_OK) != 0) return nullptr;
  return std::make_unique<PosixCalls>(directory);
}

}  // namespace dafs::bench
