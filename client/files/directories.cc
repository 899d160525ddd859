#include "client/files/directories.h"

#include <algorithm>

#include "client/recovery/data_calls.h"
#include "client/recovery/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {

dat::Task<absl::StatusOr<DirectoryPage>> DirectoryOperations::ReadDirectory(
    const Identity& who, const wire::FileHandle& directory, uint64_t cookie,
    const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into,
    wire::FileAttributes* after) {
  LeasePart part{&buffers_, &into, 0, std::min(max_bytes, into.payload_bytes())};
  std::atomic<bool>& not_direct = client_.limits().no_direct_readdir;
  if (not_direct.load(std::memory_order_relaxed)) {
    dat::Task<absl::StatusOr<DirectoryPage>> task =
        ReadDirectoryInline(who, directory, cookie, cookieverf, part.size, attributes, into);
    absl::StatusOr<DirectoryPage> page = co_await task;
    co_return page;
  }
  ReaddirDirectCall call(part);
  call.args.filehandle = directory;
  call.args.cookie = cookie;
  call.args.cookieverf = cookieverf;
  call.args.maxcount = part.size;
  call.args.attr_request_bitmap = attributes;
  AfterCall self(directory, after);
  CallBase* const chain[] = {&call, &self};
  dat::Task<absl::Status> task = Run(&who, self.In(chain));
  CO_RETURN_IF_ERROR(co_await task);
  if (call.status == wire::DafsStatus::kNotSupp) {
    not_direct.store(true, std::memory_order_relaxed);
    dat::Task<absl::StatusOr<DirectoryPage>> inline_task =
        ReadDirectoryInline(who, directory, cookie, cookieverf, part.size, attributes, into);
    absl::StatusOr<DirectoryPage> page = co_await inline_task;
    co_return page;
  }
  if (!call.ok()) co_return StatusOf(call, "read directory");
  self.Put();
  DirectoryPage page;
  page.cookieverf = call.res.cookieverf;
  page.eof = call.res.eof;
  const wire::ByteOrder order = client_.options().byte_order;
  CO_RETURN_IF_ERROR(page.entries.OpenDirect(part.bytes(), order));
  if (client_.options().checksums) {
    // The transferred length is known only after all entries were decoded (WIRE 10.2).
    wire::DirentReader all = page.entries;
    wire::DirentView entry;
    while (all.Next(entry)) continue;
    CO_RETURN_IF_ERROR(all.status());
    if (wire::ComputeChecksum(part.bytes().first(all.extent()), order) !=
        call.res.direct_checksum) {
      co_return absl::DataLossError("read directory: data with a wrong checksum");
    }
  }
  co_return page;
}

dat::Task<absl::StatusOr<DirectoryPage>> DirectoryOperations::ReadDirectoryInline(
    const Identity& who, const wire::FileHandle& directory, uint64_t cookie,
    const wire::Verifier& cookieverf, uint32_t max_bytes, uint64_t attributes, BufferLease& into) {
  LeasePart part{&buffers_, &into, 0, into.payload_bytes()};
  ReaddirInlineCall call(part);
  call.args.filehandle = directory;
  call.args.cookie = cookie;
  call.args.cookieverf = cookieverf;
  call.args.maxcount = max_bytes;
  call.args.attr_request_bitmap = attributes;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(&who, chain, "read directory");
  CO_RETURN_IF_ERROR(co_await task);
  DirectoryPage page;
  page.cookieverf = call.res.cookieverf;
  page.eof = call.res.eof;
  page.entries = call.entries;
  co_return page;
}

}  // namespace dafs::client
