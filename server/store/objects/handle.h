// Filehandles: the layout of the 64 bytes, and the keyed MAC that prevents forged handles.
// Spec: 4.1.4, WIRE 4.2; docs/decisions.md, Server.
//
//   fshandle  0  8 bytes  export id: MAC of the export's name and directory
//             8  8 bytes  file system within the export: MAC of its f_fsid and mount point
//   fileid   16  1 byte   kind (high two bits) and length (low six) of the kernel's handle
//            17  1 byte   the kernel's handle type
//            18 32 bytes  the kernel's handle (name_to_handle_at), zero-padded. For a named
//                         attribute: the handle of its object, and in the last 8 bytes a hash of
//                         its name
//            50 14 bytes  MAC of the bytes before
//
// The kernel's handle survives restarts and renames, and names an object for as long as it exists.
// So does a filehandle. Everything here is usable from any thread; nothing blocks.
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

// A handle without its MAC. Two keys are equal exactly if they name the same object of the same
// file system, so the server indexes its state of objects by it.
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

// The kind of object that a handle names.
enum class HandleKind : uint8_t {
  kFile = 0,       // an object of a file system of the kernel
  kPseudo = 1,     // a directory of the pseudo file system
  kAttrDir = 2,    // the named-attribute directory of an object
  kNamedAttr = 3,  // one attribute in it
};

ObjectKey KeyOf(const wire::FileHandle& handle);
ObjectKey MakeKey(const wire::FsHandle& fshandle, HandleKind kind, uint8_t type,
                  std::span<const uint8_t> bytes);  // at most kKernelHandleMax

// The parts of a key. The key comes from a handle that HandleMac::Verify accepted.
HandleKind KindOf(const ObjectKey& key);
uint8_t TypeOf(const ObjectKey& key);
std::span<const uint8_t> BytesOf(const ObjectKey& key);

// Named attributes (4.1.5). A handle has room for the name hash only if the kernel's handle is
// short enough, as on ext4, xfs, btrfs and tmpfs.
using NameHash = std::array<uint8_t, 8>;
bool HasRoomForName(const ObjectKey& object);
ObjectKey AttrDirKey(const ObjectKey& object);
ObjectKey NamedAttrKey(const ObjectKey& object, const NameHash& name);
// The object to which the attributes of `key` belong, and the hash of the attribute's name.
ObjectKey ObjectKeyOf(const ObjectKey& key);
NameHash NameHashOf(const ObjectKey& key);
// Whether a handle, genuine or not, has the kind of a named attribute or of an attribute directory.
bool IsOfAttributes(const wire::FileHandle& handle);

// The handle MAC of one server: keyed BLAKE2s, truncated to 14 bytes in a handle.
class HandleMac {
 public:
  static constexpr size_t kTagBytes = 14;

  explicit HandleMac(const HandleKey& key);
  ~HandleMac();
  HandleMac(const HandleMac&) = delete;
  HandleMac& operator=(const HandleMac&) = delete;

  wire::FileHandle Seal(const ObjectKey& key) const;

  // Whether Seal made `handle`. Takes the same time for every wrong MAC.
  bool Verify(const wire::FileHandle& handle) const;

  // An identifier of 8 bytes for `text`, unrelated to any handle's MAC.
  std::array<uint8_t, 8> Identify(std::string_view text) const;

 private:
  void Compute(uint8_t domain, std::span<const uint8_t> data, std::span<uint8_t> tag) const;

  evp_mac_ctx_st* keyed_;  // owned; only duplicated, never used itself
};

// Whether two handles are equal byte for byte, in constant time.
bool SameHandle(const wire::FileHandle& a, const wire::FileHandle& b);

}  // namespace dafs::server
