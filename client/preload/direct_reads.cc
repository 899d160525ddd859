#include "client/preload/direct_reads.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/preload/direct_calls.h"
#include "runtime/files/direct_ioctl.h"

namespace dafs::preload {
namespace {

// Larger reads gain nothing from a shorter way.
constexpr size_t kMostBytes = size_t{8} << 20;
// After an attempt to connect has failed, and after a session was lost.
constexpr int64_t kPauseAfterRefusal_s = 60, kPauseAfterLoss_s = 1;

std::atomic<const DirectCalls*> the_calls{nullptr};

int64_t Now_s() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

// The module beside this library. Null: it is missing, or of another version.
const DirectCalls* LoadModule() {
  Dl_info self = {};
  char path[4096];
  if (dladdr(reinterpret_cast<void*>(&LoadModule), &self) == 0) return nullptr;
  const char* const slash = std::strrchr(self.dli_fname, '/');
  const int length = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname) + 1;
  const int size = std::snprintf(path, sizeof(path), "%.*sdafs-direct.so", length, self.dli_fname);
  if (size < 0 || static_cast<size_t>(size) >= sizeof(path)) return nullptr;
  void* const module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    Say("not used", dlerror());
    return nullptr;
  }
  const auto entry = reinterpret_cast<DirectEntry>(dlsym(module, kDirectEntry));
  const DirectCalls* const calls = entry == nullptr ? nullptr : entry();
  if (calls != nullptr && std::strcmp(calls->version, DAFS_VERSION) == 0) return calls;
  Say("not used", "dafs-direct.so is of another version; install mount.dafs again");
  return nullptr;
}

// Asks the kernel for the file of a descriptor, without a request to the mount. False: it is
// closed, or not read as a descriptor with O_DIRECT is.
bool Identify(int fd, FileIdentity* identity) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0 || (flags & (O_APPEND | O_PATH)) != 0 ||
      (flags & O_ACCMODE) == O_WRONLY) {
    return false;
  }
  struct statx found;
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &found) != 0) return false;
  identity->device = uint64_t{found.stx_dev_major} << 32 | found.stx_dev_minor;
  identity->inode = found.stx_ino;
  identity->access = flags & O_ACCMODE;
  return true;
}

// Asks the mount where the file is. False: it is not on a mount that says so.
bool Locate(int fd, DirectIoctl* where) {
  struct statfs filesystem;
  if (fstatfs(fd, &filesystem) != 0 || filesystem.f_type != FUSE_SUPER_MAGIC) return false;
  return ioctl(fd, kDirectIoctl, where) == 0 && where->version == kDirectIoctlVersion &&
         std::memchr(where->server, 0, sizeof(where->server)) != nullptr &&
         std::memchr(where->export_path, 0, sizeof(where->export_path)) != nullptr;
}

void NoteFailure(State& state, int64_t pause_s) { state.next_attempt_s = Now_s() + pause_s; }

void CloseEnded(State& state) {
  while (void* const file = state.descriptors.TakeEnded()) the_calls.load()->close(file);
}

// Ends the sessions at exit(3), before the destructors of the module, which was loaded earlier.
void EndSessions() {
  State* const state = GetState();
  if (state == nullptr || state->process != getpid()) return;
  const Inside inside;
  for (State::Lane& lane : state->lanes) {
    if (lane.is_used.exchange(true)) continue;  // by a thread that is still reading
    if (lane.session != nullptr) the_calls.load()->end_lane(lane.session);
    lane.session = nullptr;  // the lane stays in use: there is no other session
  }
}

// The client of the process. Null: not now.
void* ClientOf(State& state, const DirectIoctl& where) {
  if (void* const made = state.client.load()) return made;
  if (state.is_making_client.exchange(true)) return nullptr;
  NoteUse();
  char why[512] = "";
  if (the_calls.load() == nullptr) the_calls = LoadModule();
  void* const made = the_calls.load() == nullptr
                         ? nullptr
                         : the_calls.load()->make_client(where, why, sizeof(why));
  if (made == nullptr && the_calls.load() != nullptr) Say("not used", why);
  if (made == nullptr) NoteFailure(state, kPauseAfterRefusal_s);
  if (made != nullptr) std::atexit(EndSessions);
  state.client = made;
  state.is_making_client = false;
  return made;
}

