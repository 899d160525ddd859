// Answers with the time at which each is due to be looked up again. Until then, and for some time
// after it, an answer can be used. When there are too many, the ones that are due first are
// forgotten. The caller passes the time, of a clock that does not jump. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"

namespace dafs::auth {

template <class Key, class Value>
class KeptAnswers {
 public:
  // Keeps at most `most` answers, at least one, each for `after_due` after it is due.
  KeptAnswers(size_t most, absl::Duration after_due) : most_(most), after_due_(after_due) {}
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;

  struct Found {
    const Value* value = nullptr;  // null: there is none. Valid until the next change
    bool is_due = false;
  };
  // `key` is a Key, or what the table finds one by.
  template <class K>
  Found Find(const K& key, absl::Time now) const {
    const auto found = answers_.find(key);
    if (found == answers_.end() || HasEnded(found->second.due->first, now)) return {};
    return {&found->second.value, found->second.due->first <= now};
  }

  // Replaces an answer to the same key. The new one is kept even if all others are due later.
  void Keep(const Key& key, Value value, absl::Time now, absl::Duration life) {
    Remove(answers_.find(key));
    while (!by_due_.empty() &&
           (HasEnded(by_due_.begin()->first, now) || answers_.size() >= most_)) {
      Remove(answers_.find(*by_due_.begin()->second));
    }
    const auto kept = answers_.emplace(key, Answer{std::move(value), by_due_.end()}).first;
    kept->second.due = by_due_.emplace(now + life, &kept->first);
  }

  void Clear() {
    by_due_.clear();
    answers_.clear();
  }
  size_t size() const { return answers_.size(); }

 private:
  // The keys are those of answers_, whose nodes do not move.
  using ByDue = std::multimap<absl::Time, const Key*>;
  struct Answer {
    Value value;
    typename ByDue::iterator due;
  };
  using Answers = absl::node_hash_map<Key, Answer>;

  bool HasEnded(absl::Time due, absl::Time now) const { return due + after_due_ <= now; }
  void Remove(typename Answers::iterator answer) {
    if (answer == answers_.end()) return;
    by_due_.erase(answer->second.due);
    answers_.erase(answer);
  }

  const size_t most_;
  const absl::Duration after_due_;
  Answers answers_;
  ByDue by_due_;
};

}  // namespace dafs::auth
