#include "server/recovery.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/codec.h"
#include "wire/log.h"
#include "wire/messages.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;
using wire::Proc;

wire::ChangeInfo ChangeOfDirectory(const Intent& intent) {
  return {.before = intent.before, .after = intent.after, .atomic = false};
}

// The results of the modifying procedures, made again from their intents. An open has not outlived
// the server: its state id is one of an earlier instance, and has to be reclaimed (4.4.1.6).
wire::CreateRes ResultOf(const Intent& intent, wire::CreateRes res) {
  res.filehandle = intent.object;
  res.change_info = ChangeOfDirectory(intent);
  return res;
}
wire::OpenRes ResultOf(const Intent& intent, wire::OpenRes res) {
  res.filehandle = intent.object;
  res.state_id = wire::OpaqueFromUint64<wire::StateId>(1);  // no instance has the number 0
  res.component_count = intent.component_count;
  res.change_info = ChangeOfDirectory(intent);
  return res;
}
template <class Res>
Res ChangeResult(const Intent& intent) {
  Res res;
  res.change_info = ChangeOfDirectory(intent);
  return res;
}
wire::MakeNodeRes ResultOf(const Intent& intent, wire::MakeNodeRes res) {
  res.filehandle = intent.object;
  res.change_info = ChangeOfDirectory(intent);
  return res;
}
template <class Res>
Res RenameResult(const Intent& intent) {
  Res res;
  res.source = ChangeOfDirectory(intent);
  res.target = {.before = intent.new_before, .after = intent.new_after, .atomic = false};
  return res;
}
template <class Res>
Res SetattrResult(const Intent& intent) {
  Res res;
  res.attr_request_bitmap = intent.attributes;
  return res;
}
template <class Res>
Res WriteResult(const Intent& intent) {
  Res res;
  res.count = static_cast<uint32_t>(intent.length);
  res.committed = static_cast<wire::StableHow>(intent.stable_how);
  res.verifier = intent.verifier;
  return res;
}
template <class Res>
Res AppendResult(const Intent& intent) {
  Res res;
  res.offset = intent.size;
  res.committed = static_cast<wire::StableHow>(intent.stable_how);
  res.verifier = intent.verifier;
  return res;
}

wire::CopyRangeRes ResultOf(const Intent& intent, wire::CopyRangeRes res) {
  res.count = intent.length;
  res.verifier = intent.verifier;
  return res;
}

// The slot of an executed request gets its answer.
class Answerer {
 public:
  Answerer(JournalSlot& slot, wire::ByteOrder order) : slot_(slot), order_(order) {}

  template <class Res>
  void operator()(const Res& res) {
    wire::ResponseHeader header;
    header.status = slot_.status;
    std::array<std::byte, wire::kHeaderSize + JournalSlot::kResponseMax> message{};
    absl::StatusOr<size_t> size = wire::EncodeResponse(header, res, order_, message);
    if (!size.ok()) return slot_.Clear();  // no result of these procedures is so large
    slot_.Answer(slot_.seq_number, slot_.procedure, slot_.status,
                 std::span(message).first(*size).subspan(wire::kHeaderSize), /*summed=*/true);
  }

 private:
  JournalSlot& slot_;
  const wire::ByteOrder order_;
};

void MakeAnswer(JournalSlot& slot, wire::ByteOrder order) {
  const Intent& intent = slot.intent;
  Answerer answer(slot, order);
  switch (slot.procedure) {
    case Proc::kCreate:
      return answer(ResultOf(intent, wire::CreateRes()));
    case Proc::kOpen:
      return answer(ResultOf(intent, wire::OpenRes()));
    case Proc::kLink:
      return answer(ChangeResult<wire::LinkRes>(intent));
    case Proc::kRemove:
      return answer(ChangeResult<wire::RemoveRes>(intent));
    case Proc::kRename:
      return answer(RenameResult<wire::RenameRes>(intent));
    case Proc::kRename2:
      return answer(RenameResult<wire::Rename2Res>(intent));
    case Proc::kMakeNode:
      return answer(ResultOf(intent, wire::MakeNodeRes()));
    case Proc::kSetattrInline:
      return answer(SetattrResult<wire::SetattrInlineRes>(intent));
    case Proc::kSetattrDirect:
      return answer(SetattrResult<wire::SetattrDirectRes>(intent));
    case Proc::kWriteInline:
      return answer(WriteResult<wire::WriteInlineRes>(intent));
    case Proc::kWriteDirect:
      return answer(WriteResult<wire::WriteDirectRes>(intent));
    case Proc::kAppendInline:
      return answer(AppendResult<wire::AppendInlineRes>(intent));
    case Proc::kAppendDirect:
      return answer(AppendResult<wire::AppendDirectRes>(intent));
    case Proc::kClose:
      return answer(wire::CloseRes());
    case Proc::kAllocate:
      return answer(wire::AllocateRes());
    case Proc::kCopyRange:
      return answer(ResultOf(intent, wire::CopyRangeRes()));
    default:
      return slot.Clear();
  }
}

// Whether the request may have been executed in part, or not be known to have been executed.
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

// A slot that was torn by the loss of power goes back to the last step that is whole in it. An
// intent that is not was never on the device in full, so that nothing was done about it; but one
// that had been is only torn against its own completion, and the file system tells.
void Mend(JournalSlot& slot) {
  switch (slot.state.load(std::memory_order_acquire)) {
    case SlotState::kAnswered:
      if (slot.ResponseIsWhole()) return;
      if (slot.intent_sum == 0 || !slot.IntentIsWhole()) return slot.Clear();
      slot.state.store(SlotState::kExecuted, std::memory_order_release);
      return;
    case SlotState::kExecuted:
      if (!slot.IntentIsWhole()) slot.state.store(SlotState::kIntent, std::memory_order_release);
      return;
    case SlotState::kIntent:
      if (!slot.IntentIsWhole()) slot.Clear();
      return;
    default:
      return;
  }
}

}  // namespace

std::vector<Grace::Doubt> FinishJournals(const ResponseCache& responses, Store& store) {
  std::vector<Grace::Doubt> doubts;
  size_t executed = 0, not_executed = 0;
  for (const std::shared_ptr<SessionCache>& cache : responses.Lost()) {
    for (uint32_t i = 0; i < cache->streams(); ++i) {
      JournalSlot& slot = cache->slot(static_cast<uint16_t>(i));
      Mend(slot);
      switch (slot.state.load(std::memory_order_acquire)) {
        case SlotState::kEmpty:
        case SlotState::kAnswered:
          continue;
        case SlotState::kIntent:
          slot.intent.Bound();
          if (!store.Recheck(slot.procedure, &slot.intent)) {
            ++not_executed;
            if (LeavesDoubt(slot.procedure, slot.intent)) {
              // The intent stays, should this instance end before its client has asked.
              doubts.push_back({.file = KeyOf(slot.intent.object),
                                .client_name = cache->owner().client_id_string,
                                .session_id = cache->session_id()});
            } else {
              slot.Clear();
            }
            continue;
          }
          slot.status = DafsStatus::kOk;
          slot.state.store(SlotState::kExecuted, std::memory_order_release);
          break;
        case SlotState::kExecuted:
          store.Complete(&slot.intent);
          break;
        default:
          slot.Clear();  // no state of ours: the file has been damaged
          continue;
      }
      ++executed;
      MakeAnswer(slot, cache->order());
    }
  }
  if (executed + not_executed > 0) {
    LogNotice(absl::StrCat("of the requests under way when the server ended, ", executed,
                           " had been executed and ", not_executed, " had not"));
  }
  return doubts;
}

}  // namespace dafs::server
