// GET_REFS and EXPORT_CACHE, private (R15): reads by reference.
// Spec: wire/messages/references.h; FAST03 companion (Optimistic DAFS).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "server/procedures/handler.h"
#include "server/session/exported_regions.h"
#include "server/store/holdings/exported_cache.h"
#include "wire/codec/exported_block.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// The regions of the session's reference channel. Null also on another thread than the session's:
// an export that may hang has no cache.
ExportedRegions* RegionsOf(Call& call) {
  if (call.may_hang() || !call.session().terms().Has(wire::kExtensionReferences)) return nullptr;
  return call.session().channels().exports();
}

std::optional<size_t> ExportOf(Call& call, const wire::FileHandle& filehandle) {
  return call.session().store().ExportOf(KeyOf(filehandle).fshandle());
}

// How many references fit into the response.
uint32_t MostIn(size_t response_bytes) {
  constexpr size_t kFixed = wire::kHeaderSize + 16;  // the offset of the array, and its count
  if (response_bytes < kFixed) return 0;
  return static_cast<uint32_t>((response_bytes - kFixed) / wire::BlockReference::kWireSize);
}

DafsStatus GetRefs(Call& call, const wire::GetRefsArgs& args, wire::GetRefsRes* res) {
  const ExportedRegions* const regions = RegionsOf(call);
  const std::optional<size_t> index = ExportOf(call, args.filehandle);
  if (regions == nullptr || !index.has_value() || regions->Find(*index) == nullptr) {
    return DafsStatus::kIllegalState;
  }
  return call.session().store().data().GetReferences(call.caller(), args, *index,
                                                     MostIn(call.out().size()), &res->references);
}

DafsStatus ExportCache(Call& call, const wire::ExportCacheArgs& args, wire::ExportCacheRes* res) {
  Session& session = call.session();
  if (!session.terms().Has(wire::kExtensionReferences) || call.may_hang()) {
    return DafsStatus::kNotSupp;
  }
  ExportedRegions* const regions = RegionsOf(call);
  if (regions == nullptr) return DafsStatus::kIllegalState;
  // Checks the handle, and that the export admits the client.
  Squashes squashes = Squashes::kNobody;
  const DafsStatus status =
      session.store().names().WhoIsSquashed(call.caller(), args.filehandle, &squashes);
  if (status != DafsStatus::kOk) return status;
  const std::optional<size_t> index = ExportOf(call, args.filehandle);
  if (!index.has_value()) return DafsStatus::kNotSupp;  // above the exports
  const std::span<std::byte> slab = session.store().exported().SlabOf(*index);
  if (slab.empty()) return DafsStatus::kNotSupp;
  const absl::StatusOr<const dat::Region*> region = regions->Add(*index, slab);
  if (!region.ok()) {
    LogWarning(absl::StrCat("exported cache for ", session.connection().peer_name(), ": ",
                            region.status().message(), "; the client reads by requests"));
    return DafsStatus::kNotSupp;
  }
  res->context = (*region)->context();
  res->block_bytes = wire::kExportedBlock;
  res->address = (*region)->target_address();
  res->size_bytes = slab.size();
  return DafsStatus::kOk;
}

}  // namespace

constexpr Procedure kGetRefsHandler = kAtOnce<GetRefs>;
constexpr Procedure kExportCacheHandler = kAtOnce<ExportCache>;

}  // namespace dafs::server
