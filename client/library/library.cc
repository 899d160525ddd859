#include "client/library/library.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/status/lease_keeper.h"
#include "runtime/run.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "wire/dat/address.h"

namespace dafs::client {

namespace {

std::vector<std::string> ComponentsOf(std::string_view path) {
  return absl::StrSplit(Text(path), '/', absl::SkipEmpty());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> Library::Open(LibraryOptions options) {
  ClientOptions& client = options.client;
  std::string host;
  uint16_t port = dat::kDefaultPort;
  RETURN_IF_ERROR(dat::SplitHostPort(options.server, &host, &port));
  ASSIGN_OR_RETURN(client.addresses, dat::ResolveHost(host, port));
  client.providers = std::move(options.providers);
  client.server_name = absl::StrCat(options.server, ":", options.export_path);
  client.export_path = ComponentsOf(options.export_path);
  if (client.client_id_string.empty()) {
    std::random_device random;
    client.client_id_string =
        absl::StrCat("libdafs ", getpid(), " ", uint64_t{random()} << 32 | random());
  }
  auto library = absl::WrapUnique(new Library());
  ASSIGN_OR_RETURN(library->client_, Client::Create(std::move(client)));
  if (options.keep_leases) {
    LeaseKeeperOptions keeping;
    keeping.socket_directory.clear();
    ASSIGN_OR_RETURN(library->lease_keeper_, LeaseKeeper::Start(*library->client_, keeping));
  }
  return library;
}

Library::~Library() = default;

std::string Library::NewOwner() {
  return absl::StrCat("libdafs ", owners_.fetch_add(1, std::memory_order_relaxed));
}

ExportSession::ExportSession(Library& library, Loop& loop, Identity who)
    : library_(library), loop_(loop), who_(std::move(who)), group_(loop) {}

absl::StatusOr<std::unique_ptr<ExportSession>> ExportSession::Open(Library& library, Loop& loop,
                                                                   Identity who,
                                                                   uint32_t most_out) {
  auto session = absl::WrapUnique(new ExportSession(library, loop, std::move(who)));
  RETURN_IF_ERROR(session->Connect(most_out));
  return session;
}

absl::Status ExportSession::Connect(uint32_t most_out) {
  ASSIGN_OR_RETURN(files_, Files::Create(library_.client(), loop_));
  io_ = std::make_unique<AsyncIo>(*files_, who_, most_out);
  batches_ = std::make_unique<BatchIo>(*files_, who_);
  RETURN_IF_ERROR(RunUntilDone(loop_, files_->Connect()));
  ASSIGN_OR_RETURN(root_, RunUntilDone(loop_, files_->Mount(who_)));
  return absl::OkStatus();
}

ExportSession::~ExportSession() {
  if (files_ == nullptr) return;
  RunUntilDone(loop_, files_->Disconnect());
  batches_.reset();
  io_.reset();
}

absl::StatusOr<MemoryHandle> ExportSession::Register(std::span<std::byte> memory,
                                                     MemoryAccess access) {
  return files_->buffers().user_memory().Register(memory, access);
}

absl::Status ExportSession::Deregister(MemoryHandle handle) {
  return files_->buffers().user_memory().Deregister(handle);
}

// Returns the parent directory of `path`; stores the last component in `name`.
absl::StatusOr<wire::FileHandle> ExportSession::Walk(std::string_view path, std::string* name) {
  const std::vector<std::string> names = ComponentsOf(path);
  if (names.empty()) return absl::InvalidArgumentError("an empty path");
  wire::FileHandle directory = root_.handle;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    ASSIGN_OR_RETURN(Node node,
                     RunUntilDone(loop_, files_->names().Lookup(who_, directory, names[i])));
    directory = node.handle;
  }
  *name = names.back();
  return directory;
}

absl::StatusOr<wire::FileHandle> ExportSession::Find(std::string_view path) {
  if (ComponentsOf(path).empty()) return root_.handle;
  std::string name;
  ASSIGN_OR_RETURN(const wire::FileHandle directory, Walk(path, &name));
  ASSIGN_OR_RETURN(const Node node,
                   RunUntilDone(loop_, files_->names().Lookup(who_, directory, name)));
  return node.handle;
}

absl::StatusOr<std::vector<std::string>> ExportSession::GetFence(std::string_view path) {
  ASSIGN_OR_RETURN(const wire::FileHandle handle, Find(path));
  return RunUntilDone(loop_, files_->fencing().GetFence(who_, handle));
}

absl::Status ExportSession::SetFence(std::string_view path, const FenceChange& change) {
  ASSIGN_OR_RETURN(const wire::FileHandle handle, Find(path));
  return RunUntilDone(loop_, files_->fencing().SetFence(who_, handle, change));
}

absl::StatusOr<std::unique_ptr<IoFile>> ExportSession::OpenFile(std::string_view path,
                                                                const FileOptions& options) {
  OpenRequest request;
  ASSIGN_OR_RETURN(request.directory, Walk(path, &request.name));
  request.share_access = options.write ? wire::kShareBoth : wire::kShareRead;
  request.owner = library_.NewOwner();
  request.create = options.create;
  request.truncate = options.truncate;
  if (options.create) {
    request.attributes.mode = options.mode;
    request.attributes.set(wire::kFattrMode);
  }
  ASSIGN_OR_RETURN(client::OpenFile open, RunUntilDone(loop_, files_->opens().Open(who_, request)));
  auto file = std::make_unique<IoFile>();
  file->name = path;
  file->handle = open.handle;
  file->state_id = open.state_id;
  return file;
}

absl::Status ExportSession::CloseFile(IoFile& file) {
  if (file.out > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("close ", file.name, ": ", file.out, " reads and writes are outstanding"));
  }
  return RunUntilDone(loop_, files_->opens().Close(file.state_id));
}

absl::StatusOr<wire::FileAttributes> ExportSession::Stat(const IoFile& file) {
  return RunUntilDone(loop_, files_->attributes().GetAttributes(who_, file.handle));
}

absl::Status ExportSession::Commit(const IoFile& file) {
  const absl::Status committed =
      RunUntilDone(loop_, files_->commits().Commit(who_, file.handle, 0, 0)).status();
  const absl::Status lost = files_->commits().TakeFailure(file.handle);
  return lost.ok() ? committed : lost;
}

absl::Status ExportSession::CacheHint(const IoFile& file, uint64_t offset, uint32_t count,
                                      wire::AccessPattern pattern, uint32_t cache_hint) {
  return RunUntilDone(
      loop_, files_->data().CacheHint(who_, file.handle, offset, count, pattern, cache_hint));
}

absl::StatusOr<uint64_t> ExportSession::Finish(absl::StatusOr<IoId> id) {
  if (!id.ok()) return id.status();
  ASSIGN_OR_RETURN(IoCompletion end, io_->Wait(*id));
  if (!end.status.ok()) return end.status;
  return end.count;
}

absl::StatusOr<uint64_t> ExportSession::Read(IoFile& file, const MemorySegment& into,
                                             uint64_t offset) {
  const FileRange range{offset, into.size};
  return Finish(io_->Read(file, {&into, 1}, {&range, 1}, group_));
}

absl::StatusOr<uint64_t> ExportSession::Write(IoFile& file, const MemorySegment& from,
                                              uint64_t offset) {
  const FileRange range{offset, from.size};
  return Finish(io_->Write(file, {&from, 1}, {&range, 1}, group_));
}

}  // namespace dafs::client
