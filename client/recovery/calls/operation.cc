#include "client/recovery/calls/operation.h"

#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"

namespace dafs::client {

absl::Status StatusOf(const CallBase& call, std::string_view what) {
  absl::Status status = wire::StatusFromDafs(call.status, what);
  if (call.status != wire::DafsStatus::kNotSupp) return status;
  absl::Status unimplemented(absl::StatusCode::kUnimplemented, status.message());
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    unimplemented.SetPayload(url, payload);
  });
  return unimplemented;
}

wire::LockuArgs UnlockArgs(const wire::FileHandle& file, const wire::StateId& state_id,
                           uint64_t first, uint64_t last) {
  wire::LockuArgs args;
  args.filehandle = file;
  args.state_id = state_id;
  args.offset = first;
  args.length = wire::LengthOf({first, last, false});
  return args;
}

}  // namespace dafs::client
