// Records what the operations of a worker wait for besides a normal response, and since when. A
// long wait is logged; dafsctl shows it too. Belongs to the thread of its loop.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace dafs::client {

class Waits {
 public:
  // A wait that lasts this long is logged, and again each minute.
  static constexpr absl::Duration kSayAfter = absl::Seconds(10);

  explicit Waits(std::string name) : name_(std::move(name)) {}
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // Exists while an operation waits.
  class Note {
   public:
    Note(Waits& waits, std::string what);
    ~Note();
    Note(const Note&) = delete;
    Note& operator=(const Note&) = delete;

   private:
    Waits& waits_;
    std::list<std::pair<std::string, absl::Time>>::iterator at_;
  };

  // Logs a wait that has lasted long. Call repeatedly during a wait.
  void Look(absl::Time now);

  struct Longest {
    std::string what;
    absl::Duration age;
    size_t count = 0;  // of all waits
  };
  std::optional<Longest> longest(absl::Time now) const;

 private:
  const std::string name_;
  std::list<std::pair<std::string, absl::Time>> notes_;  // the oldest first
  absl::Time said_;
  bool saying_ = false;
};

}  // namespace dafs::client
