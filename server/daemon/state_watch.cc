#include "server/daemon/state_watch.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "server/store/objects/mount_types.h"

namespace dafs::server {

struct StateWatch::Shared {
  absl::Mutex mutex;
  bool is_over ABSL_GUARDED_BY(mutex) = false;
  absl::Status status ABSL_GUARDED_BY(mutex);
  uint64_t answers ABSL_GUARDED_BY(mutex) = 0;

  void Check(const std::function<absl::Status()>& check, absl::Duration every) {
    for (;;) {
      absl::Status result = check();
      absl::MutexLock lock(&mutex);
      status = std::move(result);
      ++answers;
      if (!status.ok() || mutex.AwaitWithTimeout(absl::Condition(&is_over), every)) return;
    }
  }
};

StateWatch::StateWatch(std::function<absl::Status()> check, const Options& options,
                       std::function<void(const std::string&)> lost)
    : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_, check = std::move(check), every = options.every] {
    shared->Check(check, every);
  }).detach();
  timer_ = std::thread([shared = shared_, options, lost = std::move(lost)] {
    std::string why;
    {
      absl::MutexLock lock(&shared->mutex);
      uint64_t seen = 0;
      const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared->mutex) {
        return shared->is_over || shared->answers != seen;
      };
      // In steps, so that the time while this process was stopped, or a step of the clock, counts
      // as one: a check that was only late answers within the next.
      absl::Duration silent;
      while (!shared->is_over && why.empty()) {
        const bool answered =
            shared->mutex.AwaitWithTimeout(absl::Condition(&changed), options.every);
        silent = answered ? absl::ZeroDuration() : silent + options.every;
        seen = shared->answers;
        if (silent > options.every + options.answers_within) {
          why = absl::StrCat("no answer for ", absl::FormatDuration(options.answers_within));
        } else if (!shared->status.ok()) {
          why = std::string(shared->status.message());
        }
      }
      if (shared->is_over) return;
    }
    lost(why);
  });
}

StateWatch::~StateWatch() {
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->is_over = true;
  }
  timer_.join();
}

std::unique_ptr<StateWatch> StateWatch::For(const StateLock& lock, const std::string& state_dir,
                                            std::function<void(const std::string&)> lost) {
  if (IsLocal(TypeOfFileSystem(lock.fd()))) return nullptr;
  // A descriptor of its own: a check that hangs outlives the server. Closing it releases no lock.
  auto fd = std::make_shared<UniqueFd>(dup(lock.fd()));
  return std::make_unique<StateWatch>(
      [fd] { return StateLock::Confirm(fd->get()); }, Options(),
      [state_dir, lost = std::move(lost)](const std::string& why) {
        lost(absl::StrCat("state directory ", state_dir, " is lost: ", why,
                          "; another dafsd may serve, so this one ends"));
      });
}

namespace {

// Also those that a thread is using: after this nothing is sent.
void ShutDownSockets() {
  DIR* descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return;
  while (const dirent* entry = readdir(descriptors)) {
    shutdown(std::atoi(entry->d_name), SHUT_RDWR);  // of others: ENOTSOCK
  }
  closedir(descriptors);
}

// The signal comes from an access to a mapped file, so the thread holds no lock of the C library.
void OnLostMemory(int) {
  EndAtOnce(
      "a file of the state directory cannot be read or written any more (SIGBUS); this dafsd "
      "ends");
}

}  // namespace

void EndAtOnce(const std::string& why) {
  ShutDownSockets();
  LogError(why);
  _exit(1);
}

void EndAtLostMemory() {
  struct sigaction action = {};
  action.sa_handler = OnLostMemory;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace dafs::server
