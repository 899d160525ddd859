#include "client/files/names/names.h"

#include <string>
#include <utility>

#include "client/files/opens/delegating.h"
#include "client/files/opens/opening.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "client/session/session_keeper.h"
#include "runtime/status_macros.h"

namespace dafs::client {

Task<absl::StatusOr<Node>> NameOperations::Lookup(const Identity& user,
                                                  const wire::FileHandle& directory,
                                                  std::string_view name, Promise* absent) {
  Call<wire::LookupArgs> lookup;
  StatCall stat;
  lookup.args.directory = directory;
  lookup.args.path.emplace_back(name);
  CallBase* const chain[] = {&lookup, &stat};
  Task<absl::Status> task = RunAll(&user, chain, "lookup");
  absl::Status status = co_await task;
  if (absent != nullptr && lookup.answered && lookup.status == wire::DafsStatus::kNoEnt) {
    *absent = PromiseOf(lookup, wire::kSpcondNames);
  }
  CO_RETURN_IF_ERROR(status);
  client_.failover().Saw(lookup.res.filehandle);
  Node node;
  node.handle = lookup.res.filehandle;
  node.attributes = stat.Take();
  node.names = PromiseOf(lookup, wire::kSpcondNames);
  co_return node;
}

Task<absl::StatusOr<Node>> NameOperations::MakeDirectory(const Identity& user,
                                                         const wire::FileHandle& directory,
                                                         std::string_view name,
                                                         const wire::FileAttributes& attributes,
                                                         Attributes* after) {
  Call<wire::CreateArgs> create;
  StatCall stat;
  AfterCall parent(directory, after);
  create.args.filehandle = directory;
  create.args.component = name;
  create.args.obj_type = wire::ObjectType::kDir;
  create.args.attr = attributes;
  CallBase* const chain[] = {&create, &stat, &parent};
  Task<absl::Status> task = RunAll(&user, parent.In(chain), "make directory", parent.count());
  CO_RETURN_IF_ERROR(co_await task);
  parent.Put();
  Node node;
  node.handle = create.res.filehandle;
  node.attributes = stat.Take();
  node.names = PromiseOf(create, wire::kSpcondNames);
  co_return node;
}

Task<absl::StatusOr<Node>> NameOperations::MakeSymlink(const Identity& user,
                                                       const wire::FileHandle& directory,
                                                       std::string_view name,
                                                       std::string_view target, Attributes* after) {
  Call<wire::CreateArgs> create;
  StatCall stat;
  AfterCall parent(directory, after);
  create.args.filehandle = directory;
  create.args.component = name;
  create.args.obj_type = wire::ObjectType::kLnk;
  create.args.linkdata = target;
  CallBase* const chain[] = {&create, &stat, &parent};
  Task<absl::Status> task = RunAll(&user, parent.In(chain), "make symbolic link", parent.count());
  absl::Status status = co_await task;
  if (!create.sent && wire::HasDafsStatus(status) &&
      wire::DafsFromStatus(status) == wire::DafsStatus::kTooSmall) {
    co_return wire::StatusFromDafs(wire::DafsStatus::kNameTooLong,
                                   "make symbolic link: the target does not fit into a message");
  }
  CO_RETURN_IF_ERROR(status);
  parent.Put();
  Node node;
  node.handle = create.res.filehandle;
  node.attributes = stat.Take();
  node.names = PromiseOf(create, wire::kSpcondNames);
  co_return node;
}

Task<absl::StatusOr<Node>> NameOperations::MakeNode(const Identity& user,
                                                    const wire::FileHandle& directory,
                                                    std::string_view name, wire::ObjectType type,
                                                    const wire::SpecData& device, uint32_t mode,
                                                    Attributes* after) {
  std::atomic<bool>& unknown = client_.limits().no_make_node;
  if (!unknown.load(std::memory_order_relaxed)) {
    Call<wire::MakeNodeArgs> make;
    StatCall stat;
    AfterCall parent(directory, after);
    make.args.filehandle = directory;
    make.args.component = name;
    make.args.obj_type = type;
    make.args.specdata = device;
    make.args.mode = mode;
    CallBase* const chain[] = {&make, &stat, &parent};
    Task<absl::Status> task = RunAll(&user, parent.In(chain), "make node", parent.count());
    absl::Status status = co_await task;
    if (status.ok()) {
      parent.Put();
      Node node;
      node.handle = make.res.filehandle;
      node.attributes = stat.Take();
      node.names = PromiseOf(make, wire::kSpcondNames);
      co_return node;
    }
    if (!make.answered || make.status != wire::DafsStatus::kNotSupp) co_return status;
    unknown.store(true, std::memory_order_relaxed);
  }
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrMode);
  attributes.mode = mode;
  const bool regular = type == wire::ObjectType::kReg;
  Task<absl::StatusOr<Node>> making =
      regular ? MakeEmptyFile(user, directory, name, attributes, after)
              : CreateNode(user, directory, name, type, device, attributes, after);
  absl::StatusOr<Node> node = co_await making;
  co_return node;
}

