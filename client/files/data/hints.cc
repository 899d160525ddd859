// The caller's hints about coming I/O. Spec: 4.2.4, 6.1.8, 6.5.6.
#include "client/exchange/call.h"
#include "client/files/data/data.h"
#include "client/recovery/calls/operation.h"

namespace dafs::client {

Task<absl::Status> DataOperations::CacheHint(const Identity& user, const wire::FileHandle& file,
                                             uint64_t offset, uint32_t count,
                                             wire::AccessPattern pattern, uint32_t cache_hint) {
  Call<wire::CacheHintArgs> hint;
  hint.args.filehandle = file;
  hint.args.offset = offset;
  hint.args.count = count;
  hint.args.access_pattern = pattern;
  hint.args.cache_hint = cache_hint;
  CallBase* const chain[] = {&hint};
  Task<absl::Status> task = RunAll(&user, chain, "cache hint");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
