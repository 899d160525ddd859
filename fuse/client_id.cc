#include "fuse/client_id.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "fuse/client_secret.h"
#include "wire/check.h"

namespace dafs::fuse {
namespace {

constexpr int kMountsAtOnce = 64;  // of one export on one directory
constexpr size_t kTagBytes = 16;

std::string HostName() {
  char host[65] = "";  // HOST_NAME_MAX and the end
  gethostname(host, sizeof(host) - 1);
  return host;
}

std::string MachineId() {
  std::string id;
  std::ifstream file("/etc/machine-id");
  std::getline(file, id);
  return id.substr(0, 64);
}

std::string Hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// HMAC-SHA256, its first half.
std::string Tag(std::span<const uint8_t> key, const std::string& text) {
  uint8_t hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  DAFS_CHECK(
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const uint8_t*>(text.data()), text.size(), hash, &size) != nullptr,
      "HMAC-SHA256 failed");
  return Hex(std::span(hash).first(kTagBytes));
}

}  // namespace

ClientId TakeClientId(const Options& options, const ClientIdPlaces& places) {
  // For readers of the server's log, which shows no more than this.
  const std::string host = options.client_id.empty() ? HostName() : options.client_id;
  const std::string name = host + ":" + options.mount_point.substr(0, 512);
  const std::string machine = options.client_id.empty() ? MachineId() : options.client_id;
  const std::string all = machine + '\n' + options.source.host + '\n' +
                          std::to_string(options.port) + '\n' + options.source.export_path + '\n' +
                          options.mount_point;
  mkdir(places.locks.c_str(), 0700);
  for (int n = 0; n < kMountsAtOnce; ++n) {
    std::string number;
    if (n > 0) number.append(1, '#').append(std::to_string(n));
    // Not secret, but a hash all the same: a file name has 255 bytes.
    const std::string path = places.locks + "/" + Tag({}, all + number) + ".lock";
    UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) break;
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    const ClientSecret secret = KeptSecret(places.secret).value_or(RandomSecret());
    return {name + number + "/" + Tag(secret, all + number), std::move(lock)};
  }
  return {name + "/" + Tag(RandomSecret(), all), UniqueFd()};
}

}  // namespace dafs::fuse
