// What the operations of a worker wait for that is not simply an answer, and since when: said in
// the log when it lasts, and told to dafsctl. Belongs to the thread of its loop.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace dafs::client {

class Waits {
 public:
  // What waits this long is worth a line in the log, and another one each minute.
  static constexpr absl::Duration kSayAfter = absl::Seconds(10);

  explicit Waits(std::string name) : name_(std::move(name)) {}
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // Held while somebody waits.
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

  // Now and then, while something waits.
  void Look(absl::Time now);

  struct Longest {
    std::string what;
    absl::Duration age;
    size_t count = 0;  // of all that wait
  };
  std::optional<Longest> longest(absl::Time now) const;

 private:
  const std::string name_;
  std::list<std::pair<std::string, absl::Time>> notes_;  // the oldest first
  absl::Time said_;
  bool saying_ = false;
};

}  // namespace dafs::client
