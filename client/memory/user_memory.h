// The memory that an application has registered for its reads and writes: once by the application,
// and by the library with the domain of each new session. Spec: 3.2.1.3, 4.2.2 (registration is the
// user's responsibility), FAST03 4 (memory registration); WIRE 10.
//
// Belongs to the thread of its loop. Register and Deregister are slow; nothing else is, and nothing
// else allocates, but Expose for requests of more than one window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/memory/exposure.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Names registered memory. The null handle names none.
struct MemoryHandle {
  uint32_t value = 0;
  bool is_null() const { return value == 0; }
  friend bool operator==(const MemoryHandle&, const MemoryHandle&) = default;
};

// Memory of the application: a memory descriptor of the paper. With the null handle it need not be
// registered; the data then goes by way of the library's own buffers.
struct MemorySegment {
  std::byte* data = nullptr;
  uint32_t size = 0;
  MemoryHandle handle;
};

// What the server may do to registered memory: no more than the I/O it is for needs.
enum class MemoryAccess : uint8_t {
  kReads,   // the server RDMA-writes it: the target of reads
  kWrites,  // the server RDMA-reads it: the source of writes
  kBoth,
};

class UserMemory {
 public:
  explicit UserMemory(Exposure& exposure) : exposure_(exposure) {}  // which outlives it
  ~UserMemory();                                                    // no session is left
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  // `memory` (of any alignment; page-aligned is cheapest) stays mapped until it is deregistered.
  // kResourceExhausted: a limit on locked memory or of the device; kInvalidArgument: no bytes.
  absl::StatusOr<MemoryHandle> Register(std::span<std::byte> memory, MemoryAccess access);
  // kFailedPrecondition: an I/O still uses it; kNotFound: there is no such memory.
  absl::Status Deregister(MemoryHandle handle);

  // Whether `segment` lies within its registration, which serves reads or writes (`for_write`).
  // kNotFound, kOutOfRange, kPermissionDenied. Not for null handles.
  absl::Status Check(const MemorySegment& segment, bool for_write) const;
  // Brackets an I/O that names memory of `handle`; null: nothing.
  void BeginUse(MemoryHandle handle);
  void EndUse(MemoryHandle handle);

  // Opens `size` bytes from `at` of it to the server, to be written or (`for_write`, by the
  // application) read, and says how the server names them. There is a session. Errors as of
  // Exposure::Expose.
  absl::StatusOr<wire::DirectOpBuffer> Expose(MemoryHandle handle, std::byte* at, uint32_t size,
                                              bool for_write) const;

  // All of it in the domain of a new session, and what is added while that lasts.
  // `access_by_windows`: it is open to the server by memory windows only.
  absl::Status RegisterAll(dat::Domain& domain, bool access_by_windows);
  void DeregisterAll();  // before the domain goes

  // Whether the requests of an I/O that begins now may each name Exposure::kMostOfRequest segments
  // only. Brackets one whose requests may name more: there are no windows meanwhile.
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
    uint16_t generation = 0;  // so that a handle of what was here before names nothing
    std::unique_ptr<dat::Region> region;
  };
  const Entry* Find(MemoryHandle handle) const;
  Entry* Find(MemoryHandle handle);

  Exposure& exposure_;
  std::vector<Entry> entries_;
  bool by_windows_ = false;
  uint32_t long_lists_ = 0;
  dat::Domain* domain_ = nullptr;  // of the present session
  size_t bytes_ = 0;
};

}  // namespace dafs::client
