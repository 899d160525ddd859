#include "server/store/system/identity.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "runtime/check.h"

namespace dafs::server {
namespace {

constexpr uint64_t Bit(int capability) { return uint64_t{1} << capability; }

constexpr uint64_t kDangerous = Bit(CAP_SYS_ADMIN) | Bit(CAP_SETFCAP) | Bit(CAP_SYS_RESOURCE);
// The capabilities over files: those that setfsuid(2) drops, and MAC_ADMIN in addition.
constexpr uint64_t kOverFiles = Bit(CAP_CHOWN) | Bit(CAP_DAC_OVERRIDE) | Bit(CAP_DAC_READ_SEARCH) |
                                Bit(CAP_FOWNER) | Bit(CAP_FSETID) | Bit(CAP_LINUX_IMMUTABLE) |
                                Bit(CAP_MKNOD) | Bit(CAP_MAC_OVERRIDE) | Bit(CAP_MAC_ADMIN);

struct Capabilities {
  uint64_t effective = 0;
  uint64_t permitted = 0;
  uint64_t inheritable = 0;
};

// libc has no wrapper; the raw calls act on this thread.
bool GetCapabilities(Capabilities* caps) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  caps->effective = data[0].effective | uint64_t{data[1].effective} << 32;
  caps->permitted = data[0].permitted | uint64_t{data[1].permitted} << 32;
  caps->inheritable = data[0].inheritable | uint64_t{data[1].inheritable} << 32;
  return true;
}

bool SetEffective(const Capabilities& base, uint64_t effective) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int i = 0; i < 2; ++i) {
    data[i].effective = static_cast<uint32_t>(effective >> (32 * i));
    data[i].permitted = static_cast<uint32_t>(base.permitted >> (32 * i));
    data[i].inheritable = static_cast<uint32_t>(base.inheritable >> (32 * i));
  }
  return syscall(SYS_capset, &header, data) == 0;
}

// The present identity of this thread, as set by the functions in this file.
struct ThreadState {
  bool known = false;                // caps below were read
  Capabilities caps;                 // effective kept up to date
  std::optional<Identity> identity;  // none: own, or not known
};
thread_local ThreadState t_state;

ThreadState& State() {
  if (!t_state.known) t_state.known = GetCapabilities(&t_state.caps);
  return t_state;
}

bool Effective(ThreadState& state, uint64_t effective) {
  effective &= state.caps.permitted;
  if (!SetEffective(state.caps, effective)) return false;
  state.caps.effective = effective;
  return true;
}

// setfsuid and setfsgid report no error; a call with -1 returns the present value.
bool SetFsIds(uint32_t uid, uint32_t gid) {
  setfsgid(gid);
  setfsuid(uid);
  return static_cast<uint32_t>(setfsuid(~0u)) == uid && static_cast<uint32_t>(setfsgid(~0u)) == gid;
}

}  // namespace

bool AssumeIdentity(const Identity& identity) {
  ThreadState& state = State();
  if (state.identity.has_value() && *state.identity == identity) return true;
  state.identity.reset();
  if (identity.uid == ~0u || identity.gid == ~0u) return false;
  // SETUID and SETGID are never dropped, so the thread can switch from one caller to the next.
  if (syscall(SYS_setgroups, identity.groups.size(), identity.groups.data()) != 0) return false;
  if (!SetFsIds(identity.uid, identity.gid)) return false;
  // After setfsuid, which itself changes the effective set on a switch to or from uid 0.
  const uint64_t drop = identity.uid == 0 ? kDangerous : kDangerous | kOverFiles;
  if (!Effective(state, state.caps.permitted & ~drop)) return false;
  state.identity = identity;
  return true;
}

bool ActsAsRoot() {
  const ThreadState& state = State();
  return state.identity.has_value() && state.identity->uid == 0;
}

void RestoreOwnIdentity() {
  ThreadState& state = State();
  state.identity.reset();
  SetFsIds(geteuid(), getegid());
  Effective(state, state.caps.permitted);
}

ScopedPrivilege::ScopedPrivilege(Privilege wanted) : before_(State().caps.effective) {
  ThreadState& state = State();
  uint64_t missing = state.caps.permitted & ~before_;
  if (wanted == Privilege::kOverFiles) missing &= kOverFiles;
  if (missing != 0) Effective(state, state.caps.permitted);
}

ScopedPrivilege::~ScopedPrivilege() {
  ThreadState& state = State();
  if (before_ == state.caps.effective) return;
  DAFS_CHECK(Effective(state, before_), "giving up capabilities is always permitted");
}

ScopedOwnIdentity::ScopedOwnIdentity() : before_(State().identity) { RestoreOwnIdentity(); }

ScopedOwnIdentity::~ScopedOwnIdentity() {
  if (!before_.has_value()) return;
  DAFS_CHECK(AssumeIdentity(*before_), "an identity that was taken once can be taken again");
}

bool HasNeededCapabilities() {
  constexpr uint64_t kNeeded = kOverFiles & ~(Bit(CAP_LINUX_IMMUTABLE) | Bit(CAP_MAC_OVERRIDE) |
                                              Bit(CAP_MAC_ADMIN) | Bit(CAP_MKNOD));
  constexpr uint64_t kAll = kNeeded | Bit(CAP_SETUID) | Bit(CAP_SETGID);
  return (State().caps.permitted & kAll) == kAll;
}

}  // namespace dafs::server
