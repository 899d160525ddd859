// Constants of Linux extended attributes.
#pragma once

#include <cstdint>

namespace dafs::client {

// The largest value of an extended attribute (XATTR_SIZE_MAX).
inline constexpr uint32_t kXattrMost = 65536;

// How an extended attribute is set: the flags of setxattr(2).
enum class XattrMode : uint8_t {
  kAny,
  kCreate,   // fails with EXIST if there is one
  kReplace,  // fails with NOENT if there is none
};

}  // namespace dafs::client
