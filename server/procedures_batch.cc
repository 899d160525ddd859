// BATCH_SUBMIT, synchronous: one completion per request, in request order; and HURRY_UP.
// Spec: 6.5.5, 6.5.16; WIRE R59, R78, R88. Asynchronous batches need the Back-control Channel,
// which this server does not grant yet.
#include <algorithm>

#include "server/direct_buffers.h"
#include "server/direct_transfer.h"
#include "server/procedures.h"
#include "server/session.h"
#include "wire/checksum.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// Message offset of the completions, and the size of one. WIRE 4.2, 4.3, 9.4 BATCH_SUBMIT.
constexpr size_t kCompletions = 48;
constexpr size_t kCompletionSize = 24;

// A status says that nothing was begun (6.5.5), so whether the completions fit is seen before.
bool CompletionsFit(const Call& call, size_t count) {
  return kCompletions + 8 + count * kCompletionSize <= call.out().size();
}

// A read: chunk after chunk, ending early at the end of the file (R88).
dat::Task<void> ReadChunks(Call& call, const wire::RwRequest& request,
                           wire::CompletionNotification& done) {
  Session& session = call.session();
  DirectLease lease = co_await session.direct_buffers().Acquire(DirectBuffers::kLarge);
  const std::span<std::byte> memory = lease.pieces()[0];
  RemoteRange range(request.request_buffers);
  wire::Fletcher sum(call.order());
  DafsStatus status = DafsStatus::kOk;
  bool eof = false;
  for (const wire::FileChunk& chunk : request.chunks) {
    uint64_t offset = chunk.offset;
    uint32_t left = chunk.byte_count;
    while (left > 0 && !eof && status == DafsStatus::kOk) {
      const std::span<std::byte> into = memory.first(std::min<size_t>(left, memory.size()));
      ReadResult read;
      auto wait = [&] {
        read = session.store().Read(call.caller(), request.filehandle, request.state_id, offset,
                                    into, ReadMode::kWait);
      };
      co_await Offload(session.pool(), session.loop(), wait);
      status = read.status;
      if (status != DafsStatus::kOk) break;
      const std::span<std::byte> got = into.first(read.bytes_read);
      const RdmaOps ops = range.Next({&got, 1});
      const bool sent = co_await WriteToClient(session, ops);
      if (!sent) status = DafsStatus::kServerFault;
      if (session.checksums()) sum.Add(got);
      done.bytes_transferred += read.bytes_read;
      offset += read.bytes_read;
      left -= read.bytes_read;
      eof = read.eof || read.bytes_read == 0;
    }
  }
  done.status = static_cast<uint32_t>(status);
  if (session.checksums()) done.direct_checksum = sum.Result();
}

// A write: all of the data is fetched, then checked, then written, to stable storage (R59).
dat::Task<void> WriteChunks(Call& call, const wire::RwRequest& request,
                            wire::CompletionNotification& done) {
  Session& session = call.session();
  const uint64_t total = wire::TotalBytes(request.request_buffers);
  if (total > session.shared().options->max_transfer_bytes) {
    done.status = static_cast<uint32_t>(DafsStatus::kWriteTooBig);
    co_return;
  }
  DirectLease lease = co_await session.direct_buffers().Acquire(static_cast<size_t>(total));
  RemoteRange range(request.request_buffers);
  const RdmaOps ops = range.Next(lease.pieces());
  DafsStatus status = co_await ReadFromClient(call, ops);
  if (status == DafsStatus::kOk && session.checksums()) {
    wire::Fletcher sum(call.order());
    for (std::span<std::byte> piece : lease.pieces()) sum.Add(piece);
    if (sum.Result() != request.direct_checksum) status = DafsStatus::kChksum;
  }
  auto write = [&] {
    // The chunks' bytes lie one after the other in the pieces of the lease.
    std::span<const std::span<std::byte>> pieces = lease.pieces();
    size_t used = 0;  // of pieces.front()
    for (const wire::FileChunk& chunk : request.chunks) {
      absl::InlinedVector<iovec, 4> from;
      for (size_t left = chunk.byte_count; left > 0;) {
        const size_t take = std::min(left, pieces.front().size() - used);
        from.push_back({.iov_base = pieces.front().data() + used, .iov_len = take});
        left -= take;
        used += take;
        if (used == pieces.front().size()) {
          pieces = pieces.subspan(1);
          used = 0;
        }
      }
      WriteResult written;
      status = session.store().Write(call.caller(), request.filehandle, request.state_id,
                                     chunk.offset, from, wire::StableHow::kDataSync, &written);
      if (status != DafsStatus::kOk) return;
      done.bytes_transferred += written.count;
      if (written.count < chunk.byte_count) return;
    }
  };
  if (status == DafsStatus::kOk) co_await Offload(session.pool(), session.loop(), write);
  done.status = static_cast<uint32_t>(status);
}

}  // namespace

dat::Task<void> BatchSubmit(Call& call) {
  wire::BatchSubmitArgs args;
  if (!call.Decode(args)) co_return;
  wire::BatchSubmitRes res;
  if (!args.synchronous) {
    call.Finish(args.requests.empty() ? DafsStatus::kOk : DafsStatus::kBackChannelUnusable, args,
                res);
    co_return;
  }
  if (!CompletionsFit(call, args.requests.size())) {
    call.FinishError(DafsStatus::kTooSmall);
    co_return;
  }
  for (const wire::RwRequest& request : args.requests) {
    wire::CompletionNotification done;
    done.request_id = request.request_id;
    if (request.rw_flag == wire::RwFlag::kRead) {
      co_await ReadChunks(call, request, done);
    } else {
      co_await WriteChunks(call, request, done);
    }
    res.completions.push_back(done);
  }
  call.Finish(DafsStatus::kOk, args, res);
}

// A synchronous batch is complete before anybody could ask for haste.
void HurryUp(Call& call) {
  wire::HurryUpArgs args;
  if (!call.Decode(args)) return;
  call.Finish(DafsStatus::kBatchRequestNotFound, args, wire::HurryUpRes());
}

}  // namespace dafs::server
