// The helper program dafs-idmap as a child process of a client or server, and the socket to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "runtime/helper_process.h"
#include "wire/auth/idmap/id_message.h"

namespace dafs::auth {

struct IdHelperOptions {
  std::string path;  // of dafs-idmap
  std::string domain = {};
  std::string config = {};
  absl::Duration answer_time = absl::Seconds(10);
};

// The destructor kills the helper. Any thread may call Start and Stop; one thread at a time, Ask.
class IdHelper {
 public:
  explicit IdHelper(IdHelperOptions options) : options_(std::move(options)) {}
  IdHelper(const IdHelper&) = delete;
  IdHelper& operator=(const IdHelper&) = delete;

  // Starts the helper unless it runs. Errors are those of Ask.
  absl::Status Start();
  // Asks the helper, which is started if none runs, and waits for the answer, `answer_time` at
  // most. Sets the number of the question. Kills a helper that sends no valid answer. Errors:
  // kUnavailable, with the reason and a remedy; kCancelled: after Stop.
  absl::StatusOr<IdAnswer> Ask(IdQuestion question);
  // Ends an Ask that waits. Further calls of Ask and Start fail with kCancelled.
  void Stop();

 private:
  // Return the socket. Begin replaces a helper that has ended since the question before.
  absl::StatusOr<int> Begin(const std::string& bytes);
  absl::StatusOr<int> StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the helper, since it has failed.
  absl::Status Fail(const std::string& why);

  const IdHelperOptions options_;
  uint32_t last_number_ = 0;  // of Ask
  absl::Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<HelperProcess> process_ ABSL_GUARDED_BY(mutex_);
  // Only Ask closes it, so it is open while Ask waits for an answer without the mutex.
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::auth
