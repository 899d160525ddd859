// The file system of a mount: its root and its limits. Spec: 6.5.12, 6.5.15.
#include <utility>

#include "client/files/files.h"
#include "client/files/shared/worker_parts.h"
#include "client/recovery/calls/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr uint64_t kLimitAttributes = wire::kFsattrMaxRead | wire::kFsattrMaxWrite |
                                      wire::kFsattrMaxAppend | wire::kFsattrLeaseTime |
                                      wire::kFsattrFailoverLocations;

void Learn(const wire::FsAttributes& fs, Limits& limits) {
  if (fs.has(wire::kFsattrMaxRead)) limits.max_read = fs.max_read;
  if (fs.has(wire::kFsattrMaxWrite)) limits.max_write = fs.max_write;
  if (fs.has(wire::kFsattrMaxAppend)) limits.max_append = fs.max_append;
  if (fs.has(wire::kFsattrLeaseTime)) limits.lease_seconds = fs.lease_time;
}

}  // namespace

Task<absl::StatusOr<Node>> Files::Mount(const Identity& user) {
  Call<wire::GetRootHandleArgs> root;
  Call<wire::LookupArgs> lookup;
  StatCall stat;
  Call<wire::GetFsattrArgs> fs;
  lookup.chf_fh = fs.chf_fh = true;
  lookup.args.path = client_.options().export_path;
  fs.args.attr_request_bitmap = kLimitAttributes;
  CallBase* const chain[] = {&root, &lookup, &stat, &fs};
  CallBase* const at_root[] = {&root, &stat, &fs};
  const bool deep = !lookup.args.path.empty();
  Task<absl::Status> task = parts_->executor.RunAll(
      &user, deep ? std::span<CallBase* const>(chain) : std::span<CallBase* const>(at_root),
      "mount", 1);
  CO_RETURN_IF_ERROR(co_await task);
  if (fs.ok()) Learn(fs.res.obj_attributes, client_.limits());  // else the server has no limits
  Node node;
  node.handle = deep ? lookup.res.filehandle : root.res.root_handle;
  node.attributes = stat.Take();
  client_.root().Found(node.handle);
  if (fs.ok()) client_.failover().Fetched(node.handle, fs.res.obj_attributes.failover_locations);
  Task<void> asking = AskWhetherSquashed(user, node.handle);
  co_await asking;
  co_return node;
}

// Does not ask a server without extensions. If the server refuses, assumes that it squashes no
// user.
Task<void> Files::AskWhetherSquashed(const Identity& user, const wire::FileHandle& root) {
  Limits& limits = client_.limits();
  if (limits.extensions.load(std::memory_order_relaxed) == 0) co_return;
  Call<wire::ExtensionsArgs> ask;
  ask.args.filehandle = root;
  ask.args.wanted = wire::kExtensionSquashed | wire::kExtensionSquashedInPart;
  CallBase* const chain[] = {&ask};
  Task<absl::Status> task = parts_->executor.Run(&user, chain);
  const absl::Status status = co_await task;
  if (!status.ok() || !ask.ok()) co_return;
  limits.squashed.store((ask.res.granted & wire::kExtensionSquashed) != 0,
                        std::memory_order_relaxed);
  limits.squashed_in_part.store((ask.res.granted & wire::kExtensionSquashedInPart) != 0,
                                std::memory_order_relaxed);
}

}  // namespace dafs::client