// Connects the lane if it is not. False: not now.
bool Connect(State& state, State::Lane& lane, void* client) {
  if (lane.session != nullptr) return true;
  char why[512] = "";
  lane.session = the_calls.load()->make_lane(client, why, sizeof(why));
  if (lane.session != nullptr) return true;
  Say("not used", why);
  NoteFailure(state, kPauseAfterRefusal_s);
  return false;
}

// Opens the file of a candidate.
void Adopt(State& state, State::Lane& lane, int fd) {
  DescriptorTable& table = state.descriptors;
  if (Now_s() < state.next_attempt_s.load(std::memory_order_relaxed)) return;
  if (!table.BeginAdopting(fd)) return;
  OpenedFile opened;
  opened.epoch = state.epoch;
  DirectIoctl where;
  FileIdentity after;
  if (!Identify(fd, &opened.identity) || !Locate(fd, &where) || !Identify(fd, &after) ||
      after != opened.identity) {
    return table.Refuse(fd);
  }
  void* const client = ClientOf(state, where);
  if (client == nullptr || !Connect(state, lane, client)) return table.Postpone(fd);
  char why[512] = "";
  bool again = false;
  opened.file = the_calls.load()->open(lane.session, where, &again, why, sizeof(why));
  if (opened.file == nullptr) {
    Say("a file is read by the mount", why);
    return again ? table.Postpone(fd) : table.Refuse(fd);
  }
  if (table.Adopt(fd, opened)) {
    Say("read by libdafs", where.server);
  } else {
    the_calls.load()->close(opened.file);
  }
}

bool ReadBy(State& state, State::Lane& lane, int fd, const iovec* into, int count, off_t offset,
            ssize_t* result) {
  DescriptorTable& table = state.descriptors;
  if (table.Get(fd) == DescriptorTable::Entry::kCandidate) Adopt(state, lane, fd);
  const OpenedFile* const opened = table.Hold(fd);
  if (opened == nullptr) return false;
  bool done = false;
  FileIdentity present;
  void* const client = state.client.load();
  if (opened->epoch != state.epoch) {
    table.Reoffer(fd, opened);
  } else if (!Identify(fd, &present) || present != opened->identity) {
    table.Forget(fd);  // closed by a call that was not seen
  } else if (Connect(state, lane, client)) {
    int64_t moved = 0;
    switch (the_calls.load()->read(lane.session, opened->file, into, count,
                                   static_cast<uint64_t>(offset), &moved)) {
      case ReadEnd::kRead:
        *result = moved;
        done = true;
        break;
      case ReadEnd::kSessionLost:
        Say("read by the mount for a moment", "the session was lost");
        ++state.epoch;
        NoteFailure(state, kPauseAfterLoss_s);
        break;
      case ReadEnd::kFailed:
        table.Forget(fd);
        break;
    }
  }
  table.Release(opened);
  CloseEnded(state);
  return done;
}

}  // namespace

void Say(const char* text, const char* why) {
  static const bool verbose = std::getenv("DAFS_PRELOAD_VERBOSE") != nullptr;
  if (verbose) dprintf(STDERR_FILENO, "libdafs-preload: %s: %s\n", text, why == nullptr ? "" : why);
}

bool ReadDirectly(int fd, const iovec* into, int count, off_t offset, ssize_t* result) {
  if (IsInside()) return false;
  State* const state = GetState();
  if (state == nullptr) return false;
  const DescriptorTable::Entry entry = state->descriptors.Get(fd);
  if (entry != DescriptorTable::Entry::kCandidate && entry != DescriptorTable::Entry::kOpened) {
    return false;
  }
  if (offset < 0 || count < 1 || count > kMostSegments) return false;
  size_t total = 0;
  for (int i = 0; i < count; ++i) {
    if (into[i].iov_len == 0 || into[i].iov_len > kMostBytes - total) return false;
    total += into[i].iov_len;
  }
  State::Lane* const lane = TakeLane(*state);
  if (lane == nullptr) return false;
  const Inside inside;
  const bool done = ReadBy(*state, *lane, fd, into, count, offset, result);
  ReturnLane(*lane);
  return done;
}

}  // namespace dafs::preload
