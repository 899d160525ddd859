#include "client/batch/judgement.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "wire/protocol/status.h"

namespace dafs::client {

using wire::DafsStatus;

namespace {

// Limits on the retries of a refused item.
constexpr int kMostReclaims = 8;
constexpr int kMostDamaged = 8;

}  // namespace

absl::Status LossOf(Client& client, const BatchEntry& entry) {
  if (entry.item.state_id.is_zero()) return absl::OkStatus();
  std::optional<Opens::Entry> open = client.opens().Find(entry.item.state_id);
  return open.has_value() ? open->lost : absl::FailedPreconditionError("batch: the file is closed");
}

bool OverlapsKept(Client& client, const BatchEntry& entry) {
  if (entry.item.rw_flag != wire::RwFlag::kWrite || entry.overlap_committed) return false;
  const Uncommitted& kept = client.uncommitted();
  return std::any_of(
      entry.item.chunks.begin(), entry.item.chunks.end(), [&](const wire::FileChunk& chunk) {
        return kept.HoldsAnyOf(entry.item.file, chunk.offset, chunk.offset + chunk.byte_count);
      });
}

void ForgetWritten(Client& client, const BatchEntry& entry, uint32_t bytes) {
  if (entry.item.rw_flag != wire::RwFlag::kWrite) return;
  for (const wire::FileChunk& chunk : entry.item.chunks) {
    const uint32_t written = std::min(bytes, chunk.byte_count);
    if (written == 0) continue;
    client.uncommitted().Forget(entry.item.file, chunk.offset, chunk.offset + written);
    bytes -= written;
  }
}

BatchVerdict Judge(Client& client, BatchEntry& entry, const wire::CompletionNotification& done,
                   absl::Status* why) {
  const auto status = static_cast<DafsStatus>(done.status);
  const BatchItem& item = entry.item;
  *why = wire::StatusFromDafs(status, "batch");
  switch (status) {
    case DafsStatus::kOk:
      if (done.bytes_transferred > item.data->size()) {
        *why = absl::DataLossError(absl::StrCat("batch: ", done.bytes_transferred, " bytes of ",
                                                item.data->size(), " requested"));
        return BatchVerdict::kEnd;
      }
      if (client.options().checksums && item.rw_flag == wire::RwFlag::kRead &&
          item.data->Checksum(done.bytes_transferred, client.options().byte_order) !=
              done.direct_checksum) {
        *why = absl::DataLossError("batch: data with a wrong checksum");
        return ++entry.damaged <= kMostDamaged ? BatchVerdict::kAgain : BatchVerdict::kEnd;
      }
      return BatchVerdict::kEnd;
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
      return BatchVerdict::kLater;
    case DafsStatus::kChksum:
      return ++entry.damaged <= kMostDamaged ? BatchVerdict::kAgain : BatchVerdict::kEnd;
    case DafsStatus::kStaleStateId:  // not executed; the server lost the open, or the client state
    case DafsStatus::kOldStateId:
    case DafsStatus::kBadStateId:
    case DafsStatus::kExpired:
      if (item.state_id.is_zero() || ++entry.reclaims > kMostReclaims) return BatchVerdict::kEnd;
      client.opens().Forgotten(item.state_id, entry.state_id);
      return BatchVerdict::kAgain;
    default:
      return BatchVerdict::kEnd;
  }
}

}  // namespace dafs::client
