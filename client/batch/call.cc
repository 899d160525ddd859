#include "client/batch/call.h"

#include <cstddef>

#include "client/batch/batch_entries.h"
#include "runtime/status_macros.h"

namespace dafs::client {

std::optional<wire::StateId> BatchCall::NameItems(const Opens& opens,
                                                  const wire::ClientId& client_id) {
  for (const BatchEntryRef& entry : entries_) {
    if (entry->state != BatchState::kSending || entry->item.state_id.is_zero()) continue;
    std::optional<wire::StateId> name = opens.StateIdOf(entry->item.state_id, client_id);
    if (!name.has_value()) return entry->item.state_id;
    entry->state_id = *name;
  }
  return std::nullopt;
}

// A request that is sent again on the same session names the existing windows.
absl::Status BatchCall::Expose(BatchEntry& entry) {
  if (!entry.windows.empty() && entry.windows_of == remote_access_.session())
    return absl::OkStatus();
  all_.CountWindows(-static_cast<ptrdiff_t>(entry.windows.size()));
  absl::Status status = entry.item.data->Expose(entry.buffers);
  remote_access_.Take(entry.windows);  // also those of an item that failed: they must be closed
  entry.windows_of = remote_access_.session();
  all_.CountWindows(static_cast<ptrdiff_t>(entry.windows.size()));
  return status;
}

// Omits items that were reported meanwhile: their owner has their memory again.
absl::StatusOr<size_t> BatchCall::Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                         std::span<std::byte> out, bool checksums) {
  args.requests.clear();
  for (const BatchEntryRef& entry : entries_) {
    if (entry->state != BatchState::kSending) continue;
    const BatchItem& item = entry->item;
    wire::RwRequest& request = args.requests.emplace_back();
    request.filehandle = item.file;
    request.request_id = entry->id;
    request.state_id = entry->state_id;
    request.rw_flag = item.rw_flag;
    request.chunks = item.chunks;
    RETURN_IF_ERROR(Expose(*entry));
    request.request_buffers = entry->buffers;
    if (checksums && item.rw_flag == wire::RwFlag::kWrite) {
      request.direct_checksum =
          item.data->Checksum(static_cast<uint32_t>(item.data->size()), order);
    }
  }
  return Call::Encode(header, order, out, checksums);
}

}  // namespace dafs::client
