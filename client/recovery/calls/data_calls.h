// Calls whose data lies in a lease (LeasePart) or in memory of the application (UserPart). The
// memory is advertised when the request is encoded, since each session registers it again. Inline
// data is copied from the response before the receive buffer is reused.
// Spec: 4.2.1 (inline), 4.2.2 (direct); WIRE 9.4, 10.
#pragma once

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/data_parts.h"
#include "wire/codec/codec.h"
#include "wire/codec/direct.h"
#include "wire/protocol/inline_offset.h"

namespace dafs::client {

// Message offsets of inline data, WIRE R12.
inline constexpr uint32_t kReadInlineData = wire::EndOfRes(wire::Proc::kReadInline);
inline constexpr uint32_t kWriteInlineData = wire::EndOfArgs(wire::Proc::kWriteInline);

// A procedure whose buffer list is `args.*buffers`. `checksum` may be null; otherwise it is set for
// data that the server reads.
template <class Part, class Args, auto buffers, auto checksum = nullptr>
class DirectCallOf : public Call<Args> {
 public:
  explicit DirectCallOf(const Part& part) : part_(part) {
    part_.Mark(*this);
    part_.Pin(*this);
  }

  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override {
    if (part_.given_up()) return part_.GivenUp();
    if constexpr (std::is_same_v<decltype((this->args.*buffers)), wire::DirectOpBuffer&>) {
      absl::StatusOr<wire::DirectOpBuffer> buffer = part_.Expose();
      if (!buffer.ok()) return buffer.status();
      this->args.*buffers = *buffer;
    } else {
      absl::Status exposed = part_.Expose(this->args.*buffers);
      if (!exposed.ok()) return exposed;
    }
    if constexpr (!std::is_same_v<decltype(checksum), std::nullptr_t>) {
      this->args.*checksum = checksums ? part_.Checksum(part_.size, order) : wire::Checksum();
    }
    return Call<Args>::Encode(header, order, out, checksums);
  }

 protected:
  Part part_;
};

template <class Args, auto buffers, auto checksum = nullptr>
using DirectCall = DirectCallOf<LeasePart, Args, buffers, checksum>;

template <class Part>
class ReadDirectCallOf
    : public DirectCallOf<Part, wire::ReadDirectArgs, &wire::ReadDirectArgs::read_data_buffers> {
 public:
  using Base = DirectCallOf<Part, wire::ReadDirectArgs, &wire::ReadDirectArgs::read_data_buffers>;
  using Base::Base;
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Base::Decode(message, order, answer);
    const uint32_t asked = this->part_.size;
    if (!status.ok() || answer != wire::DafsStatus::kOk || this->res.bytes_read <= asked) {
      return status;
    }
    return absl::DataLossError(
        absl::StrCat("bytes_read ", this->res.bytes_read, " of ", asked, " requested"));
  }
};

template <class Part>
class ReadInlineCallOf : public Call<wire::ReadInlineArgs> {
 public:
  explicit ReadInlineCallOf(const Part& part) : part_(part) { part_.Mark(*this); }
  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override {
    if (part_.given_up()) return part_.GivenUp();
    return Call::Encode(header, order, out, checksums);
  }
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk) return status;
    auto data = wire::FindInlineData(message, res);
    if (!data.ok()) return data.status();
    if (data->size() > part_.size) {
      return absl::DataLossError(
          absl::StrCat("bytes_read ", data->size(), " of ", part_.size, " requested"));
    }
    if (!part_.given_up()) part_.Fill(*data);
    return absl::OkStatus();
  }

 private:
  Part part_;
};

// WRITE_INLINE, APPEND_INLINE.
template <class Part, class Args>
class InlineWriteCallOf : public Call<Args> {
 public:
  explicit InlineWriteCallOf(const Part& part) : part_(part) { part_.Mark(*this); }
  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override {
    if (part_.given_up()) return part_.GivenUp();
    data_ = part_.Gather(out, wire::EndOfArgs(Args::kProc));
    return Call<Args>::Encode(header, order, out, checksums);
  }

 protected:
  wire::InlineData inline_data() const override { return {data_, 0}; }

 private:
  Part part_;
  std::span<const std::byte> data_;
};

template <class Part>
using WriteDirectCallOf =
    DirectCallOf<Part, wire::WriteDirectArgs, &wire::WriteDirectArgs::write_data_buffers,
                 &wire::WriteDirectArgs::direct_checksum>;

using ReadDirectCall = ReadDirectCallOf<LeasePart>;
using WriteDirectCall = WriteDirectCallOf<LeasePart>;
template <class Args>
using InlineWriteCall = InlineWriteCallOf<LeasePart, Args>;
using AppendDirectCall =
    DirectCall<wire::AppendDirectArgs, &wire::AppendDirectArgs::write_data_buffer,
               &wire::AppendDirectArgs::direct_checksum>;
using ReaddirDirectCall =
    DirectCall<wire::ReaddirDirectArgs, &wire::ReaddirDirectArgs::readdir_data_buffers>;
using ReadlinkDirectCall = DirectCall<wire::ReadlinkDirectArgs, &wire::ReadlinkDirectArgs::buffer>;

// READDIR_INLINE without a vector of entries: copies the whole message to the lease.
class ReaddirInlineCall : public Call<wire::ReaddirInlineArgs> {
 public:
  explicit ReaddirInlineCall(const LeasePart& part) : part_(part) {}
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    if (answer != wire::DafsStatus::kOk) return absl::OkStatus();
    if (message.size() > part_.size) return absl::DataLossError("more entries than requested");
    std::memcpy(part_.data(), message.data(), message.size());
    return entries.OpenInline(part_.bytes().first(message.size()), order, res.cookieverf, res.eof);
  }

  wire::DirentReader entries;

 private:
  LeasePart part_;
};

// WRITE_INLINE of bytes that are neither in a lease nor in application memory. They must outlive
// the call.
class WriteBytesCall : public Call<wire::WriteInlineArgs> {
 public:
  explicit WriteBytesCall(std::span<const std::byte> data) : data_(data) {
    args.byte_count = static_cast<uint32_t>(data.size());
  }

 protected:
  wire::InlineData inline_data() const override { return {data_, 0}; }

 private:
  std::span<const std::byte> data_;
};

}  // namespace dafs::client
