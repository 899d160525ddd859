#include "client/library/path_calls.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/library/call_name.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

// Enough for some hundred entries with their attributes; every server sends less if it wants to.
constexpr uint32_t kListBytes = 64 << 10;

}  // namespace

std::vector<std::string> NamesOfPath(std::string_view path) {
  return absl::StrSplit(Text(path), '/', absl::SkipEmpty());
}

absl::StatusOr<wire::FileHandle> PathCalls::Walk(std::string_view path, std::string* name) {
  const std::vector<std::string> names = NamesOfPath(path);
  if (names.empty()) return absl::InvalidArgumentError("an empty path");
  wire::FileHandle directory = root_.handle;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    ASSIGN_OR_RETURN(
        Node node, RunUntilDone(files_.loop(), files_.names().Lookup(user_, directory, names[i])));
    directory = node.handle;
  }
  *name = names.back();
  return directory;
}

absl::StatusOr<wire::FileHandle> PathCalls::Find(std::string_view path) {
  if (NamesOfPath(path).empty()) return root_.handle;
  std::string name;
  ASSIGN_OR_RETURN(const wire::FileHandle directory, Walk(path, &name));
  ASSIGN_OR_RETURN(const Node node,
                   RunUntilDone(files_.loop(), files_.names().Lookup(user_, directory, name)));
  return node.handle;
}

// Runs the task that `run` makes for the file of `path`, and names its error.
template <class Call>
auto PathCalls::OnFile(std::string_view call, std::string_view path, Call run) {
  using Result = decltype(RunUntilDone(files_.loop(), run(wire::FileHandle())));
  absl::StatusOr<wire::FileHandle> file = Find(path);
  if (!file.ok()) return NameCall(files_, call, path, Result(file.status()));
  return NameCall(files_, call, path, RunUntilDone(files_.loop(), run(*file)));
}

// The same for a name in a directory.
template <class Call>
absl::Status PathCalls::OnName(std::string_view call, std::string_view path, Call run) {
  std::string name;
  absl::StatusOr<wire::FileHandle> directory = Walk(path, &name);
  if (!directory.ok()) return NameCall(files_, call, path, directory.status());
  auto result = RunUntilDone(files_.loop(), run(*directory, name));
  if constexpr (std::is_same_v<decltype(result), absl::Status>) {
    return NameCall(files_, call, path, result);
  } else {
    return NameCall(files_, call, path, result.status());
  }
}

absl::StatusOr<std::vector<DirectoryEntry>> PathCalls::List(std::string_view path) {
  absl::StatusOr<wire::FileHandle> directory = Find(path);
  if (!directory.ok()) return NameCall(files_, "list", path, directory.status());
  return NameCall(files_, "list", path, ListDirectory(*directory));
}

absl::StatusOr<std::vector<DirectoryEntry>> PathCalls::ListDirectory(
    const wire::FileHandle& directory) {
  std::vector<DirectoryEntry> entries;
  BufferLease lease = files_.buffers().TryAcquire(BufferUse::kReadTarget, kListBytes);
  if (!lease) return absl::ResourceExhaustedError("no free buffer: too many reads are outstanding");
  uint64_t cookie = 0;
  wire::Verifier verifier;
  for (;;) {
    ASSIGN_OR_RETURN(
        DirectoryPage page,
        RunUntilDone(files_.loop(), files_.directories().ReadDirectory(
                                        user_, directory, cookie, verifier, lease.payload_bytes(),
                                        kStatAttributes, lease)));
    verifier = page.cookieverf;
    wire::DirentView entry;
    const uint64_t before = cookie;
    bool any = false;
    while (page.entries.Next(entry)) {
      any = true;
      cookie = entry.cookie;
      if (entry.name == "." || entry.name == "..") continue;
      entries.push_back({std::string(entry.name), *entry.attrs});
    }
    RETURN_IF_ERROR(page.entries.status());
    if (page.eof) return entries;
    if (!any || cookie == before)
      return absl::DataLossError("the server returned a directory page that does not advance");
  }
}

absl::StatusOr<Attributes> PathCalls::Stat(std::string_view path) {
  return OnFile("stat", path, [&](const wire::FileHandle& file) {
    return files_.attributes().GetAttributes(user_, file);
  });
}

absl::StatusOr<Attributes> PathCalls::SetAttributes(std::string_view path,
                                                    const wire::FileAttributes& attributes) {
  const wire::StateId none;
  return OnFile("set attributes of", path, [&](const wire::FileHandle& file) {
    return files_.attributes().SetAttributes(user_, file, none, attributes);
  });
}

absl::StatusOr<bool> PathCalls::Verify(std::string_view path,
                                       const wire::FileAttributes& attributes) {
  return OnFile("verify", path, [&](const wire::FileHandle& file) {
    return files_.attributes().Verify(user_, file, attributes);
  });
}

absl::StatusOr<bool> PathCalls::NVerify(std::string_view path,
                                        const wire::FileAttributes& attributes) {
  return OnFile("nverify", path, [&](const wire::FileHandle& file) {
    return files_.attributes().NVerify(user_, file, attributes);
  });
}

absl::Status PathCalls::MakeDirectory(std::string_view path, uint32_t mode) {
  wire::FileAttributes attributes;
  attributes.mode = mode;
  attributes.set(wire::kFattrMode);
  return OnName("mkdir", path, [&](const wire::FileHandle& directory, std::string_view name) {
    return files_.names().MakeDirectory(user_, directory, name, attributes);
  });
}

absl::Status PathCalls::Remove(std::string_view path) {
  return OnName("remove", path, [&](const wire::FileHandle& directory, std::string_view name) {
    return files_.names().Remove(user_, directory, name);
  });
}

absl::Status PathCalls::Rename(std::string_view from, std::string_view to) {
  std::string to_name;
  absl::StatusOr<wire::FileHandle> to_directory = Walk(to, &to_name);
  if (!to_directory.ok()) return NameCall(files_, "rename to", to, to_directory.status());
  return OnName("rename", from, [&](const wire::FileHandle& directory, std::string_view name) {
    return files_.names().Rename(user_, directory, name, *to_directory, to_name);
  });
}

absl::Status PathCalls::Link(std::string_view from, std::string_view to) {
  absl::StatusOr<wire::FileHandle> file = Find(from);
  if (!file.ok()) return NameCall(files_, "link", from, file.status());
  return OnName("link to", to, [&](const wire::FileHandle& directory, std::string_view name) {
    return files_.names().Link(user_, *file, directory, name);
  });
}

absl::Status PathCalls::MakeSymlink(std::string_view target, std::string_view path) {
  return OnName("symlink", path, [&](const wire::FileHandle& directory, std::string_view name) {
    return files_.names().MakeSymlink(user_, directory, name, target);
  });
}

absl::StatusOr<std::string> PathCalls::ReadLink(std::string_view path) {
  return OnFile("readlink", path,
                [&](const wire::FileHandle& file) { return files_.names().ReadLink(user_, file); });
}

absl::StatusOr<std::vector<std::string>> PathCalls::GetFence(std::string_view path) {
  return OnFile("get the fencing list of", path, [&](const wire::FileHandle& file) {
    return files_.fencing().GetFence(user_, file);
  });
}

absl::Status PathCalls::SetFence(std::string_view path, const FenceChange& change) {
  return OnFile("set the fencing list of", path, [&](const wire::FileHandle& file) {
    return files_.fencing().SetFence(user_, file, change);
  });
}

}  // namespace dafs::client
