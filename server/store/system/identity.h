// The file system identity and the capabilities of one thread, with which it acts as a caller.
// The kernel makes all permission checks (docs/decisions.md, Server). A thread takes the caller's
// fsuid, fsgid and groups by raw system calls, which unlike those of libc change only this thread.
// It also drops the capabilities that would bypass the checks. fsuid alone is not sufficient:
// CAP_SYS_ADMIN and CAP_SETFCAP still permit trusted.* attributes and file capabilities
// (docs/fuse.md 16). Each thread keeps its identity until another is assumed; a switch takes 12 us.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"

namespace dafs::server {

// A user as the file system sees it, after squashing.
struct Identity {
  uint32_t uid = 65534;
  uint32_t gid = 65534;
  absl::InlinedVector<uint32_t, 32> groups;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// Makes the calling thread act as `identity`. uid 0 keeps the capabilities over files; all others
// lose them. No identity keeps SYS_ADMIN, SETFCAP and SYS_RESOURCE. Returns false if the kernel
// refused: the thread then has no usable identity and must not access files.
[[nodiscard]] bool AssumeIdentity(const Identity& identity);

// Returns whether the calling thread acts for a root user that the export does not squash.
bool ActsAsRoot();

// Returns the thread to the process's own user with all permitted capabilities.
void RestoreOwnIdentity();

// The capabilities that an operation of the server itself needs.
enum class Privilege : uint8_t {
  kAll,
  kOverFiles,  // to open any file. A thread that acts for root has them already, at no cost
};

// Gives the calling thread all permitted capabilities until destroyed, without changing its
// identity. For operations of the server itself: opening by handle, reopening a file with the
// access that an OPEN granted, the orphan directory, verifiers.
class ScopedPrivilege {
 public:
  explicit ScopedPrivilege(Privilege wanted = Privilege::kAll);
  ~ScopedPrivilege();
  ScopedPrivilege(const ScopedPrivilege&) = delete;
  ScopedPrivilege& operator=(const ScopedPrivilege&) = delete;

 private:
  uint64_t before_;
};

// Makes the calling thread act as the process's own user until destroyed; then restores its
// identity. For files that the server creates for itself: a file belongs to the fsuid that creates
// it.
class ScopedOwnIdentity {
 public:
  ScopedOwnIdentity();
  ~ScopedOwnIdentity();
  ScopedOwnIdentity(const ScopedOwnIdentity&) = delete;
  ScopedOwnIdentity& operator=(const ScopedOwnIdentity&) = delete;

 private:
  std::optional<Identity> before_;
};

// Returns whether the process may switch identities and open by handle.
bool HasNeededCapabilities();

}  // namespace dafs::server