Task<absl::StatusOr<Node>> NameOperations::MakeEmptyFile(const Identity& user,
                                                         const wire::FileHandle& directory,
                                                         std::string_view name,
                                                         const wire::FileAttributes& attributes,
                                                         Attributes* after) {
  OpenRequest request;
  request.directory = directory;
  request.name = name;
  request.share_access = wire::kShareWrite;
  request.owner = "mknod";
  request.create = true;
  request.create_mode = wire::CreateMode::kGuarded;
  request.attributes = attributes;
  Task<absl::StatusOr<OpenFile>> opening = opens_.Open(user, request, after);
  absl::StatusOr<OpenFile> open = co_await opening;
  if (!open.ok()) co_return open.status();
  Task<absl::Status> closing = opens_.Close(open->state_id);
  CO_RETURN_IF_ERROR(co_await closing);
  Node node;
  node.handle = open->handle;
  node.attributes = std::move(open->attributes);
  node.names = open->names;
  co_return node;
}

// CREATE takes attributes for directories only (6.5.9). For other types a SETATTR follows in the
// same chain.
Task<absl::StatusOr<Node>> NameOperations::CreateNode(const Identity& user,
                                                      const wire::FileHandle& directory,
                                                      std::string_view name, wire::ObjectType type,
                                                      const wire::SpecData& device,
                                                      const wire::FileAttributes& attributes,
                                                      Attributes* after) {
  Call<wire::CreateArgs> create;
  Call<wire::SetattrInlineArgs> set;
  StatCall stat;
  AfterCall parent(directory, after);
  create.args.filehandle = directory;
  create.args.component = name;
  create.args.obj_type = type;
  create.args.specdata = device;
  set.args.obj_attributes = attributes;
  set.chf_fh = true;
  CallBase* const chain[] = {&create, &set, &stat, &parent};
  Task<absl::Status> task = RunAll(&user, parent.In(chain), "make node", parent.count());
  absl::Status status = co_await task;
  if (!status.ok()) {
    // Created, but with the wrong attributes: remove it.
    if (create.ok()) {
      Task<absl::Status> undo = Remove(user, directory, name);
      absl::Status ignored = co_await undo;
    }
    co_return status;
  }
  parent.Put();
  Node node;
  node.handle = create.res.filehandle;
  node.attributes = stat.Take();
  node.names = PromiseOf(create, wire::kSpcondNames);
  co_return node;
}

Task<absl::StatusOr<Node>> NameOperations::Link(const Identity& user, const wire::FileHandle& file,
                                                const wire::FileHandle& directory,
                                                std::string_view name, Attributes* after) {
  Call<wire::LinkArgs> link;
  StatCall stat(false);  // LINK leaves the directory current
  AfterCall parent(directory, after);
  link.args.source_object = file;
  link.args.destination_object = directory;
  link.args.newname = name;
  stat.args.filehandle = file;
  CallBase* const chain[] = {&link, &stat, &parent};
  Task<absl::Status> task = RunAll(&user, parent.In(chain), "link", parent.count());
  CO_RETURN_IF_ERROR(co_await task);
  parent.Put();
  Node node;
  node.handle = file;
  node.attributes = stat.Take();
  node.names = PromiseOf(link, wire::kSpcondNames);
  co_return node;
}

DelegationPtr NameOperations::DelegationOf(const wire::FileHandle* target) {
  if (target == nullptr || !client_.options().delegations) return nullptr;
  return client_.delegations().TakeIdle(*target);
}

