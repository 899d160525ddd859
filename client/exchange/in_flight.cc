#include "client/exchange/in_flight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/exchange/call.h"
#include "runtime/crc32c.h"
#include "wire/protocol/procedures.h"

namespace dafs::client {
namespace {

using Record = InFlightTable::Record;
using Entry = InFlightTable::Entry;

constexpr uint64_t kUsed = uint64_t{1} << 32;
// Record::answer: kAnswered, the bytes and the offset of the response in Entry::responses, and its
// CRC32C. No bytes: there was no room for it.
constexpr uint64_t kAnswered = uint64_t{1} << 63;
constexpr int kBytesShift = 48;
constexpr int kOffsetShift = 32;
constexpr uint64_t kFieldMask = 0x7fff;
static_assert(InFlightTable::kResponseBytes <= kFieldMask);

// In front of each response.
struct ResponseHead {
  uint32_t status = 0;
  uint32_t is_big_endian = 0;
};

std::span<const std::byte> Covered(const Record& record) {
  return std::as_bytes(std::span(&record, 1)).subspan(offsetof(Record, session_id));
}

uint64_t StateOf(const Record& record) { return kUsed | ExtendCrc32c(0, Covered(record)); }

struct Place {
  size_t offset = 0;
  size_t bytes = 0;  // 0: there is no response
  size_t end() const { return offset + bytes; }
};

Place PlaceOf(const Record& record) {
  if ((record.answer & kAnswered) == 0) return {};
  return {.offset = (record.answer >> kOffsetShift) & kFieldMask,
          .bytes = (record.answer >> kBytesShift) & kFieldMask};
}

// The response of a record of a killed process; empty if it is missing or damaged.
std::span<const std::byte> ResponseOf(const Entry& entry, const Record& record) {
  const Place place = PlaceOf(record);
  if (place.bytes <= sizeof(ResponseHead) || place.end() > entry.responses.size()) return {};
  const std::span<const std::byte> response(entry.responses.data() + place.offset, place.bytes);
  const bool is_whole = ExtendCrc32c(0, response) == static_cast<uint32_t>(record.answer);
  return is_whole ? response : std::span<const std::byte>();
}

ResponseHead HeadOf(std::span<const std::byte> response) {
  ResponseHead head;
  std::memcpy(&head, response.data(), sizeof(head));
  return head;
}

// Another process reads them after this one was killed.
void Store(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

uint32_t HandlesOf(CallBase& call) {
  uint32_t crc = 0;
  call.VisitHandles([&](wire::FileHandle& handle) {
    crc = ExtendCrc32c(crc, std::as_bytes(std::span(&handle, 1)));
  });
  return crc;
}

uint32_t OwnerOf(const CallBase& call) {
  return ExtendCrc32c(0, std::as_bytes(std::span(call.owner_argument())));
}

// Whether a second execution differs from none. WRITE, which would delay an operation most, does
// not.
bool IsRecorded(wire::Proc proc) {
  if (wire::InfoOf(proc).category != wire::Category::kFsStateModifying) return false;
  switch (proc) {
    case wire::Proc::kClose:
    case wire::Proc::kCommit:
    case wire::Proc::kDelegpurge:
    case wire::Proc::kDelegreturn:
    case wire::Proc::kWriteDirect:
    case wire::Proc::kWriteInline:
      return false;
    default:
      return true;
  }
}

// How many members of `chain` are recorded. None, if none must be. Otherwise all up to the last
// that changes something: an earlier one supplies the filehandle, a later one may complete the
// change.
size_t RecordedOf(std::span<CallBase* const> chain) {
  if (std::none_of(chain.begin(), chain.end(),
                   [](const CallBase* one) { return IsRecorded(one->proc()); })) {
    return 0;
  }
  size_t count = chain.size();
  while (!wire::ModifiesState(chain[count - 1]->info().category)) --count;
  return count;
}

}  // namespace

// ---- The table ----------------------------------------------------------------------------------

InFlightTable::InFlightTable(std::span<std::byte> memory)
    : unrecorded_(reinterpret_cast<uint64_t*>(memory.data())),
      entries_(reinterpret_cast<Entry*>(memory.data() + kEntryBytes)),
      is_left_(kEntries) {}

void InFlightTable::TakeLeft(std::span<const std::byte> left) {
  uint64_t missing = 0;
  // Without a table nothing is known about any operation.
  if (left.size() != kBytes) {
    left_unrecorded_ = true;
    return;
  }
  std::memcpy(&missing, left.data(), sizeof(missing));
  left_unrecorded_ = missing != 0;
  absl::MutexLock lock(&mutex_);
  for (uint32_t i = 0; i < kEntries; ++i) {
    const std::byte* const from = left.data() + (i + 1) * kEntryBytes;
    uint64_t operation = 0;
    std::memcpy(&operation, from, sizeof(operation));
    if (operation == 0 || left_.contains(operation)) continue;
    Entry* const entry = EntryAt(i);
    // The number last: this process may be killed, too.
    std::memcpy(reinterpret_cast<std::byte*>(entry) + sizeof(operation), from + sizeof(operation),
                kEntryBytes - sizeof(operation));
    Store(entry->operation, operation);
    is_left_[i] = true;
    left_.emplace(operation, entry);
  }
  // The next process must not assume more about them either.
  if (left_unrecorded_) unrecorded().store(1, std::memory_order_release);
}

bool InFlightTable::KnowsLeft(uint64_t operation) const {
  if (!left_unrecorded_) return true;
  absl::MutexLock lock(&mutex_);
  return left_.contains(operation);
}

std::vector<uint64_t> InFlightTable::Left() const {
  std::vector<uint64_t> operations;
  absl::MutexLock lock(&mutex_);
  operations.reserve(left_.size());
  for (const auto& [operation, entry] : left_) operations.push_back(operation);
  return operations;
}

InFlightTable::Entry* InFlightTable::Adopt(uint64_t operation) {
  absl::MutexLock lock(&mutex_);
  const auto it = left_.find(operation);
  if (it == left_.end()) return nullptr;
  Entry* const entry = it->second;
  left_.erase(it);
  return entry;
}

InFlightTable::Entry* InFlightTable::TakeUnused() {
  for (;;) {
    if (next_.load(std::memory_order_relaxed) >= kEntries) return nullptr;
    const uint32_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= kEntries) return nullptr;
    if (!is_left_[index]) return EntryAt(index);
  }
}

// ---- An operation -------------------------------------------------------------------------------

InFlightOperation::InFlightOperation(InFlightEntries* entries, uint64_t number, bool again)
    : entries_(entries), number_(number) {
  if (entries_ == nullptr || !again) return;
  entry_ = entries_->table_.Adopt(number_);
  if (entry_ == nullptr) return;
  ++entries_->taken_;
  ReadLeft();
}

void InFlightOperation::ReadLeft() {
  contradicts_ = entry_->is_incomplete != 0;
  for (uint8_t i = 0; i < InFlightTable::kRecords; ++i) {
    const Record& record = entry_->records[i];
    if (record.state == 0) continue;
    next_ = i + 1;
    const uint32_t bit = uint32_t{1} << i;
    left_ |= bit;
    if (record.state != StateOf(record)) contradicts_ = true;
    const std::span<const std::byte> response = ResponseOf(*entry_, record);
    const bool is_refused = !response.empty() &&
                            HeadOf(response).status != static_cast<uint32_t>(wire::DafsStatus::kOk);
    if (!is_refused && IsRecorded(static_cast<wire::Proc>(record.procedure))) changes_ |= bit;
    response_bytes_ =
        std::max(response_bytes_, std::min(PlaceOf(record).end(), entry_->responses.size()));
  }
}

bool InFlightOperation::TakeEntry() {
  if (entry_ != nullptr) return true;
  if (unrecorded_) return false;
  if (!entries_->free_.empty()) {
    entry_ = entries_->free_.back();
    entries_->free_.pop_back();
  } else {
    entry_ = entries_->table_.TakeUnused();
    entries_->taken_ += entry_ != nullptr ? 1 : 0;
  }
  if (entry_ == nullptr) {
    unrecorded_ = true;
    entries_->table_.unrecorded().fetch_add(1, std::memory_order_release);
    return false;
  }
  Store(entry_->operation, number_);
  return true;
}

std::optional<uint8_t> InFlightOperation::FindLeft(const CallBase& call, uint32_t handles) const {
  for (uint8_t i = 0; i < InFlightTable::kRecords; ++i) {
    if ((left_ >> i & 1) == 0) continue;
    const Record& record = entry_->records[i];
    if (record.procedure == static_cast<uint32_t>(call.proc()) && record.handles == handles) {
      return i;
    }
  }
  return std::nullopt;
}

bool InFlightOperation::Begin(std::span<CallBase* const> chain) {
  if (entries_ == nullptr || ended_) return false;
  const size_t count = RecordedOf(chain);
  if (count == 0 || !TakeEntry()) return false;
  bool found = false;
  bool missed = false;
  bool broken = false;
  for (CallBase* call : chain.first(count)) {
    call->in_flight = this;
    const uint32_t handles = HandlesOf(*call);
    const std::optional<uint8_t> left = left_ != 0 ? FindLeft(*call, handles) : std::nullopt;
    if (left.has_value()) {
      left_ &= ~(uint32_t{1} << *left);
      call->in_flight_record = *left;
      // No member after a refused one was executed, even if the process was killed before it
      // recorded that.
      if (broken) {
        Store(entry_->records[*left].state, 0);
        continue;
      }
      // A member is executed after those before it.
      contradicts_ |= missed;
      Restore(*call, entry_->records[*left]);
      broken = call->answered && !call->ok();
      found = true;
      continue;
    }
    missed = true;
    // A different request of the killed process that was not refused may be this change.
    contradicts_ |= !broken && (left_ & changes_) != 0 && !call->idempotent();
    call->in_flight_record = next_ < InFlightTable::kRecords ? next_++ : kNoRecord;
    if (call->in_flight_record == kNoRecord) {
      if (!call->idempotent()) Store(entry_->is_incomplete, 1);
      continue;
    }
    Record& record = entry_->records[call->in_flight_record];
    record.procedure = static_cast<uint32_t>(call->proc());
    record.handles = handles;
    record.owner = OwnerOf(*call);
  }
  return found || contradicts_;
}

bool InFlightOperation::TakeSent(CallBase& call) {
  const uint32_t owner = OwnerOf(call);
  for (uint8_t i = 0; i < InFlightTable::kRecords; ++i) {
    const uint32_t bit = uint32_t{1} << i;
    if ((left_ & bit) == 0) continue;
    const Record& record = entry_->records[i];
    if (record.procedure != static_cast<uint32_t>(call.proc()) || record.owner != owner) continue;
    left_ &= ~bit;
    if (record.state != StateOf(record)) continue;  // damaged
    Restore(call, record);
    return true;
  }
  return false;
}

void InFlightOperation::Restore(CallBase& call, const Record& record) const {
  call.xid.session_id = record.session_id;
  call.xid.client_id = record.client_id;
  call.xid.auth = static_cast<wire::AuthType>(record.auth);
  call.xid.stream_id = record.stream_id;
  call.xid.seq_number = record.seq_number;
  call.xid.cached = record.cached != 0;
  call.sent = call.left = true;
  if ((record.answer & kAnswered) == 0) return;
  call.was_answered = true;
  const std::span<const std::byte> response = ResponseOf(*entry_, record);
  if (response.empty()) return;
  const ResponseHead head = HeadOf(response);
  const auto order = head.is_big_endian != 0 ? wire::ByteOrder::kBig : wire::ByteOrder::kLittle;
  const auto status = static_cast<wire::DafsStatus>(head.status);
  if (!call.Decode(response.subspan(sizeof(head)), order, status).ok()) return;
  call.answered = true;
  call.status = status;
}

void InFlightOperation::Sent(const CallBase& call) {
  if (ended_ || call.in_flight_record == kNoRecord) return;
  Record& record = entry_->records[call.in_flight_record];
  Store(record.state, 0);  // what is known about an earlier try is settled
  // While a server asks to wait, each try has a response.
  if (const Place place = PlaceOf(record); place.bytes != 0 && place.end() == response_bytes_) {
    response_bytes_ = place.offset;
  }
  record.answer = 0;
  record.session_id = call.xid.session_id;
  record.client_id = call.xid.client_id;
  record.stream_id = call.xid.stream_id;
  record.seq_number = call.xid.seq_number;
  record.auth = static_cast<uint8_t>(call.xid.auth);
  record.cached = call.xid.cached ? 1 : 0;
  Store(record.state, StateOf(record));
}

void InFlightOperation::Answered(const CallBase& call, std::span<const std::byte> message,
                                 wire::ByteOrder order, wire::DafsStatus status) {
  if (ended_ || call.in_flight_record == kNoRecord) return;
  Record& record = entry_->records[call.in_flight_record];
  // It was not executed, and may be sent in another chain.
  if (status == wire::DafsStatus::kChainBroken) return Store(record.state, 0);
  ResponseHead head;
  head.status = static_cast<uint32_t>(status);
  head.is_big_endian = order == wire::ByteOrder::kBig ? 1 : 0;
  const size_t bytes = sizeof(head) + message.size();
  if (bytes > entry_->responses.size() - response_bytes_) {
    // A refused change need not be recorded.
    if (status != wire::DafsStatus::kOk) return Store(record.state, 0);
    return Store(record.answer, kAnswered);
  }
  std::byte* const at = entry_->responses.data() + response_bytes_;
  std::memcpy(at, &head, sizeof(head));
  std::memcpy(at + sizeof(head), message.data(), message.size());
  const uint32_t crc = ExtendCrc32c(0, std::span<const std::byte>(at, bytes));
  Store(record.answer, kAnswered | uint64_t{bytes} << kBytesShift |
                           uint64_t{response_bytes_} << kOffsetShift | crc);
  response_bytes_ += bytes;
}

void InFlightOperation::End() {
  if (std::exchange(ended_, true) || entries_ == nullptr) return;
  if (unrecorded_) entries_->table_.unrecorded().fetch_sub(1, std::memory_order_release);
  if (entry_ == nullptr) return;
  Store(entry_->operation, 0);
  entry_->is_incomplete = 0;
  for (Record& record : std::span(entry_->records).first(next_)) Store(record.state, 0);
  entries_->free_.push_back(entry_);
}

}  // namespace dafs::client
