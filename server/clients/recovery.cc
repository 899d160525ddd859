#include "server/clients/recovery.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "server/store/procedures/shared/restart_check.h"
#include "wire/codec/codec.h"
#include "wire/messages/messages.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;
using wire::Proc;

wire::ChangeInfo ChangeOfDirectory(const Result& result) {
  return {.before = result.before, .after = result.after, .atomic = false};
}

// Rebuilds the results of the modifying procedures. Opens do not survive the server: the state id
// is one of an earlier instance, so the client must reclaim the open (4.4.1.6).
template <class Res>
Res MakeResult(const Result& result) {
  Res res;
  res.filehandle = result.object;
  res.change_info = ChangeOfDirectory(result);
  return res;
}
wire::OpenRes OpenResult(const Intent& intent, const Result& result) {
  auto res = MakeResult<wire::OpenRes>(result);
  res.state_id = wire::OpaqueFromUint64<wire::StateId>(1);  // no instance has the number 0
  res.component_count = intent.component_count;
  return res;
}
template <class Res>
Res ChangeResult(const Result& result) {
  Res res;
  res.change_info = ChangeOfDirectory(result);
  return res;
}
template <class Res>
Res RenameResult(const Intent& intent, const Result& result) {
  Res res;
  res.source = ChangeOfDirectory(result);
  res.target = {.before = intent.new_before, .after = result.new_after, .atomic = false};
  return res;
}
template <class Res>
Res SetattrResult(const Result& result) {
  Res res;
  res.attr_request_bitmap = result.attributes;
  return res;
}
template <class Res>
Res WriteResult(const Intent& intent, const Result& result) {
  Res res;
  res.count = static_cast<uint32_t>(result.length);
  res.committed = static_cast<wire::StableHow>(intent.stable_how);
  res.verifier = intent.verifier;
  return res;
}
template <class Res>
Res AppendResult(const Intent& intent, const Result& result) {
  Res res;
  res.offset = result.size;
  res.committed = static_cast<wire::StableHow>(intent.stable_how);
  res.verifier = intent.verifier;
  return res;
}
wire::CopyRangeRes CopyResult(const Intent& intent, const Result& result) {
  wire::CopyRangeRes res;
  res.count = result.length;
  res.verifier = intent.verifier;
  return res;
}

// Stores the response of an executed request in its slot.
class Answerer {
 public:
  Answerer(JournalSlot& slot, wire::ByteOrder order) : slot_(slot), order_(order) {}

  template <class Res>
  void operator()(const Res& res) {
    wire::ResponseHeader header;
    header.status = slot_.status;
    std::array<std::byte, wire::kHeaderSize + JournalSlot::kResponseMax> message{};
    absl::StatusOr<size_t> size = wire::EncodeResponse(header, res, order_, message);
    if (!size.ok()) return slot_.Clear();  // no result of these procedures is that large
    slot_.Answer(slot_.seq_number, slot_.procedure, slot_.status,
                 std::span(message).first(*size).subspan(wire::kHeaderSize), /*summed=*/true);
  }

 private:
  JournalSlot& slot_;
  const wire::ByteOrder order_;
};

void MakeAnswer(JournalSlot& slot, wire::ByteOrder order) {
  const Intent& intent = slot.intent;
  const Result& result = slot.result;
  Answerer answer(slot, order);
  switch (slot.procedure) {
    case Proc::kCreate:
      return answer(MakeResult<wire::CreateRes>(result));
    case Proc::kOpen:
      return answer(OpenResult(intent, result));
    case Proc::kLink:
      return answer(ChangeResult<wire::LinkRes>(result));
    case Proc::kRemove:
      return answer(ChangeResult<wire::RemoveRes>(result));
    case Proc::kRename:
      return answer(RenameResult<wire::RenameRes>(intent, result));
    case Proc::kRename2:
      return answer(RenameResult<wire::Rename2Res>(intent, result));
    case Proc::kMakeNode:
      return answer(MakeResult<wire::MakeNodeRes>(result));
    case Proc::kSetattrInline:
      return answer(SetattrResult<wire::SetattrInlineRes>(result));
    case Proc::kSetattrDirect:
      return answer(SetattrResult<wire::SetattrDirectRes>(result));
    case Proc::kWriteInline:
      return answer(WriteResult<wire::WriteInlineRes>(intent, result));
    case Proc::kWriteDirect:
      return answer(WriteResult<wire::WriteDirectRes>(intent, result));
    case Proc::kAppendInline:
      return answer(AppendResult<wire::AppendInlineRes>(intent, result));
    case Proc::kAppendDirect:
      return answer(AppendResult<wire::AppendDirectRes>(intent, result));
    case Proc::kClose:
      return answer(wire::CloseRes());
    case Proc::kAllocate:
      return answer(wire::AllocateRes());
    case Proc::kCopyRange:
      return answer(CopyResult(intent, result));
    default:
      return slot.Clear();
  }
}

