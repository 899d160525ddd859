#include "server/clients/client_records.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/fnv.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/clients/options.h"
#include "server/store/system/machine_boot.h"
#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

constexpr uint64_t kRecordsMagic = 0x3230746e65696c63;  // "client02" in memory
constexpr size_t kRecordsHeaderBytes = 4096;
constexpr char kIfRecordsRemoved[] =
    "for a grace period every client may reclaim what it says it held, and everything else waits";

// Moves the count to `lost`. Saturates at UINT32_MAX, which means that any number may be lost.
void Lose(std::atomic<uint32_t>& held, std::atomic<uint32_t>& lost) {
  const uint32_t now_lost = held.exchange(0);
  lost += std::min(now_lost, UINT32_MAX - lost);
}

// Whether the machine was started a short time ago: clients may then still rely on what the server
// promised before. Later they do not: no promise outlives the longest --recall-time without
// contact.
bool StartedLately() {
  timespec up;
  return clock_gettime(CLOCK_BOOTTIME, &up) != 0 || up.tv_sec <= kMostRecallSeconds;
}

// The record of clients is lost: any client may reclaim anything.
void LoseAll(Holdings& held) { held.lost_opens = held.lost_deniers = held.lost_locks = UINT32_MAX; }

}  // namespace

struct ClientRecords::Header {
  uint64_t magic;
  uint64_t boot;  // of the machine, when this was last written
  // The server had clients without a slot.
  std::atomic<uint32_t> was_full;
  Holdings unknown;  // of clients without a record: `lost_` only
};

struct ClientRecords::Slot {
  static constexpr size_t kBytes = 1280;
  // Neither value can be read from an erased page.
  static constexpr uint32_t kTaken = 0x6e656b74;
  static constexpr uint32_t kFree = 0x65657266;

  std::atomic<uint32_t> state;  // kTaken is published last
  uint32_t name_bytes;
  wire::Verifier verifier;
  wire::AuthType method;
  PeerAddress host;
  Holdings holdings;
  uint32_t sum;  // covers all but state, holdings and promises
  char name[wire::kOwnerBound.max_bytes];
  // Zero in the files of versions without promises.
  static constexpr uint32_t kHas = 1;  // of this instance
  static constexpr uint32_t kHad = 2;  // of an earlier instance
  std::atomic<uint32_t> promises;
  Principal::Proof proof;
  Principal::NameHash name_hash;

  uint32_t Sum() const {
    uint32_t hash = kFnv32Start;
    const auto add = [&hash](const void* data, size_t size) {
      hash = ExtendFnv32(hash, {static_cast<const std::byte*>(data), size});
    };
    add(&name_bytes, sizeof name_bytes);
    add(&verifier, sizeof verifier);
    add(&method, sizeof method);
    add(&host, sizeof host);
    add(name, std::min<size_t>(name_bytes, sizeof name));
    if (proof != Principal::Proof::kUnrecorded) {
      add(&proof, sizeof proof);
      add(&name_hash, sizeof name_hash);
    }
    return hash;
  }
  bool IsWhole() const { return name_bytes <= sizeof(name) && sum == Sum(); }
};

ClientRecords::ClientRecords(MappedFile file, bool stable)
    : file_(std::move(file)), stable_(stable), live_(kSlots) {
  static_assert(sizeof(Slot) <= Slot::kBytes);
}

ClientRecords::Slot& ClientRecords::slot(size_t index) const {
  return *reinterpret_cast<Slot*>(file_.bytes().data() + kRecordsHeaderBytes +
                                  index * Slot::kBytes);
}

ClientRecords::Header& ClientRecords::header() const {
  static_assert(sizeof(Header) <= kRecordsHeaderBytes);
  return *reinterpret_cast<Header*>(file_.bytes().data());
}

absl::StatusOr<MappedFile> ClientRecords::CreateFile(const std::string& path, bool has_served) {
  absl::StatusOr<MappedFile> file =
      MappedFile::Create(path, kRecordsHeaderBytes + kSlots * Slot::kBytes);
  RETURN_IF_ERROR(file.status());
  for (size_t i = 0; i < kSlots; ++i) {
    std::byte* at = file->bytes().data() + kRecordsHeaderBytes + i * Slot::kBytes;
    reinterpret_cast<Slot*>(at)->state.store(Slot::kFree, std::memory_order_relaxed);
  }
  auto* header = reinterpret_cast<Header*>(file->bytes().data());
  header->boot = BootSum();
  if (has_served) LoseAll(header->unknown);
  std::atomic_signal_fence(std::memory_order_release);
  header->magic = kRecordsMagic;
  // Even without --stable=power: otherwise a loss of power would leave an empty file, which counts
  // as damage.
  if (!(file->Sync(file->bytes()) && file->SyncName())) {
    LogWarning(
        absl::StrCat(path, ": cannot be written to the device; a loss of power may damage it"));
  }
  return file;
}

