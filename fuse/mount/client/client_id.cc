#include "fuse/mount/client/client_id.h"

// OpenSSL deprecates SHA256_Init and the like in favour of EVP, which Tag avoids.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

#include "absl/strings/escaping.h"
#include "fuse/mount/client/client_secret.h"
#include "runtime/host_name.h"

namespace dafs::fuse {
namespace {

constexpr int kMountsAtOnce = 64;  // of one export on one directory
constexpr size_t kTagBytes = 16;

std::string MachineId() {
  std::string id;
  std::ifstream file("/etc/machine-id");
  std::getline(file, id);
  return id.substr(0, 64);
}

using Sha256 = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

// SHA-256 of one block of `pad` bytes XORed with `key`, followed by `text`.
Sha256 KeyedHash(std::span<const uint8_t> key, uint8_t pad, std::span<const uint8_t> text) {
  std::array<uint8_t, SHA256_CBLOCK> block;
  block.fill(pad);
  for (size_t i = 0; i < key.size(); ++i) block[i] ^= key[i];
  Sha256 hash;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, block.data(), block.size());
  SHA256_Update(&context, text.data(), text.size());
  SHA256_Final(hash.data(), &context);
  return hash;
}

// The first half of HMAC-SHA256 (RFC 2104), for keys of at most one block. OpenSSL's own HMAC is
// not used: it loads OpenSSL's providers, which take more memory than the rest of an idle mount.
std::string Tag(std::span<const uint8_t> key, const std::string& text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const Sha256 inner = KeyedHash(key, 0x36, {bytes, text.size()});
  const Sha256 outer = KeyedHash(key, 0x5c, inner);
  return absl::BytesToHexString({reinterpret_cast<const char*>(outer.data()), kTagBytes});
}

}  // namespace

ClientId TakeClientId(const Options& options, const ClientIdPlaces& places) {
  // The server's log shows only this part.
  const std::string host = options.client_id.empty() ? HostName() : options.client_id;
  const std::string name = host + ":" + options.mount_point.substr(0, 512);
  const std::string machine = options.client_id.empty() ? MachineId() : options.client_id;
  // The locations of a DAFS name may change between two mounts of it.
  const std::string server = options.source.is_name
                                 ? "name\n" + options.source.text + '\n'
                                 : options.source.host + '\n' + std::to_string(options.port) +
                                       '\n' + options.source.export_path;
  std::string all = machine + '\n' + server + '\n' + options.mount_point;
  // The proof of the client is part of its identity (3.1.1.3): the server would not let the mount
  // take the name of an earlier one that proved something else.
  if (options.xprtsec != Xprtsec::kNone) {
    all += options.xprtsec == Xprtsec::kTls ? "\ntls" : "\nmtls";
  }
  if (options.sec == Sec::kKrb5Host) all += "\nkrb5host";
  if (options.sec == Sec::kText) all += "\ntext";
  if (options.sec == Sec::kKrb5) all += "\nkrb5";
  mkdir(places.locks.c_str(), 0700);
  for (int n = 0; n < kMountsAtOnce; ++n) {
    std::string number;
    if (n > 0) number.append(1, '#').append(std::to_string(n));
    // Hashed only because a file name is limited to 255 bytes.
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
