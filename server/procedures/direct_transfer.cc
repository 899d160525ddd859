#include "server/procedures/direct_transfer.h"

#include <algorithm>
#include <utility>

#include "wire/codec/checksum.h"

namespace dafs::server {
namespace {

dat::Segment SegmentOf(Session& session, const RdmaOp& op, uint32_t size_bytes) {
  return {op.data, size_bytes, &session.transfers().slab()};
}

uint64_t SizeOf(const RdmaOps& ops) {
  uint64_t size_bytes = 0;
  for (const RdmaOp& op : ops) size_bytes += op.size_bytes;
  return size_bytes;
}

using wire::DafsStatus;
using PostFunction = absl::Status (*)(Session& session, uint64_t cookie, dat::Segment segment,
                                      dat::RemoteBuffer remote);

// Takes one credit per operation, so that no transfer waits while it holds credits.
Task<bool> Move(Session& session, const RdmaOps& ops, PostFunction post) {
  RdmaWork work;
  bool posted = true;
  for (const RdmaOp& op : ops) {
    co_await session.transfers().credits().Take(1);
    posted = post(session, reinterpret_cast<uintptr_t>(&work),
                  SegmentOf(session, op, op.size_bytes), op.remote)
                 .ok();
    if (!posted) {
      session.transfers().credits().Return(1);
      break;
    }
    ++work.pending;
    session.transfers().watch().Begin(1);
  }
  const bool moved = co_await work;
  co_return moved&& posted;
}

}  // namespace

RdmaOps RemoteRange::Next(std::span<const std::span<std::byte>> local) {
  RdmaOps ops;
  for (std::span<std::byte> piece : local) {
    while (!piece.empty() && !buffers_.empty()) {
      const wire::DirectOpBuffer& buffer = buffers_.front();
      const uint32_t left = buffer.buffer_byte_count - used_;
      const auto size = static_cast<uint32_t>(std::min<size_t>(left, piece.size()));
      if (size > 0) {
        ops.push_back(
            {piece.data(),
             size,
             {.target_address = buffer.buffer_address + used_, .context = buffer.buffer_handle}});
      }
      piece = piece.subspan(size);
      used_ += size;
      if (used_ == buffer.buffer_byte_count) {
        buffers_ = buffers_.subspan(1);
        used_ = 0;
      }
    }
  }
  return ops;
}

Task<void> DirectWriter::Begin() {
  if (!few() || ops_.empty()) co_return;
  const auto count = static_cast<uint32_t>(ops_.size());
  co_await session_.transfers().credits().Take(count);
  call_.outgoing().rdma_credits += count;
}

Task<void> DirectWriter::Post(std::span<std::byte> data) {
  std::byte* const end = data.data() + data.size();
  for (; next_ < ops_.size() && !failed_; ++next_) {
    const RdmaOp& op = ops_[next_];
    if (op.data < data.data() || op.data >= end) break;
    if (!few()) co_await session_.transfers().credits().Take(1);
    const auto left = static_cast<uint32_t>(end - op.data);
    dat::Segment segment = SegmentOf(session_, op, std::min(left, op.size_bytes));
    const uint64_t cookie = few() ? 0 : reinterpret_cast<uintptr_t>(&work_);
    if (!session_.connection()
             .endpoint()
             .PostRdmaWrite(cookie, {&segment, 1}, op.remote, !few())
             .ok()) {
      if (!few()) session_.transfers().credits().Return(1);
      failed_ = true;
      break;
    }
    session_.traffic().sent_bytes += segment.size_bytes;
    if (!few()) {
      ++work_.pending;
      session_.transfers().watch().Begin(1);
    }
    session_.connection().Posted();
  }
}

Task<bool> DirectWriter::Done(DirectLease& lease) {
  if (few()) {
    call_.outgoing().lease = std::move(lease);
    co_return !failed_;
  }
  const bool written = co_await work_;
  co_return written && !failed_;
}

Task<bool> WriteDirectContent(Call& call, std::span<std::byte> content,
                              std::span<const wire::DirectOpBuffer> buffers, DirectLease& lease) {
  DirectWriter writer(call, buffers, {&content, 1});
  co_await writer.Begin();
  co_await writer.Post(content);
  const bool done = co_await writer.Done(lease);
  co_return done;
}

Task<DafsStatus> ReadFromClient(Session& session, const RdmaOps& ops) {
  if (session.channels().ForReads() == nullptr) co_return DafsStatus::kRdmaReadChannelUnusable;
  session.traffic().received_bytes += SizeOf(ops);
  Task<bool> moving =
      Move(session, ops,
           [](Session& of, uint64_t cookie, dat::Segment segment, dat::RemoteBuffer remote) {
             Session* channel = of.channels().ForReads();
             if (channel == nullptr) return absl::UnavailableError("the channel has ended");
             absl::Status posted =
                 channel->connection().endpoint().PostRdmaRead(cookie, {&segment, 1}, remote);
             if (posted.ok()) channel->connection().Posted();
             return posted;
           });
  const bool moved = co_await moving;
  // If the reads use an RDMA-read Channel, the session's own channel still works and could send a
  // wrong response.
  if (!moved) session.Abort(absl::UnavailableError("the client's memory cannot be read"));
  co_return moved ? DafsStatus::kOk : DafsStatus::kServerFault;
}

Task<DafsStatus> FetchData(Session& session, const DirectLease& lease,
                           std::span<const wire::DirectOpBuffer> buffers, wire::Checksum expected) {
  RemoteRange range(buffers);
  const RdmaOps ops = range.Next(lease.pieces());
  const DafsStatus status = co_await ReadFromClient(session, ops);
  if (status != DafsStatus::kOk || !session.terms().checksums()) co_return status;
  wire::Fletcher sum(*session.terms().order());
  for (std::span<std::byte> piece : lease.pieces()) sum.Add(piece);
  co_return sum.Result() == expected ? DafsStatus::kOk : DafsStatus::kChksum;
}

namespace {

absl::Status PostWrite(Session& channel, uint64_t cookie, dat::Segment segment,
                       dat::RemoteBuffer remote) {
  absl::Status posted = channel.connection().endpoint().PostRdmaWrite(cookie, {&segment, 1}, remote,
                                                                      /*signaled=*/true);
  if (posted.ok()) channel.connection().Posted();
  return posted;
}

}  // namespace

Task<bool> WriteToClient(Session& session, const RdmaOps& ops, WriteChannel channel) {
  session.traffic().sent_bytes += SizeOf(ops);
  if (channel == WriteChannel::kOperation) return Move(session, ops, PostWrite);
  return Move(session, ops,
              [](Session& of, uint64_t cookie, dat::Segment segment, dat::RemoteBuffer remote) {
                Session* back = of.channels().back();
                if (back == nullptr) return absl::UnavailableError("the channel has ended");
                return PostWrite(*back, cookie, segment, remote);
              });
}

}  // namespace dafs::server
