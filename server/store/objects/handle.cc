#include "server/store/objects/handle.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>

#include "runtime/check.h"

namespace dafs::server {
namespace {

constexpr size_t kFsHandleBytes = 16;
constexpr size_t kHeadAt = 16;  // kind and length
constexpr size_t kTypeAt = 17;
constexpr size_t kBytesAt = 18;
constexpr uint8_t kLengthMask = 0x3f;
constexpr int kKindShift = 6;
constexpr size_t kNameHashAt = ObjectKey::kBytes - sizeof(NameHash);
constexpr size_t kMacBytes = 16;  // as computed; handles contain the first kTagBytes

// Only handles are authenticated under kHandleDomain.
constexpr uint8_t kHandleDomain = 1;
constexpr uint8_t kIdentifierDomain = 2;

}  // namespace

ObjectKey KeyOf(const wire::FileHandle& handle) {
  ObjectKey key;
  std::memcpy(key.bytes.data(), handle.fshandle.bytes.data(), kFsHandleBytes);
  std::memcpy(key.bytes.data() + kFsHandleBytes, handle.fileid.bytes.data(),
              ObjectKey::kBytes - kFsHandleBytes);
  return key;
}

ObjectKey MakeKey(const wire::FsHandle& fshandle, HandleKind kind, uint8_t type,
                  std::span<const uint8_t> bytes) {
  DAFS_CHECK(bytes.size() <= kKernelHandleMax, "longer handles are refused where they arise");
  ObjectKey key;
  std::memcpy(key.bytes.data(), fshandle.bytes.data(), kFsHandleBytes);
  key.bytes[kHeadAt] = static_cast<uint8_t>(bytes.size() | static_cast<size_t>(kind) << kKindShift);
  key.bytes[kTypeAt] = type;
  // Not memcpy(3): the bytes may be none, without an address.
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin() + kBytesAt);
  return key;
}

HandleKind KindOf(const ObjectKey& key) {
  return static_cast<HandleKind>(key.bytes[kHeadAt] >> kKindShift);
}

uint8_t TypeOf(const ObjectKey& key) { return key.bytes[kTypeAt]; }

std::span<const uint8_t> BytesOf(const ObjectKey& key) {
  const size_t length = key.bytes[kHeadAt] & kLengthMask;
  return std::span(key.bytes).subspan(kBytesAt, std::min(length, kKernelHandleMax));
}

namespace {

ObjectKey WithKind(ObjectKey key, HandleKind kind) {
  key.bytes[kHeadAt] = static_cast<uint8_t>((key.bytes[kHeadAt] & kLengthMask) |
                                            static_cast<unsigned>(kind) << kKindShift);
  return key;
}

}  // namespace

bool HasRoomForName(const ObjectKey& object) {
  return kBytesAt + BytesOf(object).size() <= kNameHashAt;
}

ObjectKey AttrDirKey(const ObjectKey& object) { return WithKind(object, HandleKind::kAttrDir); }

ObjectKey NamedAttrKey(const ObjectKey& object, const NameHash& name) {
  DAFS_CHECK(HasRoomForName(object), "OPENATTR refuses objects with longer handles");
  ObjectKey key = WithKind(object, HandleKind::kNamedAttr);
  std::memcpy(key.bytes.data() + kNameHashAt, name.data(), name.size());
  return key;
}

ObjectKey ObjectKeyOf(const ObjectKey& key) {
  ObjectKey object = WithKind(key, HandleKind::kFile);
  if (KindOf(key) == HandleKind::kNamedAttr) {
    std::memset(object.bytes.data() + kNameHashAt, 0, sizeof(NameHash));
  }
  return object;
}

NameHash NameHashOf(const ObjectKey& key) {
  NameHash name;
  std::memcpy(name.data(), key.bytes.data() + kNameHashAt, name.size());
  return name;
}

bool IsOfAttributes(const wire::FileHandle& handle) {
  const auto kind = static_cast<HandleKind>(handle.fileid.bytes[0] >> kKindShift);
  return kind == HandleKind::kAttrDir || kind == HandleKind::kNamedAttr;
}

HandleMac::HandleMac(const HandleKey& key) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "BLAKE2SMAC", nullptr);
  DAFS_CHECK(mac != nullptr, "libcrypto has no BLAKE2SMAC");
  keyed_ = EVP_MAC_CTX_new(mac);
  EVP_MAC_free(mac);
  size_t size = kMacBytes;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                               OSSL_PARAM_construct_end()};
  DAFS_CHECK(keyed_ != nullptr && EVP_MAC_init(keyed_, key.data(), key.size(), params) == 1,
             "BLAKE2SMAC takes a key of 32 bytes");
}

HandleMac::~HandleMac() { EVP_MAC_CTX_free(keyed_); }

void HandleMac::Compute(uint8_t domain, std::span<const uint8_t> data,
                        std::span<uint8_t> tag) const {
  uint8_t full[kMacBytes];
  size_t length = 0;
  EVP_MAC_CTX* ctx = EVP_MAC_CTX_dup(keyed_);
  DAFS_CHECK(ctx != nullptr && EVP_MAC_update(ctx, &domain, 1) == 1 &&
                 EVP_MAC_update(ctx, data.data(), data.size()) == 1 &&
                 EVP_MAC_final(ctx, full, &length, sizeof full) == 1 && length == sizeof full,
             "libcrypto failed to compute a MAC");
  EVP_MAC_CTX_free(ctx);
  std::memcpy(tag.data(), full, tag.size());
}

wire::FileHandle HandleMac::Seal(const ObjectKey& key) const {
  wire::FileHandle handle;
  std::memcpy(handle.fshandle.bytes.data(), key.bytes.data(), kFsHandleBytes);
  constexpr size_t kBody = ObjectKey::kBytes - kFsHandleBytes;
  static_assert(kBody + kTagBytes == wire::FileId::kWireSize);
  std::memcpy(handle.fileid.bytes.data(), key.bytes.data() + kFsHandleBytes, kBody);
  Compute(kHandleDomain, key.bytes, std::span(handle.fileid.bytes).subspan(kBody, kTagBytes));
  return handle;
}

bool HandleMac::Verify(const wire::FileHandle& handle) const {
  return SameHandle(Seal(KeyOf(handle)), handle);
}

std::array<uint8_t, 8> HandleMac::Identify(std::string_view text) const {
  std::array<uint8_t, 8> id;
  Compute(kIdentifierDomain, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, id);
  return id;
}

bool SameHandle(const wire::FileHandle& a, const wire::FileHandle& b) {
  return CRYPTO_memcmp(a.fshandle.bytes.data(), b.fshandle.bytes.data(), a.fshandle.bytes.size()) ==
             0 &&
         CRYPTO_memcmp(a.fileid.bytes.data(), b.fileid.bytes.data(), a.fileid.bytes.size()) == 0;
}

}  // namespace dafs::server
