#include "fuse/client_id.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>

namespace dafs::fuse {
namespace {

constexpr int kMountsAtOnce = 64;  // of one export on one directory

std::string MachineId() {
  std::string id;
  std::ifstream file("/etc/machine-id");
  if (std::getline(file, id) && !id.empty()) return id.substr(0, 64);
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return host;
}

// FNV-1a, 64 bit: the same in every run, which std::hash does not promise.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

}  // namespace

ClientId TakeClientId(const Options& options, const std::string& directory) {
  std::string where = options.source.export_path + '\n' + options.mount_point;
  std::string base = MachineId() + "/" + options.source.host.substr(0, 255) + ":" +
                     std::to_string(options.port) + "/" + Hex(Hash(where));
  mkdir(directory.c_str(), 0700);
  for (int n = 0; n < kMountsAtOnce; ++n) {
    std::string text = n == 0 ? base : base + "#" + std::to_string(n);
    std::string path = directory + "/" + Hex(Hash(text)) + ".lock";
    UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) break;
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return {text, std::move(lock)};
  }
  std::random_device random;
  return {base + "#" + std::to_string(getpid()) + "." + std::to_string(random()), UniqueFd()};
}

}  // namespace dafs::fuse
