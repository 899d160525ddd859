#include "client/files/names/directories.h"

#include <algorithm>

#include "client/files/shared/either_call.h"
#include "client/files/shared/transfer_policy.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {

Task<absl::StatusOr<DirectoryPage>> DirectoryOperations::ReadDirectory(
    const Identity& user, const wire::FileHandle& directory, uint64_t cookie,
    const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into,
    Attributes* after) {
  const uint32_t room = into.payload_bytes();
  const uint32_t most = std::min(max_bytes, room);
  for (;;) {
    const Way way = transfers_.WayToList();
    // An inline reply is copied whole, with its header.
    const LeasePart part{&buffers_, &into, 0, way == Way::kInline ? room : most};
    EitherCall<ReaddirInlineCall, ReaddirDirectCall> list(way, part);
    list.Visit([&](auto& call) {
      call.args.filehandle = directory;
      call.args.cookie = cookie;
      call.args.cookieverf = cookieverf;
      call.args.maxcount = most;
      call.args.attr_request_bitmap = attributes;
    });
    AfterCall self(directory, way == Way::kDirect ? after : nullptr);
    CallBase* const chain[] = {&list.base(), &self};
    Task<absl::Status> task = Run(&user, self.In(chain));
    CO_RETURN_IF_ERROR(co_await task);
    if (transfers_.LearnFromList(way, list.base())) continue;
    if (!list.base().ok()) co_return StatusOf(list.base(), "read directory");
    self.Put();
    DirectoryPage page = list.Visit([](const auto& call) {
      return DirectoryPage{call.res.cookieverf, call.res.eof, {}};
    });
    page.names = PromiseOf(list.base(), wire::kSpcondNames);
    page.attributes = PromiseOf(list.base(), wire::kSpcondAttributes);
    if (const ReaddirInlineCall* call = list.in_message()) {
      page.entries = call->entries;
    } else {
      CO_RETURN_IF_ERROR(OpenEntries(*list.direct(), part, page.entries));
    }
    co_return page;
  }
}

Task<absl::StatusOr<bool>> DirectoryOperations::NumberOwners(
    std::span<wire::FileAttributes* const> attributes) {
  return executor_.owner_lookups().ToNumbers(attributes);
}

// Opens the entries that the server has written into `part`.
absl::Status DirectoryOperations::OpenEntries(const Call<wire::ReaddirDirectArgs>& call,
                                              const LeasePart& part,
                                              wire::DirentReader& entries) const {
  const ClientOptions& options = client_.options();
  RETURN_IF_ERROR(entries.OpenDirect(part.bytes(), options.byte_order));
  if (!options.checksums) return absl::OkStatus();
  // The transferred length is known only after all entries were decoded (WIRE 10.2).
  wire::DirentReader all = entries;
  wire::DirentView entry;
  while (all.Next(entry)) continue;
  RETURN_IF_ERROR(all.status());
  if (wire::ComputeChecksum(part.bytes().first(all.extent()), options.byte_order) !=
      call.res.direct_checksum) {
    return absl::DataLossError("read directory: data with a wrong checksum");
  }
  return absl::OkStatus();
}

}  // namespace dafs::client
