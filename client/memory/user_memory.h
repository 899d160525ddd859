// Memory that an application has registered for its reads and writes. The application registers it
// once; the library registers it with the domain of each new session. Spec: 3.2.1.3, 4.2.2
// (registration is the user's responsibility), FAST03 4 (memory registration); WIRE 10.
//
// Belongs to the thread of its loop. Register and Deregister are slow; nothing else is. Otherwise
// nothing allocates, except Expose for requests with more than one window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/memory/remote_access.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Names registered memory. The null handle names none.
struct MemoryHandle {
  uint32_t value = 0;
  bool is_null() const { return value == 0; }
  friend bool operator==(const MemoryHandle&, const MemoryHandle&) = default;
};

// Memory of the application; a memory descriptor in the paper. With the null handle it need not be
// registered: the library then copies the data through its own buffers.
struct MemorySegment {
  std::byte* data = nullptr;
  uint32_t size = 0;
  MemoryHandle handle;
};

// The access of the server to registered memory: no more than the I/O needs.
enum class MemoryAccess : uint8_t {
  kReads,   // the server RDMA-writes it: the target of reads
  kWrites,  // the server RDMA-reads it: the source of writes
  kBoth,
};

class UserMemory {
 public:
  explicit UserMemory(RemoteAccess& remote_access)
      : remote_access_(remote_access) {}  // outlives this
  ~UserMemory();                          // after the end of the last session
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  // `memory` has any alignment (page-aligned is fastest) and stays mapped until it is deregistered.
  // kResourceExhausted: the limit on locked memory or a limit of the device; kInvalidArgument: no
  // bytes.
  absl::StatusOr<MemoryHandle> Register(std::span<std::byte> memory, MemoryAccess access);
  // kFailedPrecondition: an I/O still uses it; kNotFound: no such memory.
  absl::Status Deregister(MemoryHandle handle);

  // Whether `segment` lies within its registration, and whether that allows reads or writes
  // (`for_write`). kNotFound, kOutOfRange, kPermissionDenied. Not for null handles.
  absl::Status Check(const MemorySegment& segment, bool for_write) const;
  // Begin and end of an I/O that names memory of `handle`; a null handle has no effect.
  void BeginUse(MemoryHandle handle);
  void EndUse(MemoryHandle handle);

  // Opens `size` bytes from `at` of the memory to the server, which may then write it or
  // (`for_write`: the application writes) read it. Returns the server's name for it. Requires a
  // session. Errors as of RemoteAccess::Expose.
  absl::StatusOr<wire::DirectOpBuffer> Expose(MemoryHandle handle, std::byte* at, uint32_t size,
                                              bool for_write) const;

  // Registers all of it in the domain of a new session, and later what is added during the session.
  // `access_by_windows`: the server accesses it by memory windows only.
  absl::Status RegisterAll(dat::Domain& domain, bool access_by_windows);
  void DeregisterAll();  // call before the domain ends

  // by_windows: whether each request of an I/O that begins now may name at most
  // RemoteAccess::kMostOfRequest segments. BeginLongLists and EndLongLists bracket an I/O whose
  // requests may name more; a session built meanwhile uses no windows.
  bool by_windows() const { return by_windows_; }
  void BeginLongLists() { ++long_lists_; }
  void EndLongLists() { --long_lists_; }
  bool has_long_lists() const { return long_lists_ > 0; }

  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::span<std::byte> memory;
    dat::Access access = dat::Access::kLocal;
    uint32_t uses = 0;
    uint16_t generation = 0;  // makes handles of earlier memory in this entry invalid
    std::unique_ptr<dat::Region> region;
  };
  const Entry* Find(MemoryHandle handle) const;
  Entry* Find(MemoryHandle handle);

  RemoteAccess& remote_access_;
  std::vector<Entry> entries_;
  bool by_windows_ = false;
  uint32_t long_lists_ = 0;
  dat::Domain* domain_ = nullptr;  // of the present session
  size_t bytes_ = 0;
};

}  // namespace dafs::client
