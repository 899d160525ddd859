#include "server/procedures/batch_io.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "server/procedures/file_read.h"
#include "server/session/own_pool.h"
#include "server/session/transfer/direct_buffers.h"
#include "server/store/procedures/data_procedures.h"
#include "wire/codec/checksum.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// Data that was read and is not yet being written to the client.
struct Gathered {
  Session& session;
  WriteChannel channel;
  RemoteRange range;
  std::span<std::byte> memory;
  wire::Fletcher sum;
  size_t filled = 0;

  Task<bool> Flush() {
    const std::span<std::byte> got = memory.first(filled);
    const RdmaOps ops = range.Next({&got, 1});
    Task<bool> writing = WriteToClient(session, ops, channel);
    const bool written = co_await writing;
    if (session.terms().checksums()) sum.Add(got);
    filled = 0;
    co_return written;
  }
};

// Reads one chunk to the end of what is gathered; writes that to the client when the memory is
// full. Sets *eof at the end of the file.
Task<DafsStatus> ReadChunk(const FileReader& file, const wire::FileChunk& chunk, Gathered& data,
                           uint32_t* transferred, bool* eof) {
  uint64_t offset = chunk.offset;
  uint32_t left = chunk.byte_count;
  do {
    if (left > 0 && data.filled == data.memory.size()) {
      Task<bool> flushing = data.Flush();
      const bool flushed = co_await flushing;
      if (!flushed) co_return DafsStatus::kServerFault;
    }
    const size_t room = data.memory.size() - data.filled;
    const std::span<std::byte> into =
        data.memory.subspan(data.filled, std::min<size_t>(left, room));
    const ReadResult read = co_await FileRead(file, offset, into);
    if (read.status != DafsStatus::kOk) co_return read.status;
    data.filled += read.bytes_read;
    *transferred += read.bytes_read;
    offset += read.bytes_read;
    left -= read.bytes_read;
    *eof = left > 0 && (read.eof || read.bytes_read == 0);
  } while (left > 0 && !*eof);
  co_return DafsStatus::kOk;
}

// Reads chunk after chunk; stops at the end of the file (R88). Gathers chunks until the lease is
// full, then writes them to the client together.
Task<void> ReadChunks(Session& session, const Caller& caller, const wire::RwRequest& request,
                      WriteChannel channel, wire::CompletionNotification* done) {
  const uint64_t total = wire::TotalBytes(request.request_buffers);
  const FileReader file{session, OwnPool(session.shared(), request.filehandle.fshandle), caller,
                        request.filehandle, request.state_id};
  DirectLease lease = co_await session.transfers().Acquire(
      static_cast<size_t>(std::min<uint64_t>(total, DirectBuffers::kLarge)),
      /*may_hang=*/file.own_pool != nullptr);
  std::span<std::byte> memory;
  if (!lease.pieces().empty()) memory = lease.pieces()[0];
  Gathered data{session, channel, RemoteRange(request.request_buffers), memory,
                wire::Fletcher(*session.terms().order())};
  const wire::FileChunk none;  // a read of no bytes still checks permissions
  const std::span<const wire::FileChunk> chunks =
      total == 0 ? std::span(&none, 1) : std::span(request.chunks);
  DafsStatus status = DafsStatus::kOk;
  bool eof = false;
  for (size_t i = 0; i < chunks.size() && !eof && status == DafsStatus::kOk; ++i) {
    status = co_await ReadChunk(file, chunks[i], data, &done->bytes_transferred, &eof);
  }
  if (status == DafsStatus::kOk) {
    Task<bool> flushing = data.Flush();
    const bool flushed = co_await flushing;
    if (!flushed) status = DafsStatus::kServerFault;
  }
  done->status = static_cast<uint32_t>(status);
  if (session.terms().checksums()) done->direct_checksum = data.sum.Result();
}

using Vectors = absl::InlinedVector<iovec, 4>;

// Takes the next `size` bytes of `pieces`; `*used` bytes of the first piece are taken already.
Vectors TakeFrom(std::span<const std::span<std::byte>>* pieces, size_t* used, size_t size) {
  Vectors vectors;
  while (size > 0) {
    const size_t take = std::min(size, pieces->front().size() - *used);
    vectors.push_back({.iov_base = pieces->front().data() + *used, .iov_len = take});
    size -= take;
    *used += take;
    if (*used == pieces->front().size()) {
      *pieces = pieces->subspan(1);
      *used = 0;
    }
  }
  return vectors;
}

// Fetches all data, then checks it, then writes it to stable storage (R59).
Task<bool> WriteChunks(Session& session, const Caller& caller, const wire::RwRequest& request,
                       wire::CompletionNotification* done) {
  const uint64_t total = wire::TotalBytes(request.request_buffers);
  if (total > session.shared().options->max_transfer_bytes) {
    done->status = static_cast<uint32_t>(DafsStatus::kWriteTooBig);
    co_return true;
  }
  Pool* const own = OwnPool(session.shared(), request.filehandle.fshandle);
  DirectLease lease =
      co_await session.transfers().Acquire(static_cast<size_t>(total), /*may_hang=*/own != nullptr);
  DafsStatus status =
      co_await FetchData(session, lease, request.request_buffers, request.direct_checksum);
  done->status = static_cast<uint32_t>(status);
  if (status == DafsStatus::kServerFault) co_return false;
  Caller writer = caller;
  writer.promises = nullptr;  // a completion promises nothing
  Modification modification(session, writer);
  auto write = [&] {
    const FencedSession::Access access(writer.fence);
    done->bytes_transferred = 0;
    std::span<const std::span<std::byte>> pieces = lease.pieces();
    size_t used = 0;
    const wire::FileChunk none;  // a write of no bytes still checks permissions
    const std::span<const wire::FileChunk> chunks =
        request.chunks.empty() ? std::span(&none, 1) : std::span(request.chunks);
    for (const wire::FileChunk& chunk : chunks) {
      const Vectors from = TakeFrom(&pieces, &used, chunk.byte_count);
      WriteResult written;
      status =
          session.store().data().Write(writer, request.filehandle, request.state_id, chunk.offset,
                                       from, wire::StableHow::kDataSync, &written);
      if (status != DafsStatus::kOk) return;
      done->bytes_transferred += written.count;
      if (written.count < chunk.byte_count) return;
    }
  };
  if (status == DafsStatus::kOk) {
    Pool& pool = PoolFor(session.shared(), own);
    co_await Offload(pool, session.loop(), write);
    while (modification.MustCall(status)) {
      Task<bool> calling = modification.Call();
      const bool answered = co_await calling;
      if (!answered) co_return false;
      co_await Offload(pool, session.loop(), write);
    }
  }
  done->status = static_cast<uint32_t>(status);
  co_return true;
}

}  // namespace

Task<bool> ExecuteItem(Session& session, const Caller& caller, const wire::RwRequest& request,
                       WriteChannel channel, wire::CompletionNotification* done) {
  done->request_id = request.request_id;
  if (request.rw_flag == wire::RwFlag::kRead) {
    Task<void> reading = ReadChunks(session, caller, request, channel, done);
    co_await reading;
    co_return true;
  }
  Task<bool> writing = WriteChunks(session, caller, request, done);
  const bool came = co_await writing;
  co_return came;
}

}  // namespace dafs::server
