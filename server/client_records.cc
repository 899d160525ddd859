#include "server/client_records.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/machine_boot.h"
#include "wire/limits.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::server {
namespace {

constexpr uint64_t kMagic = 0x3130746e65696c63;  // "client01" in memory
constexpr size_t kHeaderBytes = 4096;

struct Header {
  uint64_t magic;
  uint64_t boot;  // of the machine, when this was written last
};

// What was held is lost, beside what was lost already: that may be UINT32_MAX, all there can be.
void Lose(std::atomic<uint32_t>& held, std::atomic<uint32_t>& lost) {
  const uint32_t now_lost = held.exchange(0);
  lost += std::min(now_lost, UINT32_MAX - lost);
}

}  // namespace

struct ClientRecords::Slot {
  static constexpr size_t kBytes = 1280;
  static constexpr uint32_t kTaken = 0x6e656b74;

  std::atomic<uint32_t> state;  // kTaken, published last; anything else is free
  uint32_t name_bytes;
  wire::Verifier verifier;
  Principal principal;
  Holdings holdings;
  char name[wire::kOwnerBound.max_bytes];
};

ClientRecords::ClientRecords(MappedFile file, bool stable)
    : file_(std::move(file)), stable_(stable), live_(kSlots) {
  static_assert(sizeof(Slot) <= Slot::kBytes);
}

ClientRecords::Slot& ClientRecords::slot(size_t index) const {
  return *reinterpret_cast<Slot*>(file_.bytes().data() + kHeaderBytes + index * Slot::kBytes);
}

absl::StatusOr<std::unique_ptr<ClientRecords>> ClientRecords::Open(const std::string& state_dir,
                                                                   bool stable) {
  const std::string path = state_dir + "/clients";
  const size_t size = kHeaderBytes + kSlots * Slot::kBytes;
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, size);
  if (file.ok() && reinterpret_cast<const Header*>(file->bytes().data())->magic != kMagic) {
    file = absl::DataLossError(absl::StrCat(path, ": not a file of client records"));
  }
  if (!file.ok()) {
    // Made and not finished, or not there: it records nobody.
    if (absl::IsDataLoss(file.status())) {
      LogWarning(absl::StrCat(file.status().message(), "; made anew"));
      unlink(path.c_str());
    } else if (!absl::IsNotFound(file.status())) {
      return CannotStartWithout(file.status());
    }
    file = MappedFile::Create(path, size);
    RETURN_IF_ERROR(file.status());
  }
  auto* header = reinterpret_cast<Header*>(file->bytes().data());
  const bool rebooted = header->magic == kMagic && header->boot != BootSum();
  header->boot = BootSum();
  header->magic = kMagic;
  if (stable && !(file->Sync(file->bytes().first(kHeaderBytes)) && file->SyncName())) {
    LogWarning(absl::StrCat(path, ": cannot be written to the device"));
  }
  std::unique_ptr<ClientRecords> records(new ClientRecords(*std::move(file), stable));
  absl::MutexLock lock(&records->mutex_);
  for (size_t i = kSlots; i-- > 0;) {
    Slot& slot = records->slot(i);
    if (slot.state.load(std::memory_order_acquire) != Slot::kTaken ||
        slot.name_bytes > sizeof(slot.name)) {
      records->free_.push_back(i);
      continue;
    }
    Holdings& held = slot.holdings;
    Lose(held.opens, held.lost_opens);
    Lose(held.deniers, held.lost_deniers);
    Lose(held.locks, held.lost_locks);
    if (rebooted) {  // the counts may be old
      held.lost_opens = held.lost_deniers = held.lost_locks = UINT32_MAX;
    }
    held.expired = 0;
    const std::string name(slot.name, slot.name_bytes);
    if (held.owes()) {
      records->by_name_[name] = i;
    } else {
      slot.state = 0;
      records->free_.push_back(i);
    }
  }
  return records;
}

std::vector<ClientRecords::Record> ClientRecords::Owed() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Record> owed;
  for (const auto& [name, index] : by_name_) {
    Slot& record = slot(index);
    if (!record.holdings.owes()) continue;
    owed.push_back({name, record.verifier, record.principal, &record.holdings});
  }
  return owed;
}

bool ClientRecords::BelongsToAnother(const Record& client) const {
  absl::MutexLock lock(&mutex_);
  auto it = by_name_.find(client.client_id_string);
  if (it == by_name_.end()) return false;
  const Slot& record = slot(it->second);
  if (!record.holdings.owes()) return false;
  return record.principal.method != client.principal.method ||
         (record.verifier != client.verifier && record.principal != client.principal);
}

Holdings* ClientRecords::Take(const Record& client) {
  absl::MutexLock lock(&mutex_);
  auto it = by_name_.find(client.client_id_string);
  if (it != by_name_.end() && !live_[it->second] && slot(it->second).verifier == client.verifier) {
    live_[it->second] = true;
    slot(it->second).principal = client.principal;
    return &slot(it->second).holdings;
  }
  if (it != by_name_.end() && !live_[it->second]) {  // of an instance that is no more
    slot(it->second).state = 0;
    slot(it->second).holdings.ForgetLost();
    free_.push_back(it->second);
    by_name_.erase(it);
  }
  if (free_.empty()) {
    LogWarning("more clients than can be recorded: one of them cannot reclaim what it opens");
    return nullptr;
  }
  const size_t index = free_.back();
  free_.pop_back();
  by_name_[client.client_id_string] = index;
  live_[index] = true;
  Slot& record = slot(index);
  record.holdings.Reset();
  record.verifier = client.verifier;
  record.principal = client.principal;
  record.name_bytes = static_cast<uint32_t>(client.client_id_string.size());
  std::memcpy(record.name, client.client_id_string.data(), client.client_id_string.size());
  record.state.store(Slot::kTaken, std::memory_order_release);
  if (stable_ && !file_.Sync({reinterpret_cast<const std::byte*>(&record), sizeof(record)})) {
    LogWarning(absl::StrCat(file_.path(), ": cannot be written to the device"));
  }
  return &record.holdings;
}

void ClientRecords::Drop(const Holdings* holdings) {
  absl::MutexLock lock(&mutex_);
  const auto* at = reinterpret_cast<const std::byte*>(holdings);
  const size_t offset = static_cast<size_t>(at - file_.bytes().data()) - kHeaderBytes;
  const size_t index = offset / Slot::kBytes;
  slot(index).state = 0;
  live_[index] = false;
  free_.push_back(index);
  auto it = by_name_.find(std::string(slot(index).name, slot(index).name_bytes));
  if (it != by_name_.end() && it->second == index) by_name_.erase(it);
}

}  // namespace dafs::server
