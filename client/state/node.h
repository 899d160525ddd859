// What the server tells of files and directories. Values.
// Spec: 6.1.5 (attributes), 6.5.29, 6.5.30 (READDIR).
#pragma once

#include <cstdint>

#include "wire/codec/direct.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The attributes that every operation asks for: all of stat(2), and CHANGE.
inline constexpr uint64_t kStatAttributes =
    wire::kFattrObjectType | wire::kFattrMode | wire::kFattrNumLinks | wire::kFattrChange |
    wire::kFattrObjectSize | wire::kFattrFileId | wire::kFattrSpaceUsed | wire::kFattrTimeAccess |
    wire::kFattrTimeCreate | wire::kFattrTimeMetadata | wire::kFattrTimeModify |
    wire::kFattrRawDev | wire::kFattrOwner | wire::kFattrOwnerGroup;

// A file or directory and what was true of it when the answer was made.
struct Node {
  wire::FileHandle handle;
  wire::FileAttributes attributes;
};

// Entries of a directory. Their names and attributes lie in the lease that was given, and are good
// as long as it is neither released nor reused.
struct DirectoryPage {
  wire::Verifier cookieverf;  // for the next page
  bool eof = false;           // no entry after these
  wire::DirentReader entries;
};

}  // namespace dafs::client
