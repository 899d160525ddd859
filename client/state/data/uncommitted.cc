#include "client/state/data/uncommitted.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dafs::client {
namespace {

// The maximum number of ranges of a file: an operation may visit all. A COMMIT is needed beyond it.
constexpr size_t kMostRanges = 4096;
constexpr size_t kSpareFiles = 64;

}  // namespace

Uncommitted::File* Uncommitted::FindFile(const wire::FileHandle& file) const {
  auto it = files_.find(file);
  return it == files_.end() ? nullptr : it->second.get();
}

void Uncommitted::DropIfIdle(const wire::FileHandle& file) {
  auto it = files_.find(file);
  if (it == files_.end()) return;
  File& one = *it->second;
  if (one.needs_commit() || one.writing > 0 || one.rewriting) return;
  if (recorder_ != nullptr) recorder_->Drop(one.slot);
  if (spare_files_.size() < kSpareFiles) {
    one = File(&range_memory_);
    spare_files_.push_back(std::move(it->second));
  }
  files_.erase(it);
}

void Uncommitted::RecordIn(StateRecorder* recorder) {
  absl::MutexLock lock(&mutex_);
  recorder_ = recorder;
  blocks_.UseMemory(recorder->TakeMemory(most_bytes_));
}

// ---- Writing ---------------------------------------------------------------------------------

Uncommitted::File& Uncommitted::FileOf(const wire::FileHandle& file) {
  std::unique_ptr<File>& one = files_[file];
  if (one != nullptr) return *one;
  if (spare_files_.empty()) {
    one = std::make_unique<File>(&range_memory_);
  } else {
    one = std::move(spare_files_.back());
    spare_files_.pop_back();
  }
  if (recorder_ != nullptr) {
    one->record_number = ++files_recorded_;
    one->ranges.RecordIn(recorder_, one->record_number);
  }
  return *one;
}

bool Uncommitted::BeginWrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File& one = FileOf(file);
  if (one.rewriting) return false;
  ++one.writing;
  return true;
}

void Uncommitted::EndWrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  if (File* one = FindFile(file)) --one->writing;
  DropIfIdle(file);
}

KeptPart Uncommitted::Borrowed(std::span<const std::byte> data,
                               std::shared_ptr<const void> memory) {
  KeptPart whole;
  whole.size = static_cast<uint32_t>(data.size());
  whole.block = std::make_shared<KeptBlock>();
  whole.block->bytes = data.data();
  whole.block->memory = std::move(memory);
  return whole;
}

void Uncommitted::SetWriter(const wire::FileHandle& file, File& one, const Identity& user,
                            const wire::StateId& open) {
  const bool same = one.writer.open == open && one.writer.user == user;
  if (!same) one.writer = {user, open};
  if (recorder_ == nullptr || (same && one.slot != 0)) return;
  one.slot = recorder_->PutKeptFile(
      {.number = one.record_number, .file = file, .user = user, .open = open}, one.slot);
}

void Uncommitted::Restore(const wire::FileHandle& file, const Writer& writer, uint64_t offset,
                          std::span<const std::byte> data, std::shared_ptr<const void> memory,
                          const wire::Verifier& verifier) {
  absl::MutexLock lock(&mutex_);
  File& one = FileOf(file);
  SetWriter(file, one, writer.user, writer.open);
  one.ranges.Put({offset, Borrowed(data, std::move(memory)), verifier, one.number});
}

bool Uncommitted::Add(const wire::FileHandle& file, const Identity& user, const wire::StateId& open,
                      uint64_t offset, std::span<const std::byte> data,
                      std::shared_ptr<const void> memory, const wire::Verifier& verifier) {
  thread_local std::vector<KeptPart> parts;
  parts.clear();
  const bool copies = memory == nullptr;
  if (!copies) parts.push_back(Borrowed(data, std::move(memory)));
  {
    absl::MutexLock lock(&mutex_);
    File* one = FindFile(file);
    const bool fits = one != nullptr && one->ranges.size() < kMostRanges;
    if (!fits || (copies && !blocks_.Reserve(data.size(), parts))) {
      parts.clear();
      return false;
    }
  }
  if (copies) {
    for (const KeptPart& part : parts) {  // no other thread uses this memory
      std::memcpy(part.block->room + part.at, data.data(), part.size);
      data = data.subspan(part.size);
    }
  }
  absl::MutexLock lock(&mutex_);
  File& one = *FindFile(file);  // the bracket keeps the entry alive
  SetWriter(file, one, user, open);
  for (KeptPart& part : parts) {
    const uint32_t size = part.size;
    one.ranges.Put({offset, std::move(part), verifier, one.number});
    offset += size;
  }
  parts.clear();
  return true;
}