absl::StatusOr<MappedFile> ClientRecords::OpenFile(const std::string& path, bool has_served,
                                                   bool* is_new) {
  absl::StatusOr<MappedFile> file =
      MappedFile::Open(path, kRecordsHeaderBytes + kSlots * Slot::kBytes);
  if (file.ok() && reinterpret_cast<const Header*>(file->bytes().data())->magic == kRecordsMagic) {
    return file;
  }
  std::string why = path + ": not a record of clients";
  if (!file.ok()) {
    const bool is_missing = absl::IsNotFound(file.status());
    if (!is_missing && !absl::IsDataLoss(file.status())) {
      return CannotStartWithout(file.status(), kIfRecordsRemoved);
    }
    why = is_missing ? path + ": missing" : std::string(file.status().message());
  }
  if (has_served) LogError(absl::StrCat(why, "; created again: ", kIfRecordsRemoved));
  unlink(path.c_str());
  *is_new = true;
  return CreateFile(path, has_served);
}

absl::StatusOr<std::unique_ptr<ClientRecords>> ClientRecords::Open(const std::string& state_dir,
                                                                   bool stable, bool has_served) {
  const std::string path = state_dir + "/clients";
  bool is_new = false;
  ASSIGN_OR_RETURN(MappedFile file, OpenFile(path, has_served, &is_new));
  std::unique_ptr<ClientRecords> records(new ClientRecords(std::move(file), stable));
  Header& header = records->header();
  const bool rebooted = header.boot != BootSum();
  absl::MutexLock lock(&records->mutex_);
  records->unknown_promises_ = is_new ? has_served : rebooted && StartedLately();
  records->TakeUp(rebooted);
  header.boot = BootSum();
  const MappedFile& mapped = records->file_;
  if (stable && !(mapped.Sync(mapped.bytes().first(kRecordsHeaderBytes)) && mapped.SyncName())) {
    LogWarning(
        absl::StrCat(path, ": cannot be written to the device; a loss of power may damage it"));
  }
  return records;
}

void ClientRecords::TakeUp(bool rebooted) {
  size_t damaged = 0;
  const bool was_full = header().was_full != 0;
  for (size_t i = 0; i < kSlots; ++i) {
    const uint32_t state = slot(i).state.load(std::memory_order_acquire);
    const bool is_whole = state == Slot::kTaken ? slot(i).IsWhole() : state == Slot::kFree;
    damaged += is_whole ? 0 : 1;
  }
  if (header().unknown.expired.exchange(0) != 0) header().unknown.ForgetLost();
  // First, because the process may be killed before the slots are freed.
  if (damaged > 0 || was_full) LoseAll(header().unknown);
  if (damaged > 0) {
    unknown_promises_ = true;
    LogError(absl::StrCat(file_.path(), ": ", damaged, " of ", kSlots,
                          " records are damaged; dropped: ", kIfRecordsRemoved));
  }
  if (was_full) {
    LogError(absl::StrCat(file_.path(), ": there were more clients than the ", kSlots,
                          " that can be recorded: ", kIfRecordsRemoved));
  }
  header().was_full = 0;
  for (size_t i = kSlots; i-- > 0;) {
    Slot& record = slot(i);
    if (record.state != Slot::kTaken || !record.IsWhole()) {
      record.state = Slot::kFree;
      free_.push_back(i);
      continue;
    }
    Holdings& held = record.holdings;
    // Others may have had what the client did not reclaim before its lease expired.
    if (held.expired != 0) held.ForgetLost();
    Lose(held.opens, held.lost_opens);
    Lose(held.deniers, held.lost_deniers);
    Lose(held.locks, held.lost_locks);
    if (rebooted) LoseAll(held);  // the counts may be out of date
    held.expired = 0;
    const bool had_promises = record.promises != 0 && !rebooted;
    record.promises = had_promises ? Slot::kHad : 0;
    if (had_promises && !held.owes()) had_only_promises_.push_back(i);
    if (had_promises || held.owes()) {
      by_name_[std::string(record.name, record.name_bytes)] = i;
    } else {
      record.state = Slot::kFree;
      free_.push_back(i);
    }
  }
}

Holdings* ClientRecords::Unknown() const {
  return header().unknown.owes() ? &header().unknown : nullptr;
}

void ClientRecords::ExpireAbsent() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, index] : by_name_) {
    if (!live_[index]) slot(index).holdings.expired = 1;
  }
  header().unknown.expired = 1;
}

