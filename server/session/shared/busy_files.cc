#include "server/session/shared/busy_files.h"

#include <algorithm>
#include <utility>

namespace dafs::server {
namespace {

// One in kExamined requests for files that are not counted is examined, for all of them. That keeps
// the cost low while requests go to many files.
constexpr uint32_t kExamined = 32;

}  // namespace

void BusyFiles::Window::Count(const ObjectKey& file, uint64_t bytes) {
  uint32_t place = 0;
  if (const auto it = places.find(file); it != places.end()) {
    place = it->second;
  } else if (size < kMost) {
    place = static_cast<uint32_t>(size++);
    places.emplace(file, place);
    uses[place] = {.file = file};
    rank[place] = 0;
  } else {
    // By chance: a count could keep in step with the requests.
    chance = chance * 1664525 + 1013904223;
    if ((chance >> 16) % kExamined == 0) Replace(file, bytes);
    return;
  }
  ++uses[place].requests;
  uses[place].bytes += bytes;
  rank[place] += WeightOf(1, bytes);
}

void BusyFiles::Window::Replace(const ObjectKey& file, uint64_t bytes) {
  const auto place =
      static_cast<uint32_t>(std::min_element(rank.begin(), rank.end()) - rank.begin());
  places.erase(uses[place].file);
  places.emplace(file, place);
  uses[place] = {.file = file, .requests = 1, .bytes = bytes};
  rank[place] += kExamined * WeightOf(1, bytes);
}

void BusyFiles::Window::Clear() {
  size = 0;
  places.clear();
}

void BusyFiles::Turn() {
  std::swap(current_, last_);
  current_->Clear();
}

std::vector<FileUse> BusyFiles::Get() const {
  std::vector<FileUse> files(last_->uses.begin(),
                             last_->uses.begin() + static_cast<std::ptrdiff_t>(last_->size));
  for (size_t i = 0; i < current_->size; ++i) {
    const FileUse& use = current_->uses[i];
    const auto it = last_->places.find(use.file);
    if (it == last_->places.end()) {
      files.push_back(use);
      continue;
    }
    files[it->second].requests += use.requests;
    files[it->second].bytes += use.bytes;
  }
  return files;
}

}  // namespace dafs::server