void Uncommitted::Forget(const wire::FileHandle& file, uint64_t offset, uint64_t end) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  one->ranges.Cut(offset, end);
  DropIfIdle(file);
}

void Uncommitted::NeedCommit(const wire::FileHandle& file, const Identity& user) {
  absl::MutexLock lock(&mutex_);
  File& one = FileOf(file);
  if (!one.needs_commit()) one.writer = {user, wire::StateId()};
  one.synced = one.number;
}

void Uncommitted::Drop(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  one->ranges.Clear();
  one->synced = 0;
  DropIfIdle(file);
}

// ---- Committing ------------------------------------------------------------------------------

uint64_t Uncommitted::BeforeCommit(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one == nullptr ? 0 : one->number++;
}

bool Uncommitted::AfterCommit(const wire::FileHandle& file, uint64_t covered,
                              const wire::Verifier& verifier) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return true;
  if (one->synced <= covered) one->synced = 0;
  bool safe = one->ranges.RemoveSafe(covered, verifier);
  // Data written again meanwhile may have arrived too late for this COMMIT.
  if (one->rewritten > covered) safe = false;
  DropIfIdle(file);
  return safe;
}

// ---- Writing again ---------------------------------------------------------------------------

bool Uncommitted::BeginRewrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr || one->rewriting) return false;
  one->rewriting = true;
  return true;
}

bool Uncommitted::Drained(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one == nullptr || one->writing == 0;
}

std::optional<Uncommitted::Piece> Uncommitted::NextStale(const wire::FileHandle& file,
                                                         const wire::Verifier& verifier,
                                                         uint32_t most) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return std::nullopt;
  const KeptRange* range = one->ranges.FirstStale(verifier);
  if (range == nullptr) return std::nullopt;
  const KeptPart& part = range->part;
  return Piece{range->offset, part.bytes().first(std::min(part.size, most)), one->writer,
               part.block};
}

void Uncommitted::Rewritten(const wire::FileHandle& file, uint64_t offset, uint64_t bytes,
                            const wire::Verifier& verifier) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  if (one->ranges.Rewrite(offset, bytes, verifier, one->number)) one->rewritten = one->number;
}

void Uncommitted::EndRewrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  if (File* one = FindFile(file)) one->rewriting = false;
  DropIfIdle(file);
}

// ---- Queries ---------------------------------------------------------------------------------

bool Uncommitted::NeedsCommit(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one != nullptr && one->needs_commit();
}

bool Uncommitted::Holds(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one != nullptr && !one->ranges.empty();
}

bool Uncommitted::HoldsAnyOf(const wire::FileHandle& file, uint64_t offset, uint64_t end) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one != nullptr && one->ranges.HasAnyOf(offset, end);
}

std::optional<Uncommitted::Writer> Uncommitted::WriterOf(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr || !one->needs_commit()) return std::nullopt;
  return one->writer;
}

std::vector<wire::FileHandle> Uncommitted::Files() const {
  std::vector<std::pair<size_t, wire::FileHandle>> found;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [file, one] : files_) {
      if (!one->ranges.empty()) found.emplace_back(one->ranges.bytes(), file);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<wire::FileHandle> files;
  files.reserve(found.size());
  for (auto& [bytes, file] : found) files.push_back(file);
  return files;
}

size_t Uncommitted::bytes() const {
  absl::MutexLock lock(&mutex_);
  return blocks_.bytes();
}

size_t Uncommitted::memory_bytes() const {
  absl::MutexLock lock(&mutex_);
  return blocks_.memory_bytes();
}

void Uncommitted::ReleaseUnused() {
  std::vector<std::shared_ptr<KeptBlock>> released;  // destroyed after the mutex is unlocked
  {
    absl::MutexLock lock(&mutex_);
    released = blocks_.TakeUnused();
  }
  for (const std::shared_ptr<KeptBlock>& block : released) KeptBlocks::FreeMemory(*block);
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<KeptBlock>& block : released) blocks_.Return(*block);
}

}  // namespace dafs::client