std::vector<ClientRecords::Record> ClientRecords::Owed() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Record> owed;
  for (const auto& [name, index] : by_name_) {
    Slot& record = slot(index);
    if (!record.holdings.owes()) continue;
    owed.push_back({name, record.verifier, PrincipalIn(record), &record.holdings,
                    (record.promises & Slot::kHad) != 0});
  }
  return owed;
}

bool ClientRecords::BelongsToAnother(const Record& client) const {
  absl::MutexLock lock(&mutex_);
  auto it = by_name_.find(client.client_id_string);
  if (it == by_name_.end()) return false;
  const Slot& record = slot(it->second);
  if (!record.holdings.owes()) return false;
  const Principal owner = PrincipalIn(record);
  return !owner.ProvesTheSame(client.principal) ||
         (record.verifier != client.verifier && owner != client.principal);
}

Holdings* ClientRecords::Take(const Record& client) {
  absl::MutexLock lock(&mutex_);
  auto it = by_name_.find(client.client_id_string);
  if (it != by_name_.end() && !live_[it->second] && slot(it->second).verifier == client.verifier) {
    live_[it->second] = true;
    slot(it->second).holdings.expired = 0;
    PutPrincipal(client.principal, slot(it->second));
    slot(it->second).sum = slot(it->second).Sum();
    return &slot(it->second).holdings;
  }
  if (it != by_name_.end() && !live_[it->second]) {  // of an earlier client instance
    slot(it->second).state = Slot::kFree;
    slot(it->second).holdings.ForgetLost();
    free_.push_back(it->second);
    by_name_.erase(it);
  }
  if (free_.empty()) {
    if (header().was_full.exchange(1) == 0) {
      LogWarning(absl::StrCat("more clients than the ", kSlots,
                              " that can be recorded: after a restart everything waits for those "
                              "that cannot, until the grace period ends"));
    }
    return nullptr;
  }
  const size_t index = free_.back();
  free_.pop_back();
  by_name_[client.client_id_string] = index;
  live_[index] = true;
  Slot& record = slot(index);
  record.holdings.Reset();
  record.promises = 0;
  record.verifier = client.verifier;
  PutPrincipal(client.principal, record);
  record.name_bytes = static_cast<uint32_t>(client.client_id_string.size());
  std::memcpy(record.name, client.client_id_string.data(), client.client_id_string.size());
  record.sum = record.Sum();
  record.state.store(Slot::kTaken, std::memory_order_release);
  if (stable_ && !file_.Sync({reinterpret_cast<const std::byte*>(&record), sizeof(record)})) {
    LogWarning(absl::StrCat(file_.path(),
                            ": cannot be written to the device; a loss of power may damage it"));
  }
  return &record.holdings;
}

size_t ClientRecords::IndexOf(const Holdings* holdings) const {
  const auto* at = reinterpret_cast<const std::byte*>(holdings);
  return (static_cast<size_t>(at - file_.bytes().data()) - kRecordsHeaderBytes) / Slot::kBytes;
}

void ClientRecords::NotePromises(const Holdings* holdings, bool has_promises) {
  absl::MutexLock lock(&mutex_);
  slot(IndexOf(holdings)).promises = has_promises ? Slot::kHas : 0;
}

bool ClientRecords::MayHavePromises(const Holdings* holdings) const {
  absl::MutexLock lock(&mutex_);
  return slot(IndexOf(holdings)).promises != 0;
}

std::set<std::string, std::less<>> ClientRecords::Returning() const {
  absl::MutexLock lock(&mutex_);
  std::set<std::string, std::less<>> names;
  for (const auto& [name, index] : by_name_) {
    if (slot(index).promises == Slot::kHad) names.insert(name);
  }
  if (unknown_promises_) names.emplace(kUnknownClient);
  return names;
}

void ClientRecords::EndReturning() {
  absl::MutexLock lock(&mutex_);
  unknown_promises_ = false;
  for (const auto& [name, index] : by_name_) {
    uint32_t had = Slot::kHad;
    slot(index).promises.compare_exchange_strong(had, 0);
  }
  for (const size_t index : had_only_promises_) {
    Slot& record = slot(index);
    const auto it = by_name_.find(std::string(record.name, record.name_bytes));
    if (live_[index] || it == by_name_.end() || it->second != index) continue;
    record.state = Slot::kFree;
    free_.push_back(index);
    by_name_.erase(it);
  }
  had_only_promises_.clear();
}

void ClientRecords::Drop(const Holdings* holdings) {
  absl::MutexLock lock(&mutex_);
  const size_t index = IndexOf(holdings);
  slot(index).state = Slot::kFree;
  live_[index] = false;
  free_.push_back(index);
  auto it = by_name_.find(std::string(slot(index).name, slot(index).name_bytes));
  if (it != by_name_.end() && it->second == index) by_name_.erase(it);
}

}  // namespace dafs::server
