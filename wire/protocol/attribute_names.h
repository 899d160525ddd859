// How named attributes (4.1.5), which may have any name, and extended attributes go together, whose
// names begin with a name space of Linux (xattr(7)). A name with one is the same on either side;
// any other named attribute NAME is the extended attribute "user.dafs.NAME". Both ends go by this,
// so that programs of the server and of a mount see the same names.
#pragma once

#include <string>
#include <string_view>

namespace dafs::wire {

// Whether `name` begins with "user.", "trusted.", "security." or "system.".
bool HasNameSpace(std::string_view name);

// The extended attribute that the named attribute `attribute` is.
std::string XattrOf(std::string_view attribute);

// The named attribute that the extended attribute `xattr`, which has a name space, is; a part of
// it.
std::string_view AttributeOf(std::string_view xattr);

}  // namespace dafs::wire
