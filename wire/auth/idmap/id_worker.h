// The process of dafs-idmap in which libnfsidmap runs. It is forked, not executed, so dafs-idmap
// can replace it even if dafsd has forbidden itself to start programs. For a process with one
// thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"

namespace dafs::auth {

struct IdWorkerOptions {
  absl::Duration answer_time;
  std::string domain = {};
  std::string config = {};
};

class IdWorker {
 public:
  explicit IdWorker(IdWorkerOptions options) : options_(std::move(options)) {}
  ~IdWorker() { End(); }
  IdWorker(const IdWorker&) = delete;
  IdWorker& operator=(const IdWorker&) = delete;

  // Returns the answer to an encoded question. Starts a worker if there is none, and kills one that
  // does not answer in time; then the answer says so.
  std::string Ask(const std::string& question);
  // Kills the worker: the next one reads the configuration again.
  void End();

 private:
  // An empty text, or why there is no worker.
  std::string Start();
  std::string Fail(std::string_view question, const std::string& why);

  const IdWorkerOptions options_;
  pid_t pid_ = -1;
  UniqueFd socket_;
};

}  // namespace dafs::auth
