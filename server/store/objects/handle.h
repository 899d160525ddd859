// Filehandles: what is in the 64 bytes, and the keyed MAC that keeps clients from making their own.
// Spec: 4.1.4, WIRE.md 4.2; ARCHITECTURE "Server".
//
//   fshandle  0  8 bytes  export id: MAC of the export's name and directory
//             8  8 bytes  file system within the export: MAC of its f_fsid and mount point
//   fileid   16  1 byte   kind (high two bits) and length (low six) of what follows
//            17  1 byte   the kernel's handle type
//            18 32 bytes  the kernel's handle (name_to_handle_at), zero-padded; of a named
//            attribute
//                         the handle of its object, and in the last 8 bytes a hash of its name
//            50 14 bytes  MAC of the bytes before
//
// The kernel's handle survives restarts and renames, and names an object for as long as it exists;
// so does ours. All here is usable from any thread; nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "server/store/system/state_dir.h"
#include "wire/protocol/types.h"

struct evp_mac_ctx_st;  // OpenSSL's EVP_MAC_CTX

namespace dafs::server {

inline constexpr size_t kKernelHandleMax = 32;

// A handle without its MAC: equal exactly for the same object of the same file system, so it keys
// what the server knows of objects.
struct ObjectKey {
  static constexpr size_t kBytes = 50;
  std::array<uint8_t, kBytes> bytes{};

  wire::FsHandle fshandle() const {
    wire::FsHandle fs;
    std::memcpy(fs.bytes.data(), bytes.data(), fs.bytes.size());
    return fs;
  }
  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  template <class H>
  friend H AbslHashValue(H h, const ObjectKey& key) {
    return H::combine_contiguous(std::move(h), key.bytes.data(), kBytes);
  }
};

// What a handle names.
enum class HandleKind : uint8_t {
  kFile = 0,       // an object of the kernel's
  kPseudo = 1,     // a directory of the pseudo file system
  kAttrDir = 2,    // the named-attribute directory of an object
  kNamedAttr = 3,  // one attribute in it
};

ObjectKey KeyOf(const wire::FileHandle& handle);
ObjectKey MakeKey(const wire::FsHandle& fshandle, HandleKind kind, uint8_t type,
                  std::span<const uint8_t> bytes);  // at most kKernelHandleMax

// The parts of a key that has passed HandleMac::Verify.
HandleKind KindOf(const ObjectKey& key);
uint8_t TypeOf(const ObjectKey& key);
std::span<const uint8_t> BytesOf(const ObjectKey& key);

// Named attributes (4.1.5). A handle has room for the hash only if the kernel's is not too long;
// those of ext4, xfs, btrfs and tmpfs are not.
using NameHash = std::array<uint8_t, 8>;
bool HasRoomForName(const ObjectKey& object);
ObjectKey AttrDirKey(const ObjectKey& object);
ObjectKey NamedAttrKey(const ObjectKey& object, const NameHash& name);
// The object whose attributes `key` is about, and which of them.
ObjectKey ObjectKeyOf(const ObjectKey& key);
NameHash NameHashOf(const ObjectKey& key);
// Whether a handle, genuine or not, is one of a named attribute or a directory of them.
bool IsOfAttributes(const wire::FileHandle& handle);

// The MAC of one server: BLAKE2s, keyed, of which handles carry 14 bytes.
class HandleMac {
 public:
  static constexpr size_t kTagBytes = 14;

  explicit HandleMac(const HandleKey& key);
  ~HandleMac();
  HandleMac(const HandleMac&) = delete;
  HandleMac& operator=(const HandleMac&) = delete;

  wire::FileHandle Seal(const ObjectKey& key) const;

  // Whether `handle` is one that Seal has made. Takes the same time for every wrong MAC.
  bool Verify(const wire::FileHandle& handle) const;

  // An identifier of 8 bytes for `text`, unrelated to any handle's MAC.
  std::array<uint8_t, 8> Identify(std::string_view text) const;

 private:
  void Compute(uint8_t domain, std::span<const uint8_t> data, std::span<uint8_t> tag) const;

  evp_mac_ctx_st* keyed_;  // owned; never used itself, only duplicated
};

// Whether two handles are equal byte for byte, in constant time.
bool SameHandle(const wire::FileHandle& a, const wire::FileHandle& b);

}  // namespace dafs::server
