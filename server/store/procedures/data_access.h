// Who may touch the data of a file: what READ, WRITE, APPEND and the procedures on ranges begin
// with. Spec: 4.4.1.2, 6.5.27, 6.5.38; WIRE R64 (state id zero).
//
// With a state id the rights are those of its OPEN, and the descriptors the server's; without one
// the kernel decides anew at every call. Writes act as their caller all the same, because the
// kernel looks at who writes for set-id bits, quotas and reserved space.
// Only for the .cc files of this folder. Thread-safe as the Store.
#pragma once

#include <memory>

#include "server/store/store_impl.h"

namespace dafs::server {

// A file and a descriptor that entitles to what was asked.
struct OpenData {
  ObjectRef file;
  std::shared_ptr<const Fd> fd;  // of the object, or of this call alone
};

// The flags of open(2) for `access` (kShareRead or kShareWrite).
int OpenFlags(uint32_t access);

// Whether the identity entered owns `file`.
bool ActsAsOwner(const Object& file);

// Any open of the file will do; without one, the right to read.
inline constexpr uint32_t kShareAny = 0;

// What is done with a descriptor for writing.
enum class WriteUse : uint8_t {
  kAnywhere,
  kAppends,  // allowed for a file that may only be appended to (chattr +a), too
};

// The file of a READ or WRITE, checked for `access` (kShareRead, kShareWrite or kShareAny).
wire::DafsStatus FindData(StoreImpl& store, const Caller& caller,
                          const wire::FileHandle& filehandle, const wire::StateId& state_id,
                          uint32_t access, OpenData* data, WriteUse use = WriteUse::kAnywhere);

// A descriptor of `file` to append through, opened by the server's own right. Null: *error says
// why.
std::shared_ptr<const Fd> AppendFd(Object& file, int* error);

}  // namespace dafs::server
