// File data by RDMA: READ_DIRECT, WRITE_DIRECT, APPEND_DIRECT.
// Spec: 6.5.4, 6.5.28, 6.5.39; WIRE section 10, R85.
#include <algorithm>

#include "server/procedures/procedures.h"
#include "server/session/direct_buffers.h"
#include "server/session/direct_transfer.h"
#include "server/session/pool.h"
#include "server/session/session.h"
#include "wire/codec/checksum.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

using Vectors = absl::InlinedVector<iovec, 4>;

Vectors VectorsOf(const DirectLease& lease) {
  Vectors vectors;
  for (std::span<std::byte> piece : lease.pieces()) {
    vectors.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
  }
  return vectors;
}

// Fetches the data of a write into `lease`, which has exactly its size. Statuses: those of
// ReadFromClient, and kChksum.
dat::Task<DafsStatus> Fetch(Call& call, const DirectLease& lease,
                            std::span<const wire::DirectOpBuffer> buffers,
                            wire::Checksum expected) {
  Session& session = call.session();
  RemoteRange range(buffers);
  const RdmaOps ops = range.Next(lease.pieces());
  const DafsStatus fetched = co_await ReadFromClient(call, ops);
  if (fetched != DafsStatus::kOk) co_return fetched;
  if (session.terms().checksums()) {
    wire::Fletcher sum(call.order());
    for (std::span<std::byte> piece : lease.pieces()) sum.Add(piece);
    if (sum.Result() != expected) co_return DafsStatus::kChksum;
  }
  co_return DafsStatus::kOk;
}

}  // namespace

// Works piece by piece: reads the next piece while the last is being sent to the client. An error
// after the first piece makes the read short; the client gets the error when it reads the rest.
dat::Task<void> ReadDirect(Call& call) {
  wire::ReadDirectArgs args;
  if (!call.Decode(args)) co_return;
  if (call.session().terms().KeepsAtime(args.cache_hint)) call.KeepAtime();
  call.Names(args.read_data_buffers);
  Session& session = call.session();
  const size_t total = std::min(args.byte_count, session.shared().options->max_transfer_bytes);
  DirectLease lease = co_await session.transfers().Acquire(total, call.may_hang());
  RemoteRange range(args.read_data_buffers);
  const RdmaOps ops = range.Next(lease.pieces());
  DirectWriter writer(call, ops.size());
  co_await writer.Begin();

  wire::ReadDirectRes res;
  wire::Fletcher sum(call.order());
  DafsStatus status = DafsStatus::kOk;
  const RdmaOp* op = ops.begin();
  const size_t pieces = std::max<size_t>(lease.pieces().size(), 1);
  for (size_t i = 0; i < pieces; ++i) {
    std::span<std::byte> piece;
    if (!lease.pieces().empty()) piece = lease.pieces()[i];
    const uint64_t offset = args.offset + res.bytes_read;
    ReadResult read;
    if (!call.may_hang()) {
      read = session.store().Read(call.caller(), args.filehandle, args.state_id, offset, piece,
                                  ReadMode::kNoWait);
    }
    if (call.may_hang() || read.would_block) {
      auto wait = [&] {
        read = session.store().Read(call.caller(), args.filehandle, args.state_id, offset, piece,
                                    ReadMode::kWait);
      };
      co_await Offload(call.pool(), session.loop(), wait);
    }
    if (read.status != DafsStatus::kOk) {
      if (i == 0) status = read.status;
      break;
    }
    const std::span<std::byte> got = piece.first(read.bytes_read);
    for (; op != ops.end() && op->data >= got.data() && op->data < got.data() + got.size(); ++op) {
      const auto left = static_cast<uint32_t>(got.data() + got.size() - op->data);
      const bool posted = co_await writer.Post(*op, left);
      if (!posted) break;
    }
    if (session.terms().checksums()) sum.Add(got);
    res.bytes_read += read.bytes_read;
    res.eof = read.eof;
    if (got.size() < piece.size() || read.eof) break;
  }
  const bool done = co_await writer.Done(lease);
  if (!done) status = DafsStatus::kServerFault;
  if (session.terms().checksums()) res.direct_checksum = sum.Result();
  call.Finish(status, args, res);
}

dat::Task<void> WriteDirect(Call& call) {
  wire::WriteDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names(args.write_data_buffers);
  Session& session = call.session();
  if (args.byte_count > session.shared().options->max_transfer_bytes) {
    call.FinishError(DafsStatus::kWriteTooBig);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(args.byte_count, call.may_hang());
  DafsStatus status = co_await Fetch(call, lease, args.write_data_buffers, args.direct_checksum);
  WriteResult written;
  if (status == DafsStatus::kOk) {
    const Vectors from = VectorsOf(lease);
    auto write = [&] {
      status = session.store().Write(call.caller(), args.filehandle, args.state_id, args.offset,
                                     from, args.stable_how, &written);
    };
    const bool may_wait = call.may_hang() || args.stable_how != wire::StableHow::kUnstable;
    co_await OffloadIf(may_wait, call.pool(), session.loop(), write);
  }
  lease.Release();
  wire::WriteDirectRes res;
  res.count = written.count;
  res.committed = written.committed;
  res.verifier = written.verifier;
  call.Finish(status, args, res);
}

dat::Task<void> AppendDirect(Call& call) {
  wire::AppendDirectArgs args;
  if (!call.Decode(args)) co_return;
  call.Names({&args.write_data_buffer, 1});
  Session& session = call.session();
  if (args.byte_count > session.shared().options->max_transfer_bytes) {
    call.FinishError(DafsStatus::kWriteTooBig);
    co_return;
  }
  DirectLease lease = co_await session.transfers().Acquire(args.byte_count, call.may_hang());
  const std::span<const wire::DirectOpBuffer> buffers(&args.write_data_buffer, 1);
  DafsStatus status = co_await Fetch(call, lease, buffers, args.direct_checksum);
  AppendResult appended;
  if (status == DafsStatus::kOk) {
    const Vectors from = VectorsOf(lease);
    auto append = [&] {
      status = session.store().Append(call.caller(), args.filehandle, args.state_id, from,
                                      args.stable_how, &appended);
    };
    const bool may_wait =
        call.may_hang() || session.store().AppendMayWait(args.filehandle, args.stable_how);
    co_await OffloadIf(may_wait, call.pool(), session.loop(), append);
  }
  lease.Release();
  wire::AppendDirectRes res;
  res.offset = appended.offset;
  res.committed = appended.committed;
  res.verifier = appended.verifier;
  call.Finish(status, args, res);
}

}  // namespace dafs::server
