// The functions of libc that libdafs-preload.so defines: those that open and close descriptors, and
// those that read at an offset. Everything else reaches the kernel as it does without the library.
//
// Not read(2), because its offset belongs to the open file description, which other processes may
// share. Not pwrite(2): client/preload/README.md.
//
// Each function has its symbol by an asm label. So neither the headers' declarations nor their
// inline functions are in the way. Any thread, also in signal handlers.
#include <fcntl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>

#include "client/preload/direct_reads.h"
#include "client/preload/real_calls.h"
#include "client/preload/state.h"

#define DAFS_SYMBOL(name) __asm__(name) __attribute__((visibility("default")))

namespace dafs::preload {
namespace {

static_assert(sizeof(off_t) == 8 && sizeof(long) == 8);  // so off_t and off64_t are one type

bool MayReadDirectly(int flags) {
  return (flags & O_DIRECT) != 0 && (flags & (O_APPEND | O_PATH)) == 0 &&
         (flags & O_ACCMODE) != O_WRONLY;
}

int Opened(int fd, int flags) {
  if (fd < 0 || IsInside()) return fd;
  // The number may be that of a descriptor that was closed by a call that was not seen.
  if (MayReadDirectly(flags)) {
    if (State* const state = GetState()) state->descriptors.Offer(fd);
  }
  return fd;
}

// Whether open(2) has a third argument.
bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// The state, for a change of descriptors by this process. Null: nothing is known of them. Also in a
// child of vfork(2), which has the memory of its parent, but other descriptors.
State* StateToChange() {
  if (IsInside()) return nullptr;
  State* const state = GetState();
  return state != nullptr && state->process == getpid() ? state : nullptr;
}

// Before `fd` comes to mean another file. Descriptors of libdafs are not expected to: its sessions
// then must not use the number again.
void Replace(State& state, int fd) {
  if (state.own.Has(fd)) state.abandoned = true;
  state.descriptors.Forget(fd);
}

template <class Real>
int Duplicated(int from, int to, Real&& real) {
  State* const state = from == to ? nullptr : StateToChange();
  if (state == nullptr) return real();
  Replace(*state, to);
  const int fd = real();
  if (fd >= 0 && state->descriptors.Get(from) != DescriptorTable::Entry::kNone) {
    state->descriptors.Offer(fd);
  }
  return fd;
}

void CloseRange(unsigned first, unsigned last) {
  State* const state = StateToChange();
  if (state == nullptr) return;
  const int from = first > INT_MAX ? INT_MAX : static_cast<int>(first);
  const int to = last > INT_MAX ? INT_MAX : static_cast<int>(last);
  if (state->own.HasAny(from, to)) {
    state->abandoned = true;
  } else {
    state->descriptors.ForgetFrom(from, to);
  }
}

// A descriptor that was made for libdafs.
int Made(int fd) {
  if (fd >= 0 && IsInside()) {
    if (State* const state = GetState()) state->own.Add(fd);
  }
  return fd;
}

RealCall<int(const char*, int, mode_t)> real_open("open"), real_open64("open64");
RealCall<int(int, const char*, int, mode_t)> real_openat("openat"), real_openat64("openat64");
RealCall<int(const char*, int)> real_open_2("__open_2"), real_open64_2("__open64_2");
RealCall<int(int, const char*, int)> real_openat_2("__openat_2"), real_openat64_2("__openat64_2");
RealCall<int(int)> real_close("close");
RealCall<int(int, int)> real_dup2("dup2");
RealCall<int(int)> real_dup("dup");
RealCall<int(int, int, int)> real_dup3("dup3");
RealCall<int(unsigned, unsigned, int)> real_close_range("close_range");
RealCall<void(int)> real_closefrom("closefrom");
RealCall<int(int, int, int)> real_socket("socket");
RealCall<int(int)> real_epoll_create1("epoll_create1");
RealCall<int(unsigned, int)> real_eventfd("eventfd");
RealCall<int(clockid_t, int)> real_timerfd_create("timerfd_create");
RealCall<ssize_t(int, void*, size_t, off_t)> real_pread("pread"), real_pread64("pread64");
RealCall<ssize_t(int, void*, size_t, off_t, size_t)> real_pread_chk("__pread_chk"),
    real_pread64_chk("__pread64_chk");
RealCall<ssize_t(int, const iovec*, int, off_t)> real_preadv("preadv"), real_preadv64("preadv64");
RealCall<ssize_t(int, const iovec*, int, off_t, int)> real_preadv2("preadv2"),
    real_preadv64v2("preadv64v2");

bool ReadOne(int fd, void* into, size_t size, off_t offset, ssize_t* result) {
  const iovec piece = {into, size};
  return ReadDirectly(fd, &piece, 1, offset, result);
}

}  // namespace

extern "C" {

#define DAFS_OPEN(function, symbol, real)                             \
  int function(const char* path, int flags, ...) DAFS_SYMBOL(symbol); \
  int function(const char* path, int flags, ...) {                    \
    mode_t mode = 0;                                                  \
    if (HasMode(flags)) {                                             \
      va_list arguments;                                              \
      va_start(arguments, flags);                                     \
      mode = va_arg(arguments, mode_t);                               \
      va_end(arguments);                                              \
    }                                                                 \
    return Opened(real(path, flags, mode), flags);                    \
  }
#define DAFS_OPENAT(function, symbol, real)                                          \
  int function(int directory, const char* path, int flags, ...) DAFS_SYMBOL(symbol); \
  int function(int directory, const char* path, int flags, ...) {                    \
    mode_t mode = 0;                                                                 \
    if (HasMode(flags)) {                                                            \
      va_list arguments;                                                             \
      va_start(arguments, flags);                                                    \
      mode = va_arg(arguments, mode_t);                                              \
      va_end(arguments);                                                             \
    }                                                                                \
    return Opened(real(directory, path, flags, mode), flags);                        \
  }
DAFS_OPEN(Open, "open", real_open)
DAFS_OPEN(Open64, "open64", real_open64)
DAFS_OPENAT(Openat, "openat", real_openat)
DAFS_OPENAT(Openat64, "openat64", real_openat64)

int Open2(const char* path, int flags) DAFS_SYMBOL("__open_2");
int Open2(const char* path, int flags) { return Opened(real_open_2(path, flags), flags); }
int Open642(const char* path, int flags) DAFS_SYMBOL("__open64_2");
int Open642(const char* path, int flags) { return Opened(real_open64_2(path, flags), flags); }
int Openat2(int directory, const char* path, int flags) DAFS_SYMBOL("__openat_2");
int Openat2(int directory, const char* path, int flags) {
  return Opened(real_openat_2(directory, path, flags), flags);
}
int Openat642(int directory, const char* path, int flags) DAFS_SYMBOL("__openat64_2");
int Openat642(int directory, const char* path, int flags) {
  return Opened(real_openat64_2(directory, path, flags), flags);
}

int Close(int fd) DAFS_SYMBOL("close");
int Close(int fd) {
  if (IsInside()) {
    if (State* const state = GetState()) state->own.Remove(fd);
    return real_close(fd);
  }
  State* const state = StateToChange();
  if (state == nullptr) return real_close(fd);
  if (state->own.Has(fd)) {  // programs close numbers that they do not know
    errno = EBADF;
    return -1;
  }
  state->descriptors.Forget(fd);
  return real_close(fd);
}

int Dup1(int fd) DAFS_SYMBOL("dup");
int Dup1(int fd) {
  return Duplicated(fd, -1, [&] { return real_dup(fd); });
}
int Dup2(int from, int to) DAFS_SYMBOL("dup2");
int Dup2(int from, int to) {
  return Duplicated(from, to, [&] { return real_dup2(from, to); });
}
int Dup3(int from, int to, int flags) DAFS_SYMBOL("dup3");
int Dup3(int from, int to, int flags) {
  return Duplicated(from, to, [&] { return real_dup3(from, to, flags); });
}

int CloseRangeOf(unsigned first, unsigned last, int flags) DAFS_SYMBOL("close_range");
int CloseRangeOf(unsigned first, unsigned last, int flags) {
  constexpr int kOnlyCloexec = 4;  // CLOSE_RANGE_CLOEXEC
  if ((flags & kOnlyCloexec) == 0 && first <= last) CloseRange(first, last);
  return real_close_range(first, last, flags);
}
void CloseFrom(int first) DAFS_SYMBOL("closefrom");
void CloseFrom(int first) {
  CloseRange(first < 0 ? 0 : static_cast<unsigned>(first), UINT_MAX);
  real_closefrom(first);
}

int Socket(int domain, int type, int protocol) DAFS_SYMBOL("socket");
int Socket(int domain, int type, int protocol) { return Made(real_socket(domain, type, protocol)); }
int EpollCreate1(int flags) DAFS_SYMBOL("epoll_create1");
int EpollCreate1(int flags) { return Made(real_epoll_create1(flags)); }
int Eventfd(unsigned value, int flags) DAFS_SYMBOL("eventfd");
int Eventfd(unsigned value, int flags) { return Made(real_eventfd(value, flags)); }
int TimerfdCreate(clockid_t clock, int flags) DAFS_SYMBOL("timerfd_create");
int TimerfdCreate(clockid_t clock, int flags) { return Made(real_timerfd_create(clock, flags)); }

#define DAFS_PREAD(function, symbol, real)                                                   \
  ssize_t function(int fd, void* into, size_t size, off_t offset) DAFS_SYMBOL(symbol);       \
  ssize_t function(int fd, void* into, size_t size, off_t offset) {                          \
    ssize_t result = 0;                                                                      \
    return ReadOne(fd, into, size, offset, &result) ? result : real(fd, into, size, offset); \
  }
DAFS_PREAD(Pread, "pread", real_pread)
DAFS_PREAD(Pread64, "pread64", real_pread64)

#define DAFS_PREAD_CHK(function, symbol, real)                                   \
  ssize_t function(int fd, void* into, size_t size, off_t offset, size_t room)   \
      DAFS_SYMBOL(symbol);                                                       \
  ssize_t function(int fd, void* into, size_t size, off_t offset, size_t room) { \
    ssize_t result = 0;                                                          \
    if (size <= room && ReadOne(fd, into, size, offset, &result)) return result; \
    return real(fd, into, size, offset, room);                                   \
  }
DAFS_PREAD_CHK(PreadChk, "__pread_chk", real_pread_chk)
DAFS_PREAD_CHK(Pread64Chk, "__pread64_chk", real_pread64_chk)

#define DAFS_PREADV(function, symbol, real)                                                 \
  ssize_t function(int fd, const iovec* into, int count, off_t offset) DAFS_SYMBOL(symbol); \
  ssize_t function(int fd, const iovec* into, int count, off_t offset) {                    \
    ssize_t result = 0;                                                                     \
    return ReadDirectly(fd, into, count, offset, &result) ? result                          \
                                                          : real(fd, into, count, offset);  \
  }
DAFS_PREADV(Preadv, "preadv", real_preadv)
DAFS_PREADV(Preadv64, "preadv64", real_preadv64)

#define DAFS_PREADV2(function, symbol, real)                                         \
  ssize_t function(int fd, const iovec* into, int count, off_t offset, int flags)    \
      DAFS_SYMBOL(symbol);                                                           \
  ssize_t function(int fd, const iovec* into, int count, off_t offset, int flags) {  \
    ssize_t result = 0;                                                              \
    if (flags == 0 && ReadDirectly(fd, into, count, offset, &result)) return result; \
    return real(fd, into, count, offset, flags);                                     \
  }
DAFS_PREADV2(Preadv2, "preadv2", real_preadv2)
DAFS_PREADV2(Preadv64v2, "preadv64v2", real_preadv64v2)

}  // extern "C"

}  // namespace dafs::preload