Task<absl::Status> NameOperations::Remove(const Identity& user, const wire::FileHandle& directory,
                                          std::string_view name, Attributes* after, Promise* names,
                                          const wire::FileHandle* target) {
  Call<wire::RemoveArgs> remove;
  AfterCall parent(directory, after);
  remove.args.filehandle = directory;
  remove.args.target = name;
  CallBase* const chain[] = {&remove, &parent};
  Task<absl::Status> task = delegating_.RunReturning(DelegationOf(target), &user, parent.In(chain),
                                                     "remove", parent.count());
  absl::Status status = co_await task;
  if (status.ok()) {
    parent.Put();
    if (names != nullptr) *names = PromiseOf(remove, wire::kSpcondNames);
  }
  co_return status;
}

Task<absl::Status> NameOperations::Rename(
    const Identity& user, const wire::FileHandle& from_directory, std::string_view from_name,
    const wire::FileHandle& to_directory, std::string_view to_name, Attributes* from_after,
    Attributes* to_after, Promise* names, const wire::FileHandle* target) {
  Call<wire::RenameArgs> rename;
  AfterCall from(from_directory, from_after);
  AfterCall to(to_directory, from_directory == to_directory ? nullptr : to_after);
  rename.args.sourcedir = from_directory;
  rename.args.targetdir = to_directory;
  rename.args.oldname = from_name;
  rename.args.newname = to_name;
  CallBase* chain[3] = {&rename};
  size_t members = 1;
  for (AfterCall* directory : {&from, &to}) {
    if (directory->count() != 0) chain[members++] = directory;
  }
  Task<absl::Status> task = delegating_.RunReturning(
      DelegationOf(target), &user, std::span(chain).first(members), "rename", members - 1);
  absl::Status status = co_await task;
  if (status.ok()) {
    from.Put();
    to.Put();
    if (names != nullptr) *names = PromiseOf(rename, wire::kSpcondNames);
  }
  co_return status;
}

Task<absl::Status> NameOperations::Rename2(const Identity& user,
                                           const wire::FileHandle& from_directory,
                                           std::string_view from_name,
                                           const wire::FileHandle& to_directory,
                                           std::string_view to_name, uint32_t flags,
                                           Promise* names) {
  Call<wire::Rename2Args> rename;
  rename.args.sourcedir = from_directory;
  rename.args.targetdir = to_directory;
  rename.args.oldname = from_name;
  rename.args.newname = to_name;
  rename.args.flags = flags;
  CallBase* const chain[] = {&rename};
  Task<absl::Status> task = RunAll(&user, chain, "rename");
  absl::Status status = co_await task;
  if (status.ok() && names != nullptr) *names = PromiseOf(rename, wire::kSpcondNames);
  co_return status;
}

Task<absl::StatusOr<std::string>> NameOperations::ReadLink(const Identity& user,
                                                           const wire::FileHandle& link) {
  Call<wire::ReadlinkInlineArgs> read;
  read.args.filehandle = link;
  CallBase* const chain[] = {&read};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (read.ok()) co_return std::move(read.res.link);
  if (read.status != wire::DafsStatus::kTooSmall) co_return StatusOf(read, "read link");
  // The target does not fit into a response of the negotiated size.
  Task<absl::StatusOr<std::string>> direct = ReadLinkDirect(user, link);
  absl::StatusOr<std::string> target = co_await direct;
  co_return target;
}

Task<absl::StatusOr<std::string>> NameOperations::ReadLinkDirect(const Identity& user,
                                                                 const wire::FileHandle& link) {
  const uint32_t bytes = std::min(4 + wire::kLinkDataBound.max_bytes, buffers_.large_bytes());
  absl::StatusOr<BufferLease> lease = co_await buffers_.Acquire(BufferUse::kReadTarget, bytes);
  if (!lease.ok()) co_return lease.status();
  LeasePart part{&buffers_, &*lease, 0, bytes};
  ReadlinkDirectCall read(part);
  read.args.filehandle = link;
  CallBase* const chain[] = {&read};
  Task<absl::Status> task = RunAll(&user, chain, "read link");
  CO_RETURN_IF_ERROR(co_await task);
  const wire::ByteOrder order = client_.options().byte_order;
  auto target = wire::DecodeDirectString(part.bytes(), order);
  if (!target.ok()) co_return target.status();
  if (client_.options().checksums && wire::ComputeChecksum(part.bytes().first(4 + target->size()),
                                                           order) != read.res.direct_checksum) {
    co_return absl::DataLossError("read link: data with a wrong checksum");
  }
  co_return std::string(*target);
}

}  // namespace dafs::client