// Returns true for a CLOSE of an open that was executed, or perhaps was.
bool IsClose(const JournalSlot& slot) {
  const SlotState state = slot.state.load(std::memory_order_acquire);
  return slot.procedure == Proc::kClose && slot.status == DafsStatus::kOk &&
         (state == SlotState::kIntent || state == SlotState::kExecuted ||
          state == SlotState::kAnswered) &&
         (slot.intent.flags & Intent::kOfAttribute) == 0;
}

// Returns true for an OPEN that created its file. It may have been executed without being counted,
// since counting comes later.
bool IsRecoveredOpen(const JournalSlot& slot) {
  return slot.procedure == Proc::kOpen && slot.is_recovered != 0 &&
         (slot.intent.flags & Intent::kTruncates) == 0;
}

// Returns true for a successful request whose result is an open.
bool HasOpened(const JournalSlot& slot) {
  return slot.status == DafsStatus::kOk &&
         wire::InfoOf(slot.procedure).state_id_after == wire::Current::kFromResult;
}

Grace::Uncounted OpenOf(const SessionCache& cache, const JournalSlot& slot,
                        const wire::FileHandle& file) {
  return {.file = KeyOf(file),
          .client_name = cache.owner().client_id_string,
          .owner_sum = slot.intent.value};
}

// Returns true if a request not known to be executed may have been executed, in part or as a whole.
bool LeavesDoubt(Proc procedure, const Intent& intent) {
  switch (procedure) {
    case Proc::kAllocate:
      return (intent.flags & Intent::kMoves) == 0;
    case Proc::kCopyRange:
    case Proc::kWriteInline:
    case Proc::kWriteDirect:
    case Proc::kSetattrInline:
    case Proc::kSetattrDirect:
      return true;
    default:
      return false;
  }
}

}  // namespace

JournalRecovery::JournalRecovery(const ResponseCache& responses, Store& store,
                                 std::function<void(size_t, UnknownOutcomes)> late)
    : store_(store), late_(std::move(late)), is_settled_(store.export_count()) {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<SessionCache>& cache : responses.Lost()) Read(cache);
}

void JournalRecovery::Read(const std::shared_ptr<SessionCache>& cache) {
  bool has_opened = false;
  for (uint32_t i = 0; i < cache->streams(); ++i) {
    const auto stream = static_cast<uint16_t>(i);
    JournalSlot& slot = cache->slot(stream);
    slot.Mend();
    if (IsClose(slot)) unknown_.opens.push_back(OpenOf(*cache, slot, slot.intent.object));
    // An OPEN that an earlier instance finished.
    if (slot.state == SlotState::kAnswered && IsRecoveredOpen(slot)) {
      unknown_.opens.push_back(OpenOf(*cache, slot, slot.result.object));
    }
    switch (slot.state.load(std::memory_order_acquire)) {
      case SlotState::kEmpty:
        break;
      case SlotState::kAnswered:
        has_opened |= HasOpened(slot);
        if (slot.procedure == Proc::kLocku && slot.status == DafsStatus::kOk) {
          ++unknown_.unlocks[cache->owner().client_id_string];
        }
        break;
      case SlotState::kIntent:
      case SlotState::kExecuted: {
        slot.intent.Bound();
        const bool of_name = slot.intent.directory != wire::FileHandle();
        cache->NoteUnsettled(stream);
        unsettled_.push_back(
            {cache, stream,
             of_name ? slot.intent.directory.fshandle : slot.intent.object.fshandle});
        break;
      }
      default:
        slot.Clear();  // not a valid state
        ++counts_.damaged;
    }
  }
  if (has_opened) unknown_.opened_in.push_back(cache->session_id());
}

