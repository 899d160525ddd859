// Checks access to the data of a file: the first step of READ, WRITE, APPEND and the procedures on
// ranges. Spec: 4.4.1.2, 6.5.27, 6.5.38; WIRE R64 (state id zero).
//
// With a state id, the rights are those of its OPEN, and the server's descriptors are used. Without
// one, the kernel checks the caller's rights at every call. Writes run as their caller in both
// cases, because the kernel checks the writer's identity for set-id bits, quotas and reserved
// space. Only for the .cc files of this folder. Thread-safe as the Store is.
#pragma once

#include <memory>

#include "runtime/files/unique_fd.h"
#include "server/store/access/file_change.h"
#include "server/store/parts/store_parts.h"

namespace dafs::server {

// A file, and a descriptor for the requested access.
struct OpenData {
  ObjectRef file;
  std::shared_ptr<const UniqueFd> fd;  // owned by the object, or for this call only
};

// The flags of open(2) for `access` (kShareRead or kShareWrite).
int OpenFlags(uint32_t access);

// Whether the identity entered owns `file`.
bool ActsAsOwner(const Object& file);

// The access of any open suffices; without an open, the right to read.
inline constexpr uint32_t kShareAny = 0;

// The intended use of a descriptor for writing.
enum class WriteUse : uint8_t {
  kAnywhere,
  kAppends,  // also allowed for an append-only file (chattr +a)
};

// Finds the file of a request and checks `access` (kShareRead, kShareWrite or kShareAny).
wire::DafsStatus FindData(StoreParts& store, const Caller& caller,
                          const wire::FileHandle& filehandle, const wire::StateId& state_id,
                          uint32_t access, OpenData* data, WriteUse use = WriteUse::kAnywhere);

// Saves what `change` replaces under AUTORECOVERY locks; see SaveBefore. Then acts as the caller
// again. `change` has begun, and lasts until the file has changed.
wire::DafsStatus SaveOld(StoreParts& store, const Caller& caller, Object& file,
                         const FileChange& change);

// A descriptor of `file` for appending, opened with the server's own privilege. On failure returns
// null, with an errno in *error.
std::shared_ptr<const UniqueFd> AppendFd(Object& file, int* error);

}  // namespace dafs::server
