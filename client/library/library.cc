#include "client/library/library.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/library/call_name.h"
#include "client/status/lease_keeper.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"

namespace dafs::client {

absl::StatusOr<std::unique_ptr<Library>> Library::Open(LibraryOptions options) {
  ClientOptions& client = options.client;
  std::string host;
  uint16_t port = dat::kDefaultPort;
  RETURN_IF_ERROR(dat::SplitHostPort(options.server, &host, &port));
  ASSIGN_OR_RETURN(client.addresses, dat::ResolveHost(host, port));
  client.providers = std::move(options.providers);
  client.server_name = absl::StrCat(options.server, ":", options.export_path);
  client.export_path = NamesOfPath(options.export_path);
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

ExportSession::ExportSession(Library& library, Loop& loop, Identity user)
    : library_(library), loop_(loop), user_(std::move(user)), group_(loop) {}

absl::StatusOr<std::unique_ptr<ExportSession>> ExportSession::Open(Library& library, Loop& loop,
                                                                   Identity user,
                                                                   uint32_t most_out) {
  auto session = absl::WrapUnique(new ExportSession(library, loop, std::move(user)));
  RETURN_IF_ERROR(session->Connect(most_out));
  return session;
}

absl::Status ExportSession::Connect(uint32_t most_out) {
  ASSIGN_OR_RETURN(files_, Files::Create(library_.client(), loop_));
  io_ = std::make_unique<AsyncIo>(*files_, user_, most_out);
  batches_ = std::make_unique<BatchIo>(*files_, user_);
  paths_ = std::make_unique<PathCalls>(*files_, user_, root_);
  locks_ = std::make_unique<LockCalls>(*files_, user_);
  RETURN_IF_ERROR(NameCall(*files_, "connect", "", RunUntilDone(loop_, files_->Connect())));
  ASSIGN_OR_RETURN(
      root_, NameCall(*files_, "open the export", "", RunUntilDone(loop_, files_->Mount(user_))));
  if (library_.client().options().reference_directory_bytes > 0) {
    references_ = std::make_unique<ReferenceReads>(*files_, user_, root_);
    io_->ReadByReference(references_.get());
  }
  return absl::OkStatus();
}

ExportSession::~ExportSession() {
  if (files_ == nullptr) return;
  RunUntilDone(loop_, files_->Disconnect());
  batches_.reset();
  io_.reset();
  references_.reset();
}

absl::StatusOr<MemoryHandle> ExportSession::Register(std::span<std::byte> memory,
                                                     MemoryAccess access) {
  return files_->buffers().user_memory().Register(memory, access);
}

absl::Status ExportSession::Deregister(MemoryHandle handle) {
  return files_->buffers().user_memory().Deregister(handle);
}

absl::StatusOr<std::unique_ptr<IoFile>> ExportSession::OpenFile(std::string_view path,
                                                                const FileOptions& options) {
  return NameCall(*files_, "open", path, OpenPath(path, options));
}

absl::StatusOr<std::unique_ptr<IoFile>> ExportSession::OpenPath(std::string_view path,
                                                                const FileOptions& options) {
  OpenRequest request;
  ASSIGN_OR_RETURN(request.directory, paths_->Walk(path, &request.name));
  request.share_access = options.write ? wire::kShareBoth : wire::kShareRead;
  request.share_deny = options.share_deny;
  request.share_key = options.share_key;
  request.deny_delete = options.deny_delete;
  request.owner = library_.NewOwner();
  request.create = options.create;
  if (options.exclusive) request.create_mode = wire::CreateMode::kGuarded;
  request.truncate = options.truncate;
  if (options.create || options.unlinked) {
    request.attributes.mode = options.mode;
    request.attributes.set(wire::kFattrMode);
  }
  if (options.unlinked) {
    ASSIGN_OR_RETURN(
        const Node directory,
        RunUntilDone(loop_, files_->names().Lookup(user_, request.directory, request.name)));
    request.directory = directory.handle;
  }
  ASSIGN_OR_RETURN(
      client::OpenFile open,
      RunUntilDone(loop_, options.unlinked ? files_->opens().OpenUnlinked(user_, request)
                                           : files_->opens().Open(user_, request)));
  auto file = std::make_unique<IoFile>();
  file->name = path;
  file->handle = open.handle;
  file->state_id = open.state_id;
  if (options.pattern != wire::AccessPattern::kNormal) {
    // Advice only: a server without CACHE_HINT is not an error.
    CacheHint(*file, 0, 0, options.pattern, 0).IgnoreError();
  }
  return file;
}

absl::Status ExportSession::CloseFile(IoFile& file) {
  if (file.outstanding > 0) {
    return NameCall(*files_, "close", file.name,
                    absl::FailedPreconditionError(
                        absl::StrCat(file.outstanding, " reads and writes are outstanding")));
  }
  return NameCall(*files_, "close", file.name,
                  RunUntilDone(loop_, files_->opens().Close(file.state_id)));
}

absl::StatusOr<wire::FileAttributes> ExportSession::Stat(const IoFile& file) {
  return NameCall(*files_, "stat", file.name,
                  absl::StatusOr<wire::FileAttributes>(
                      RunUntilDone(loop_, files_->attributes().GetAttributes(user_, file.handle))));
}

absl::Status ExportSession::Truncate(const IoFile& file, uint64_t size) {
  wire::FileAttributes attributes;
  attributes.object_size = size;
  attributes.set(wire::kFattrObjectSize);
  return NameCall(*files_, "truncate", file.name,
                  RunUntilDone(loop_, files_->attributes().SetAttributes(user_, file.handle,
                                                                         file.state_id, attributes))
                      .status());
}

absl::Status ExportSession::Commit(const IoFile& file) {
  const absl::Status committed =
      RunUntilDone(loop_, files_->commits().Commit(user_, file.handle, 0, 0)).status();
  const absl::Status lost = files_->commits().TakeFailure(file.handle);
  return NameCall(*files_, "commit", file.name, lost.ok() ? committed : lost);
}

absl::Status ExportSession::CacheHint(const IoFile& file, uint64_t offset, uint32_t count,
                                      wire::AccessPattern pattern, uint32_t cache_hint) {
  return NameCall(*files_, "cache hint for", file.name,
                  RunUntilDone(loop_, files_->data().CacheHint(user_, file.handle, offset, count,
                                                               pattern, cache_hint)));
}

absl::StatusOr<uint64_t> ExportSession::Append(const IoFile& file,
                                               std::span<const std::byte> data) {
  return NameCall(*files_, "append to", file.name, AppendAll(file, data));
}

absl::StatusOr<uint64_t> ExportSession::AppendAll(const IoFile& file,
                                                  std::span<const std::byte> data) {
  if (data.empty()) return absl::InvalidArgumentError("no bytes");
  if (data.size() > files_->transfers().append_bytes()) {
    return wire::StatusFromDafs(wire::DafsStatus::kWriteTooBig,
                                absl::StrCat(data.size(), " bytes, but at most ",
                                             files_->transfers().append_bytes(), " at once"));
  }
  const auto size = static_cast<uint32_t>(data.size());
  BufferLease lease = files_->buffers().TryAcquire(BufferUse::kWriteSource, size);
  if (!lease) {
    return absl::ResourceExhaustedError("no free buffer: too many writes are outstanding");
  }
  std::memcpy(lease.payload(), data.data(), data.size());
  ASSIGN_OR_RETURN(
      const AppendResult result,
      RunUntilDone(loop_, files_->data().Append(user_, file.handle, file.state_id, lease, 0, size,
                                                wire::StableHow::kUnstable)));
  return result.offset;
}

absl::StatusOr<uint32_t> ExportSession::FetchReferences(IoFile& file, uint64_t offset,
                                                        uint64_t count) {
  if (references_ == nullptr) return absl::UnavailableError("references: not wanted");
  if (file.referenced_as == 0) file.referenced_as = references_->NewFile();
  const uint64_t blocks = (count + wire::kExportedBlock - 1) / wire::kExportedBlock;
  return NameCall(
      *files_, "fetch references to", file.name,
      RunUntilDone(loop_, references_->Fetch(
                              {file.referenced_as, file.handle, file.state_id}, offset,
                              static_cast<uint32_t>(std::min<uint64_t>(blocks, UINT32_MAX)))));
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
