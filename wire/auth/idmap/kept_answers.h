// Answers with the time at which each ends. When there are too many, the ones that end first are
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
  // Keeps at most `most` answers, at least one.
  explicit KeptAnswers(size_t most) : most_(most) {}
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;

  // nullptr: none that is still good at `now`. Valid until the next change. `key` is a Key, or what
  // the table finds one by.
  template <class K>
  const Value* Find(const K& key, absl::Time now) const {
    const auto found = answers_.find(key);
    return found == answers_.end() || found->second.end->first <= now ? nullptr
                                                                      : &found->second.value;
  }

  // Replaces an answer to the same key. The new one is kept even if all others end later.
  void Keep(const Key& key, Value value, absl::Time now, absl::Duration life) {
    Remove(answers_.find(key));
    while (!by_end_.empty() && (by_end_.begin()->first <= now || answers_.size() >= most_)) {
      Remove(answers_.find(*by_end_.begin()->second));
    }
    const auto kept = answers_.emplace(key, Answer{std::move(value), by_end_.end()}).first;
    kept->second.end = by_end_.emplace(now + life, &kept->first);
  }

  void Clear() {
    by_end_.clear();
    answers_.clear();
  }
  size_t size() const { return answers_.size(); }

 private:
  // The keys are those of answers_, whose nodes do not move.
  using Ends = std::multimap<absl::Time, const Key*>;
  struct Answer {
    Value value;
    typename Ends::iterator end;
  };
  using Answers = absl::node_hash_map<Key, Answer>;

  void Remove(typename Answers::iterator answer) {
    if (answer == answers_.end()) return;
    by_end_.erase(answer->second.end);
    answers_.erase(answer);
  }

  const size_t most_;
  Answers answers_;
  Ends by_end_;
};

}  // namespace dafs::auth
