#include "server/store/objects/orphan_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/log/log.h"
#include "server/store/system/state_dir.h"

namespace dafs::server {
namespace {

constexpr char kName[] = "orphan-directories";
constexpr size_t kMostLine = 2 * wire::FsHandle::kWireSize + 22;

// One line, "FSHANDLE SUBVOLUME": 32 hexadecimal digits and a number.
std::string LineOf(const OrphanRecord::Entry& entry) {
  return absl::StrCat(wire::HexOf(entry.fshandle), " ", entry.subvolume, "\n");
}

bool Parse(absl::string_view line, OrphanRecord::Entry* entry) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 2 || words[0].size() != 2 * wire::FsHandle::kWireSize ||
      !std::all_of(words[0].begin(), words[0].end(), absl::ascii_isxdigit) ||
      !absl::SimpleAtoi(words[1], &entry->subvolume)) {
    return false;
  }
  const std::string bytes = absl::HexStringToBytes(words[0]);
  std::memcpy(entry->fshandle.bytes.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

OrphanRecord::OrphanRecord(std::string state_dir) : state_dir_(std::move(state_dir)) {
  const absl::StatusOr<std::string> text = ReadStateFile(state_dir_, kName, kMost * kMostLine);
  if (absl::IsNotFound(text.status())) return;
  absl::MutexLock lock(&mutex_);
  size_t damaged = text.ok() ? 0 : 1;
  for (absl::string_view line :
       absl::StrSplit(text.ok() ? *text : std::string(), '\n', absl::SkipEmpty())) {
    Entry entry;
    if (Parse(line, &entry) && entries_.size() < kMost) {
      entries_.push_back(entry);
    } else {
      ++damaged;
    }
  }
  if (damaged == 0) return;
  LogError(absl::StrCat(state_dir_, "/", kName, ": ",
                        text.ok() ? "damaged" : std::string(text.status().message()),
                        "; removed files that were open may keep their space in subvolumes until "
                        "a client visits these"));
}

void OrphanRecord::Add(const FileSystem& fs) {
  const Entry entry{fs.fshandle, fs.subvolume};
  absl::MutexLock lock(&mutex_);
  if (std::find(entries_.begin(), entries_.end(), entry) != entries_.end()) return;
  if (entries_.size() == kMost) entries_.pop_front();
  entries_.push_back(entry);
  Write();
}

void OrphanRecord::Remove(const Entry& entry) {
  absl::MutexLock lock(&mutex_);
  const auto it = std::find(entries_.begin(), entries_.end(), entry);
  if (it == entries_.end()) return;
  entries_.erase(it);
  Write();
}

std::vector<OrphanRecord::Entry> OrphanRecord::entries() const {
  absl::MutexLock lock(&mutex_);
  return {entries_.begin(), entries_.end()};
}

void OrphanRecord::Write() {
  std::string text;
  for (const Entry& entry : entries_) text += LineOf(entry);
  const absl::Status written = WriteStateFile(state_dir_, kName, text);
  if (!written.ok()) {
    LogWarning(absl::StrCat(written.message(),
                            "; after a crash, removed files that were open may keep their space "
                            "in subvolumes until a client visits these"));
  }
}

}  // namespace dafs::server
