// Acting as a caller: the file system identity and the capabilities of one thread.
// The kernel's own permission checks are the only ones (ARCHITECTURE "Server"): a thread takes the
// caller's fsuid, fsgid and groups by raw system calls, which unlike those of libc change this
// thread alone, and drops the capabilities that would let it past the checks. fsuid alone would not
// do: trusted.* attributes and file capabilities stay open to CAP_SYS_ADMIN and CAP_SETFCAP
// (FUSE-FACTS 16). The last identity is remembered per thread and kept until another is asked for;
// a full switch costs about 12 us.
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

// Makes the calling thread act as `identity`: uid 0 keeps the capabilities over files, all others
// lose them; nobody keeps SYS_ADMIN, SETFCAP and SYS_RESOURCE. Returns whether the kernel agreed;
// if not, the thread has no usable identity and must not touch files.
[[nodiscard]] bool AssumeIdentity(const Identity& identity);

// Whether the calling thread acts for a root that the export does not squash.
bool ActsAsRoot();

// Back to the process's own user with all capabilities it is permitted.
void RestoreOwnIdentity();

// What is done by the server's own right.
enum class Privilege : uint8_t {
  kAll,
  kOverFiles,  // to open whatever it is: whoever acts for root has it, and it costs nothing then
};

// All permitted capabilities for the calling thread, without changing who it is, until destroyed.
// For what the server does by its own right: opening by handle, reopening what an OPEN has granted,
// the orphan directory, verifiers.
class ScopedPrivilege {
 public:
  explicit ScopedPrivilege(Privilege wanted = Privilege::kAll);
  ~ScopedPrivilege();
  ScopedPrivilege(const ScopedPrivilege&) = delete;
  ScopedPrivilege& operator=(const ScopedPrivilege&) = delete;

 private:
  uint64_t before_;
};

// The calling thread is the process's own user until destroyed, and then again whom it was before.
// For what the server makes for itself: files belong to the fsuid that makes them.
class ScopedOwnIdentity {
 public:
  ScopedOwnIdentity();
  ~ScopedOwnIdentity();
  ScopedOwnIdentity(const ScopedOwnIdentity&) = delete;
  ScopedOwnIdentity& operator=(const ScopedOwnIdentity&) = delete;

 private:
  std::optional<Identity> before_;
};

// Whether the process may switch identities and open by handle at all.
bool HasNeededCapabilities();

}  // namespace dafs::server
