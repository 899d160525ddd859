// Records what the operations of a worker wait for besides a normal response, and since when. A
// long wait is logged; dafsctl shows it too. Belongs to the thread of its loop.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace dafs::client {

class WaitTracker {
 public:
  // A wait that lasts this long is logged, and again each minute.
  static constexpr absl::Duration kLogAfter = absl::Seconds(10);

  explicit WaitTracker(std::string name) : name_(std::move(name)) {}
  WaitTracker(const WaitTracker&) = delete;
  WaitTracker& operator=(const WaitTracker&) = delete;

  // Exists while an operation waits.
  class Wait {
   public:
    Wait(WaitTracker& tracker, std::string what);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    WaitTracker& tracker_;
    std::list<std::pair<std::string, absl::Time>>::iterator at_;
  };

  // Logs a wait that has lasted long. Call repeatedly during a wait.
  void LogLong(absl::Time now);

  struct Longest {
    std::string what;
    absl::Duration age;
    size_t count = 0;  // of all waits
  };
  std::optional<Longest> longest(absl::Time now) const;

 private:
  const std::string name_;
  std::list<std::pair<std::string, absl::Time>> begun_;  // the oldest first
  absl::Time logged_at_;
  bool has_logged_ = false;
};

}  // namespace dafs::client
