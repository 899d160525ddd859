#include "client/batch_call.h"

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

// What was reported meanwhile is not issued again: its memory is its owner's.
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
    item.data->Advertise(request.request_buffers);
    if (checksums && item.rw_flag == wire::RwFlag::kWrite) {
      request.direct_checksum =
          item.data->Checksum(static_cast<uint32_t>(item.data->size()), order);
    }
  }
  return Call::Encode(header, order, out, checksums);
}

}  // namespace dafs::client
