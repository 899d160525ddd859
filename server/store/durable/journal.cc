#include "server/store/durable/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/fnv.h"
#include "runtime/log/log.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

uint32_t JournalSlot::Sum(uint32_t sum, const void* data, size_t size) {
  const uint32_t hash = ExtendFnv32(kFnv32Start ^ sum, {static_cast<const std::byte*>(data), size});
  return hash != 0 ? hash : 1;
}

// The whole intent is on the device before the operation begins. It does not change until the
// request has been answered and the stream is used again. So a torn intent belongs to a request
// that had not begun, and the client has received the response that was overwritten.
void JournalSlot::Mend() {
  const SlotState step = state.load(std::memory_order_acquire);
  if (step == SlotState::kEmpty || (step == SlotState::kAnswered && ResponseIsWhole())) return;
  if (!IntentIsWhole() || (step == SlotState::kAnswered && intent_sum == 0)) {
    Clear();
  } else if (step != SlotState::kIntent) {
    state.store(ResultIsWhole() ? SlotState::kExecuted : SlotState::kIntent,
                std::memory_order_release);
  }
}

Intent& Operation::Prepare() {
  KillPoint(KillStep::kBefore, procedure_);
  slot_->Clear();
  slot_->seq_number = seq_number_;
  slot_->procedure = procedure_;
  slot_->is_recovered = 0;
  slot_->status = DafsStatus::kOk;
  slot_->intent_sum = slot_->result_sum = 0;
  slot_->intent = Intent();
  return slot_->intent;
}

void Operation::Begin() {
  slot_->result = Result(slot_->intent);
  if (file_ != nullptr) slot_->intent_sum = slot_->IntentSum();
  slot_->state.store(SlotState::kIntent, std::memory_order_release);
  Sync();
  KillPoint(KillStep::kIntent, procedure_);
}

void Operation::Begin(const wire::FileHandle& directory, const std::string& name, uint64_t before,
                      const wire::FileHandle& object, uint32_t flags) {
  Intent& intent = Prepare();
  intent.flags = flags;
  intent.directory = directory;
  intent.object = object;
  intent.before = before;
  Intent::SetName(intent.name, name);
  Begin();
}

void Operation::Cancel() { slot_->Clear(); }

void Operation::Done(DafsStatus status, std::span<const int> changed) {
  KillPoint(KillStep::kCalled, procedure_);
  if (file_ != nullptr && status == DafsStatus::kOk) {
    const ScopedPrivilege privilege;
    for (int fd : changed) {
      UniqueFd open_fd(open(FdPath(fd).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      const bool synced = open_fd.valid() && fsync(open_fd.get()) == 0;
      if (synced) continue;
      LogWarning(absl::StrCat("a change was executed and could not be made stable"));
      // fsync reports a loss of the file's data only once.
      if (open_fd.valid()) write_verifier_->Change();
    }
  }
  slot_->status = status;
  if (file_ != nullptr) slot_->result_sum = slot_->ResultSum();
  slot_->state.store(SlotState::kExecuted, std::memory_order_release);
  Sync();
  KillPoint(KillStep::kMarked, procedure_);
}

void Operation::Sync() const {
  if (file_ == nullptr) return;
  if (!file_->Sync({reinterpret_cast<const std::byte*>(slot_), JournalSlot::kBytes})) {
    LogWarning(absl::StrCat(file_->path(), ": cannot be written to the device"));
  }
}

}  // namespace dafs::server
