#include "server/session/own_pool.h"

#include <cstring>
#include <optional>
#include <span>

#include "server/session/shared/pool.h"
#include "server/store/access/exports/export_threads.h"
#include "server/store/store.h"
#include "wire/codec/codec.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

// Returns the FSHandle of the filehandle at `offset` of the request.
wire::FsHandle FsHandleAt(std::span<const std::byte> message, size_t offset) {
  wire::FsHandle fshandle;
  if (message.size() >= offset + fshandle.bytes.size()) {
    std::memcpy(fshandle.bytes.data(), message.data() + offset, fshandle.bytes.size());
  }
  return fshandle;
}

// A path that starts above the exports may lead into one that may hang.
Pool* OwnPoolOfPath(const Shared& shared, const Request& request) {
  const auto pool_of = [&](wire::FileHandle& directory, const wire::Pathname& path) -> Pool* {
    if ((request.header().chain_flags & wire::kChfFh) != 0) directory = *request.chain->filehandle;
    const std::optional<size_t> index =
        shared.store->export_threads().ExportThatMayHang(directory, path);
    return index ? &shared.export_pools->Of(*index) : nullptr;
  };
  const auto decodes = [&](auto& args) {
    return wire::DecodeArgs(request.message, request.verdict.order, args, request.verdict.names) ==
           DafsStatus::kOk;
  };
  if (request.header().procedure == Proc::kLookup) {
    wire::LookupArgs args;
    return decodes(args) ? pool_of(args.directory, args.path) : nullptr;
  }
  if (request.header().procedure == Proc::kOpen) {
    wire::OpenArgs args;
    return decodes(args) ? pool_of(args.claim_handle(), args.pathname) : nullptr;
  }
  return nullptr;
}

}  // namespace

Pool* OwnPool(const Shared& shared, const wire::FsHandle& fshandle) {
  const std::optional<size_t> index = shared.store->export_threads().ExportThatMayHang(fshandle);
  return index ? &shared.export_pools->Of(*index) : nullptr;
}

wire::FileHandle FileOf(const Request& request) {
  wire::FileHandle file;
  const wire::ProcInfo* info = request.verdict.proc;
  if (info == nullptr || !info->chf_fh) return file;
  if ((request.header().chain_flags & wire::kChfFh) != 0) {
    return request.chain != nullptr && request.chain->filehandle ? *request.chain->filehandle
                                                                 : file;
  }
  const size_t at = wire::kHeaderSize + wire::FileHandleOffset(info->filehandles);
  if (request.message.size() < at + wire::FileHandle::kWireSize) return file;
  const std::byte* const bytes = request.message.data() + at;
  std::memcpy(file.fshandle.bytes.data(), bytes, file.fshandle.bytes.size());
  std::memcpy(file.fileid.bytes.data(), bytes + file.fshandle.bytes.size(),
              file.fileid.bytes.size());
  return file;
}

Pool* OwnPool(const Shared& shared, const Request& request) {
  const wire::ProcInfo* info = request.verdict.proc;
  if (info == nullptr || !info->chf_fh) return nullptr;  // names no file
  const bool chained = (request.header().chain_flags & wire::kChfFh) != 0;
  const size_t at = wire::kHeaderSize + wire::FileHandleOffset(info->filehandles);
  wire::FsHandle fshandle;
  if (!chained) {
    fshandle = FsHandleAt(request.message, at);
  } else if (request.chain != nullptr && request.chain->filehandle) {
    fshandle = request.chain->filehandle->fshandle;
  }
  if (shared.store->export_threads().IsAboveWhatMayHang(fshandle))
    return OwnPoolOfPath(shared, request);
  Pool* pool = OwnPool(shared, fshandle);
  if (pool == nullptr && info->filehandles == wire::FileHandles::kTwo) {
    pool = OwnPool(shared, FsHandleAt(request.message, at + wire::FileHandle::kWireSize));
  }
  return pool;
}

}  // namespace dafs::server
