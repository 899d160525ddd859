// Calls that name files and directories by path: list, make, remove, rename, attributes, fencing.
// Spec: 6.5.9, 6.5.17, 6.5.21 to 6.5.23, 6.5.29 to 6.5.37; 4.4.4.
//
// A path is relative to the export: "dir/file"; "" is the export itself. Symbolic links are not
// followed. Every call blocks and turns the loop; it belongs to the thread of its session. An error
// names the server, the export, the call and the path; wire::DafsFromStatus has the server's code.
// kInvalidArgument: an empty path where a name is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct DirectoryEntry {
  std::string name;
  wire::FileAttributes attributes;  // those of stat(2); only valid ones count
};

// The names in `path`: {"dir", "file"}.
std::vector<std::string> NamesOfPath(std::string_view path);

class PathCalls {
 public:
  // All outlive it. `root`: the root of the export.
  PathCalls(Files& files, const Identity& user, const Node& root)
      : files_(files), user_(user), root_(root) {}

  // Every entry except "." and "..", in the server's order. Changes meanwhile may be missing.
  absl::StatusOr<std::vector<DirectoryEntry>> List(std::string_view path);
  absl::StatusOr<Attributes> Stat(std::string_view path);
  // Sets what is valid in `attributes`, and returns the attributes after that.
  absl::StatusOr<Attributes> SetAttributes(std::string_view path,
                                           const wire::FileAttributes& attributes);
  // Whether the server's attributes are those valid in `attributes`; NVERIFY asks for the opposite
  // and gives the same result.
  absl::StatusOr<bool> Verify(std::string_view path, const wire::FileAttributes& attributes);
  absl::StatusOr<bool> NVerify(std::string_view path, const wire::FileAttributes& attributes);

  absl::Status MakeDirectory(std::string_view path, uint32_t mode = 0777);
  // Removes a file or an empty directory, as remove(3).
  absl::Status Remove(std::string_view path);
  absl::Status Rename(std::string_view from, std::string_view to);
  // Gives the file `from` also the name `to`.
  absl::Status Link(std::string_view from, std::string_view to);
  absl::Status MakeSymlink(std::string_view target, std::string_view path);
  absl::StatusOr<std::string> ReadLink(std::string_view path);

  // The fencing list of `path`, or without one that of its file system
  // (client/files/names/fencing.h).
  absl::StatusOr<std::vector<std::string>> GetFence(std::string_view path);
  // Changes the list of `path`, or of its file system. With kDeny it returns after every access
  // that the denied clients had begun.
  absl::Status SetFence(std::string_view path, const FenceChange& change);

  // The parent directory of `path`; stores the last component in `name`. Errors are not named.
  absl::StatusOr<wire::FileHandle> Walk(std::string_view path, std::string* name);

 private:
  absl::StatusOr<wire::FileHandle> Find(std::string_view path);
  absl::StatusOr<std::vector<DirectoryEntry>> ListDirectory(const wire::FileHandle& directory);
  template <class Call>
  auto OnFile(std::string_view call, std::string_view path, Call run);
  template <class Call>
  absl::Status OnName(std::string_view call, std::string_view path, Call run);

  Files& files_;
  const Identity& user_;
  const Node& root_;
};

}  // namespace dafs::client
