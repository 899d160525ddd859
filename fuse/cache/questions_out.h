// Outstanding prefetch requests, by node. A call that needs the reply waits for it, and does not
// send another request. Belongs to one worker's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "fuse/cache/listing_walk.h"
#include "runtime/task.h"

namespace dafs::fuse {

class QuestionsOut {
 public:
  // Lives in the frame of the coroutine that sends the request.
  struct Question {
    const uint64_t nodeid;
    bool awaited = false;
    Pending<bool> ended = {};
  };

  void Begin(Question& question) { questions_.push_back(&question); }
  // Resumes the call that waits.
  void End(Question& question) {
    questions_.erase(std::find(questions_.begin(), questions_.end(), &question));
    if (question.awaited) question.ended.Set(true);
  }

  // Returns the end of the outstanding request about `nodeid`, to be awaited. A request has at most
  // one waiter: returns nullptr if none is outstanding, or if each has a waiter already.
  Pending<bool>* Await(uint64_t nodeid) {
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
