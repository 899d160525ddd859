#include "server/daemon/confinement.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::server {
namespace {

constexpr uint64_t Bit(int capability) { return uint64_t{1} << capability; }

// The reasons are in docs/security.md, and in man/systemd/dafsd.service.in, which has the same set.
constexpr uint64_t kKept = Bit(CAP_DAC_READ_SEARCH) | Bit(CAP_DAC_OVERRIDE) | Bit(CAP_CHOWN) |
                           Bit(CAP_FOWNER) | Bit(CAP_FSETID) | Bit(CAP_SETUID) | Bit(CAP_SETGID) |
                           Bit(CAP_MKNOD) | Bit(CAP_SETFCAP) | Bit(CAP_SYS_ADMIN) |
                           Bit(CAP_SYS_RESOURCE) | Bit(CAP_IPC_LOCK) | Bit(CAP_NET_BIND_SERVICE) |
                           Bit(CAP_LEASE);

absl::Status Refused(absl::string_view what) {
  return absl::InternalError(absl::StrCat("cannot drop privileges: ", what, ": ",
                                          std::strerror(errno), "; --confine off starts without"));
}

absl::Status DropCapabilities() {
  // Without CAP_SETPCAP the set does not change. Then nothing but execve(2) could use it, and that
  // is refused below.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if ((kKept & Bit(capability)) == 0) prctl(PR_CAPBSET_DROP, capability);
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return Refused("ambient capabilities");
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return Refused("capget");
  for (int i = 0; i < 2; ++i) {
    const auto kept = static_cast<uint32_t>(kKept >> (32 * i));
    data[i].permitted &= kept;
    data[i].effective &= kept;
    data[i].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, data) != 0) return Refused("capset");
  return absl::OkStatus();
}

// ---- System calls -------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Calls that start programs, trace other processes, change the machine, or have had many faults,
// and that neither this program nor a library of it uses. All others are allowed: name services and
// Kerberos load modules of their own.
constexpr int kRefused[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_personality,
    SYS_fanotify_init,
    SYS_quotactl,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_kexec_file_load,
#endif
};

// New namespaces. CLONE_NEWTIME is a bit of the signal in clone(2).
constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

class Filter {
 public:
  Filter() {
    // A call of another architecture has other numbers.
    Load(offsetof(seccomp_data, arch));
    Jump(BPF_JEQ, kArchitecture, 1, 0);
    Refuse(EPERM);
    Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    Jump(BPF_JGE, 0x40000000, 0, 1);  // x32
    Refuse(EPERM);
#endif
    for (const int number : kRefused) {
      Jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1);
      Refuse(EPERM);
    }
    // Its flags are in memory, which a filter cannot read. libc then uses clone(2).
    Jump(BPF_JEQ, SYS_clone3, 0, 1);
    Refuse(ENOSYS);
    for (const int number : {SYS_clone, SYS_unshare}) {
      Jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 4);
      Load(offsetof(seccomp_data, args[0]));  // the lower half, on a little-endian machine
      Jump(BPF_JSET, kNamespaces, 0, 1);
      Refuse(EPERM);
      Add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    Add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }

  absl::Status Install() {
    const sock_fprog program = {.len = static_cast<uint16_t>(code_.size()), .filter = code_.data()};
    // Without this flag, Linux before 5.16 also turns off speculation past stores, which slows all
    // of the process. The kernel evaluates the filter once for a call that is always allowed.
    constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program) == 0) {
      return absl::OkStatus();
    }
    // The filter of dafsd.service, as of systemd's @system-service, permits only this one.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return Refused("system calls");
    return absl::OkStatus();
  }

 private:
  void Add(sock_filter instruction) { code_.push_back(instruction); }
  void Load(size_t offset) {
    Add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void Jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
    Add(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, if_true, if_false));
  }
  void Refuse(uint32_t error) {
    Add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)));
  }

  std::vector<sock_filter> code_;
};

}  // namespace

absl::Status Confine() {
  RETURN_IF_ERROR(DropCapabilities());
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Refused("new privileges");
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  return absl::OkStatus();  // a report starts a program that names addresses, and leaks are traced
#else
  return Filter().Install();
#endif
}

}  // namespace dafs::server