void JournalRecovery::SettleSlot(SessionCache& cache, JournalSlot& slot, absl::Time deadline,
                                 UnknownOutcomes& unknown, Counts& counts) const {
  if (slot.state.load(std::memory_order_acquire) == SlotState::kIntent) {
    if (!store_.restart_check().Recheck(slot.procedure, slot.intent, deadline, &slot.result)) {
      ++counts.not_executed;
      // Otherwise keeps the intent, in case this instance ends before the client has queried it.
      if (!LeavesDoubt(slot.procedure, slot.intent)) return slot.Clear();
      unknown.doubts.push_back({.file = KeyOf(slot.intent.object),
                                .client_name = cache.owner().client_id_string,
                                .session_id = cache.session_id()});
      return;
    }
    slot.status = DafsStatus::kOk;
    slot.state.store(SlotState::kExecuted, std::memory_order_release);
  } else {
    store_.restart_check().Complete(slot.intent, &slot.result);
  }
  ++counts.executed;
  slot.is_recovered = 1;
  if (IsRecoveredOpen(slot)) unknown.opens.push_back(OpenOf(cache, slot, slot.result.object));
  const bool has_opened = HasOpened(slot);
  MakeAnswer(slot, cache.order());
  if (has_opened) unknown.opened_in.push_back(cache.session_id());
}

// A request whose handle is of no export is settled last: the export may come yet. Before Start the
// start may still fail, and then it must stay in the journal.
std::vector<JournalRecovery::Unsettled> JournalRecovery::Take(std::optional<size_t> export_index) {
  const bool all = has_started_ && begun_ == is_settled_.size();
  std::vector<Unsettled> taken;
  std::erase_if(unsettled_, [&](const Unsettled& each) {
    const bool takes = all || (export_index && store_.ExportOf(each.fshandle) == export_index);
    if (takes) taken.push_back(each);
    return takes;
  });
  return taken;
}

void JournalRecovery::Settle(size_t export_index) {
  std::vector<Unsettled> taken;
  {
    absl::MutexLock lock(&mutex_);
    ++begun_;
    taken = Take(export_index);
  }
  // A cluster file system takes seconds to recover from a failed head. A longer error is a fault of
  // its own.
  constexpr absl::Duration kPatience = absl::Seconds(10);
  const absl::Time deadline = absl::Now() + kPatience;
  UnknownOutcomes unknown;
  Counts counts;
  for (const Unsettled& each : taken) {
    SettleSlot(*each.cache, each.cache->slot(each.stream), deadline, unknown, counts);
  }
  absl::MutexLock lock(&mutex_);
  is_settled_[export_index] = true;
  if (has_started_) {
    counts.Log();
    late_(export_index, std::move(unknown));
  } else {
    const auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(unknown_.doubts, unknown.doubts);
    append(unknown_.opens, unknown.opens);
    append(unknown_.opened_in, unknown.opened_in);
    counts_.executed += counts.executed;
    counts_.not_executed += counts.not_executed;
  }
  // After the grace period has what they add.
  for (const Unsettled& each : taken) {
    each.cache->NoteSettled(each.stream);
  }
}

void JournalRecovery::Start(
    absl::FunctionRef<void(UnknownOutcomes unknown, const std::vector<size_t>& late)> start) {
  absl::MutexLock lock(&mutex_);
  has_started_ = true;
  for (const Unsettled& each : Take(std::nullopt)) {  // of no export: accesses no file system
    SettleSlot(*each.cache, each.cache->slot(each.stream), absl::InfinitePast(), unknown_, counts_);
    each.cache->NoteSettled(each.stream);
  }
  counts_.Log();
  std::vector<size_t> late;
  for (size_t i = 0; i < is_settled_.size(); ++i) {
    if (!is_settled_[i]) late.push_back(i);
  }
  start(std::move(unknown_), late);
}

void JournalRecovery::Counts::Log() const {
  if (damaged > 0) {
    LogError(absl::StrCat("of the response caches, ", damaged,
                          " entries are damaged; dropped: their requests count as not executed"));
  }
  if (executed + not_executed > 0) {
    LogNotice(absl::StrCat("of the requests under way when the server ended, ", executed,
                           " had been executed and ", not_executed, " had not"));
  }
}

}  // namespace dafs::server
