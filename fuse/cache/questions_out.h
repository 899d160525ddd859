// Questions about nodes that are with the server, asked ahead of any program: whoever needs an
// answer waits for it instead of asking again. Belongs to one worker's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "fuse/cache/listing_walk.h"
#include "runtime/task.h"

namespace dafs::fuse {

class QuestionsOut {
 public:
  // Lives in the frame of the coroutine that asks.
  struct Question {
    const uint64_t nodeid;
    bool awaited = false;
    dat::Pending<bool> ended = {};
  };

  void Begin(Question& question) { questions_.push_back(&question); }
  // Resumes who waits.
  void End(Question& question) {
    questions_.erase(std::find(questions_.begin(), questions_.end(), &question));
    if (question.awaited) question.ended.Set(true);
  }

  // To be awaited: the end of the question about `nodeid`, if there is one that nobody waits for
  // yet; nullptr otherwise.
  dat::Pending<bool>* Await(uint64_t nodeid) {
    for (Question* question : questions_) {
      if (question->nodeid != nodeid || question->awaited) continue;
      question->awaited = true;
      return &question->ended;
    }
    return nullptr;
  }

 private:
  absl::InlinedVector<Question*, ListingWalk::kMostAhead> questions_;
};

}  // namespace dafs::fuse
