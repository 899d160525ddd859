// Maps named attributes (4.1.5), which may have any name, to extended attributes, whose names begin
// with a name space of Linux (xattr(7)). A name with a name space is the same on both sides. Any
// other named attribute NAME is the extended attribute "user.dafs.NAME". Client and server both use
// this mapping, so programs on both see the same names.
#pragma once

#include <string>
#include <string_view>

namespace dafs::wire {

// Whether `name` begins with "user.", "trusted.", "security." or "system.".
bool HasNameSpace(std::string_view name);

// The name of the extended attribute for the named attribute `attribute`.
std::string XattrOf(std::string_view attribute);

// The name of the named attribute for the extended attribute `xattr`, which has a name space. The
// result is a part of `xattr`.
std::string_view AttributeOf(std::string_view xattr);

}  // namespace dafs::wire
