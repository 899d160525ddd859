// Calls whose data lies in a lease: the buffer is advertised as the request is encoded, since each
// session registers it anew, and inline data is copied from the response before the receive buffer
// is used again. Spec: 4.2.1 (inline), 4.2.2 (direct); WIRE 9.4, 10.
#pragma once

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "wire/checksum.h"
#include "wire/codec.h"
#include "wire/direct.h"

namespace dafs::client {

// Where in a lease.
struct LeasePart {
  BufferPool* pool = nullptr;
  const BufferLease* lease = nullptr;
  uint32_t position = 0;
  uint32_t size = 0;

  std::byte* data() const { return lease->payload() + position; }
  std::span<std::byte> bytes() const { return {data(), size}; }
  wire::DirectOpBuffer Advertise() const { return pool->Advertise(*lease, data(), size); }
};

// A procedure whose buffer list is `args.*buffers`; `checksum` (may be null) is filled in for data
// that the server reads.
template <class Args, auto buffers, auto checksum = nullptr>
class DirectCall : public Call<Args> {
 public:
  explicit DirectCall(const LeasePart& part) : part_(part) { this->advertised = part.lease; }

  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override {
    if constexpr (std::is_same_v<decltype((this->args.*buffers)), wire::DirectOpBuffer&>) {
      this->args.*buffers = part_.Advertise();
    } else {
      (this->args.*buffers).assign(1, part_.Advertise());
    }
    if constexpr (!std::is_same_v<decltype(checksum), std::nullptr_t>) {
      this->args.*checksum =
          checksums ? wire::ComputeChecksum(part_.bytes(), order) : wire::Checksum();
    }
    return Call<Args>::Encode(header, order, out, checksums);
  }

 protected:
  LeasePart part_;
};

class ReadDirectCall
    : public DirectCall<wire::ReadDirectArgs, &wire::ReadDirectArgs::read_data_buffers> {
 public:
  using DirectCall::DirectCall;
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = DirectCall::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk || res.bytes_read <= part_.size) {
      return status;
    }
    return absl::DataLossError(
        absl::StrCat("bytes_read ", res.bytes_read, " of ", part_.size, " asked for"));
  }
};

class ReadInlineCall : public Call<wire::ReadInlineArgs> {
 public:
  explicit ReadInlineCall(const LeasePart& part) : part_(part) {}
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk) return status;
    auto data = wire::FindInlineData(message, res);
    if (!data.ok()) return data.status();
    if (data->size() > part_.size) {
      return absl::DataLossError(
          absl::StrCat("bytes_read ", data->size(), " of ", part_.size, " asked for"));
    }
    std::memcpy(part_.data(), data->data(), data->size());
    return absl::OkStatus();
  }

 private:
  LeasePart part_;
};

// WRITE_INLINE, APPEND_INLINE.
template <class Args>
class InlineWriteCall : public Call<Args> {
 public:
  explicit InlineWriteCall(const LeasePart& part) : part_(part) {}

 protected:
  wire::InlineData inline_data() const override { return {part_.bytes(), 0}; }

 private:
  LeasePart part_;
};

using WriteDirectCall =
    DirectCall<wire::WriteDirectArgs, &wire::WriteDirectArgs::write_data_buffers,
               &wire::WriteDirectArgs::direct_checksum>;
using AppendDirectCall =
    DirectCall<wire::AppendDirectArgs, &wire::AppendDirectArgs::write_data_buffer,
               &wire::AppendDirectArgs::direct_checksum>;
using ReaddirDirectCall =
    DirectCall<wire::ReaddirDirectArgs, &wire::ReaddirDirectArgs::readdir_data_buffers>;
using ReadlinkDirectCall = DirectCall<wire::ReadlinkDirectArgs, &wire::ReadlinkDirectArgs::buffer>;

// READDIR_INLINE without building its vector of entries: the whole message goes to the lease.
class ReaddirInlineCall : public Call<wire::ReaddirInlineArgs> {
 public:
  explicit ReaddirInlineCall(const LeasePart& part) : part_(part) {}
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    if (answer != wire::DafsStatus::kOk) return absl::OkStatus();
    if (message.size() > part_.size) return absl::DataLossError("more entries than asked for");
    std::memcpy(part_.data(), message.data(), message.size());
    return entries.OpenInline(part_.bytes().first(message.size()), order, res.cookieverf, res.eof);
  }

  wire::DirentReader entries;

 private:
  LeasePart part_;
};

}  // namespace dafs::client
