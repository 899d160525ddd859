// Attributes and directory entries that the server returns. Values.
// Spec: 6.1.5 (attributes), 6.5.29, 6.5.30 (READDIR).
#pragma once

#include <cstdint>

#include "client/state/promises.h"
#include "wire/codec/attributes_after.h"
#include "wire/codec/direct.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The attributes that every operation requests: all of stat(2), and CHANGE.
inline constexpr uint64_t kStatAttributes = wire::kAttributesAfter;

// The attributes of an object, and whether the server announces a change of them.
struct Attributes : wire::FileAttributes {
  Promise promise = {};
};

// A file or directory, with its attributes at the time of the response.
struct Node {
  wire::FileHandle handle;
  Attributes attributes;
  Promise names = {};  // of the directory in which it was looked up or made
};

// Entries of a directory. Names and attributes lie in the caller's lease, and are valid until it is
// released or reused.
struct DirectoryPage {
  wire::Verifier cookieverf;  // for the next page
  bool eof = false;           // no entry follows these
  wire::DirentReader entries;
  Promise names = {};       // of the directory
  Promise attributes = {};  // of each entry, about those in this page
};

}  // namespace dafs::client
