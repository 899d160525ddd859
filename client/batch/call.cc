#include "client/batch/call.h"

#include "client/files/files.h"
#include "runtime/status_macros.h"

namespace dafs::client {

std::optional<wire::StateId> BatchCall::NameItems(const Opens& opens,
                                                  const wire::ClientId& client_id) {
  for (const Batches::EntryRef& entry : entries_) {
    if (entry->state != Batches::State::kSending || entry->item.state_id.is_zero()) continue;
    std::optional<wire::StateId> name = opens.StateIdOf(entry->item.state_id, client_id);
    if (!name.has_value()) return entry->item.state_id;
    entry->state_id = *name;
  }
  return std::nullopt;
}

// A request that is sent again on the same session names the existing windows.
absl::Status BatchCall::Expose(Batches::Entry& entry) {
  Exposure& exposure = owner_.buffers_.exposure();
  if (!entry.windows.empty() && entry.windows_of == exposure.session()) return absl::OkStatus();
  owner_.windows_out_ -= entry.windows.size();
  absl::Status status = entry.item.data->Expose(entry.buffers);
  exposure.Take(entry.windows);  // also those of an item that failed: they must be closed
  entry.windows_of = exposure.session();
  owner_.windows_out_ += entry.windows.size();
  return status;
}

// Omits items that were reported meanwhile: their owner has their memory again.
absl::StatusOr<size_t> BatchCall::Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                         std::span<std::byte> out, bool checksums) {
  args.requests.clear();
  for (const Batches::EntryRef& entry : entries_) {
    if (entry->state != Batches::State::kSending) continue;
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
