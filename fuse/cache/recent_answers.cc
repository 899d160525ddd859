#include "fuse/cache/recent_answers.h"

#include <algorithm>

namespace dafs::fuse {

void RecentAnswers::Keep(const Question& question, uint64_t nodeid,
                         const wire::FileAttributes& attributes, absl::Time now) {
  if (question.thread == 0) return;
  Answer& answer = PlaceOf(question.thread, nodeid);
  answer.question = question;
  answer.nodeid = nodeid;
  answer.took = std::min(now - question.asked, kLongest);
  answer.until = now + answer.took;
  answer.told = false;
  answer.attributes = attributes;
}

void RecentAnswers::ToldToOpen(uint32_t thread, uint64_t nodeid, absl::Time now) {
  Answer& answer = PlaceOf(thread, nodeid);
  answer.told = true;
  answer.until = now + answer.took;
}

const wire::FileAttributes* RecentAnswers::Find(uint32_t thread, uint64_t nodeid, absl::Time now) {
  return PlaceOf(thread, nodeid).told ? nullptr : FindToOpen(thread, nodeid, now);
}

const wire::FileAttributes* RecentAnswers::FindToOpen(uint32_t thread, uint64_t nodeid,
                                                      absl::Time now) {
  Answer& answer = PlaceOf(thread, nodeid);
  if (answer.question.thread != thread || answer.nodeid != nodeid || nodeid == 0) return nullptr;
  if (now > answer.until || answer.question.removals != inodes_.Removals()) return nullptr;
  if (inodes_.TouchedSince(nodeid, answer.question.asked)) return nullptr;
  return &answer.attributes;
}

}  // namespace dafs::fuse
