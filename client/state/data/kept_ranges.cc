#include "client/state/data/kept_ranges.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dafs::client {

void KeptRange::RemoveFront(uint64_t to) {
  part.RemoveFront(static_cast<uint32_t>(to - offset));
  offset = to;
}

bool KeptRanges::HasAnyOf(uint64_t offset, uint64_t end) const {
  auto behind = ranges_.lower_bound(end);  // the first that begins at `end` or later
  return behind != ranges_.begin() && std::prev(behind)->second.end() > offset;
}

const KeptRange* KeptRanges::FirstStale(const wire::Verifier& verifier) const {
  for (const auto& [offset, range] : ranges_) {
    if (range.verifier != verifier) return &range;
  }
  return nullptr;
}

void KeptRanges::Record(KeptRange& range) const {
  if (recorder_ == nullptr) return;
  range.slot = recorder_->PutKept({.file = file_,
                                   .offset = range.offset,
                                   .data = range.part.bytes(),
                                   .verifier = range.verifier},
                                  range.slot);
}

void KeptRanges::RecordSize(const KeptRange& range) const {
  if (recorder_ != nullptr) recorder_->ResizeKept(range.slot, range.part.size);
}

void KeptRanges::Drop(const KeptRange& range) const {
  if (recorder_ != nullptr) recorder_->Drop(range.slot);
}

void KeptRanges::Put(KeptRange range) {
  Cut(range.offset, range.end());
  bytes_ += range.part.size;
  auto behind = ranges_.lower_bound(range.offset);
  if (behind != ranges_.begin()) {
    KeptRange& before = std::prev(behind)->second;
    if (before.end() == range.offset && before.part.block == range.part.block &&
        before.part.at + before.part.size == range.part.at && before.verifier == range.verifier &&
        before.number == range.number) {
      before.part.size += range.part.size;
      RecordSize(before);
      return;
    }
  }
  const uint64_t offset = range.offset;
  Record(range);
  ranges_.emplace_hint(behind, offset, std::move(range));
}

void KeptRanges::Cut(uint64_t offset, uint64_t end) {
  auto it = ranges_.lower_bound(offset);
  if (it != ranges_.begin()) {
    KeptRange& before = std::prev(it)->second;
    if (before.end() > end) {  // its middle is removed
      KeptRange tail = before;
      tail.RemoveFront(end);
      tail.slot = 0;
      Record(tail);
      bytes_ -= before.end() - offset - tail.part.size;
      before.part.size = static_cast<uint32_t>(offset - before.offset);
      RecordSize(before);
      ranges_.emplace_hint(it, tail.offset, std::move(tail));
      return;
    }
    if (before.end() > offset) {
      bytes_ -= before.end() - offset;
      before.part.size = static_cast<uint32_t>(offset - before.offset);
      RecordSize(before);
    }
  }
  while (it != ranges_.end() && it->second.end() <= end) {
    bytes_ -= it->second.part.size;
    Drop(it->second);
    it = ranges_.erase(it);
  }
  if (it != ranges_.end() && it->second.offset < end) {
    auto node = ranges_.extract(it);
    bytes_ -= end - node.mapped().offset;
    node.mapped().RemoveFront(end);
    Record(node.mapped());
    node.key() = end;
    ranges_.insert(std::move(node));
  }
}

bool KeptRanges::RemoveSafe(uint64_t covered, const wire::Verifier& verifier) {
  bool safe = true;
  std::erase_if(ranges_, [&](const auto& entry) {
    const KeptRange& range = entry.second;
    if (range.number > covered) return false;
    if (range.verifier == verifier) {
      bytes_ -= range.part.size;
      Drop(range);
      return true;
    }
    safe = false;
    return false;
  });
  return safe;
}

bool KeptRanges::Rewrite(uint64_t offset, uint64_t bytes, const wire::Verifier& verifier,
                         uint64_t number) {
  auto it = ranges_.find(offset);
  if (it == ranges_.end()) return false;
  KeptRange& range = it->second;
  if (bytes < range.part.size) {
    KeptRange rest = range;
    rest.RemoveFront(offset + bytes);
    rest.slot = 0;
    Record(rest);
    range.part.size = static_cast<uint32_t>(bytes);
    ranges_.emplace_hint(std::next(it), rest.offset, std::move(rest));
  }
  range.verifier = verifier;
  range.number = number;
  Record(range);
  return true;
}

void KeptRanges::Clear() {
  for (const auto& [offset, range] : ranges_) Drop(range);
  ranges_.clear();
  bytes_ = 0;
}

}  // namespace dafs::client
