// Properties of a file system that follow from its type in the mount table.
// Any thread. Sends no request to the file system.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dafs::server {

// Whether the kernel alone serves file systems of this type. Another process or machine may itself
// be a client of this server.
bool IsLocal(absl::string_view type);

// Whether a file system of this type keeps its handles valid after its caches are dropped and after
// a remount. A FUSE file system does so only if its daemon can find a file by number, which the
// kernel does not report.
bool KeepsHandles(absl::string_view type);

// The type of the file system of an O_PATH descriptor. Empty if the mount table does not list it.
std::string TypeOfFileSystem(int fd);

}  // namespace dafs::server
