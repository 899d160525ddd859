// The bodies of the templates in wire/codec/codec.h, and the macro that instantiates them for one
// procedure. Only messages.cc includes it.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/text.h"
#include "wire/codec/codec.h"
#include "wire/codec/decoder.h"
#include "wire/codec/encoder.h"
#include "wire/codec/message_frame.h"
#include "wire/codec/printer.h"

namespace dafs::wire::internal {

// Resets `message` to its defaults, in place. A move assignment from a fresh message with an
// InlinedVector makes g++ 12 report a use of uninitialized memory at -O3.
template <class Message>
void Renew(Message& message) {
  std::destroy_at(&message);
  std::construct_at(&message);
}

}  // namespace dafs::wire::internal

namespace dafs::wire {

template <class Args>
absl::StatusOr<size_t> EncodeRequest(const RequestHeader& header, const Args& args, ByteOrder order,
                                     std::span<std::byte> out, const EncodeOptions& options) {
  internal::Encoder encoder(out, order, DafsStatus::kOk);
  encoder.BeginScope(kHeaderSize, InfoOf(Args::kProc).args_size);
  Args::Fields(args, encoder);
  RequestHeader numbered = header;
  numbered.procedure = Args::kProc;
  return internal::FinishRequest(encoder, numbered, order, out, options);
}

template <class Res>
absl::StatusOr<size_t> EncodeResponse(const ResponseHeader& header, const Res& res, ByteOrder order,
                                      std::span<std::byte> out, const EncodeOptions& options) {
  internal::Encoder encoder(out, order, header.status);
  if (CarriesResult(Res::kProc, header.status, options.claim_type)) {
    encoder.BeginScope(kHeaderSize, InfoOf(Res::kProc).res_size);
    Res::Fields(res, encoder);
    return internal::FinishResponse(encoder, header, order, out, options);
  }
  // A bare header: ignores any inline data of the caller.
  encoder.BeginScope(kHeaderSize, 0);
  EncodeOptions bare = options;
  bare.inline_data = {};
  return internal::FinishResponse(encoder, header, order, out, bare);
}

template <class Body>
size_t EncodedSize(const Body& body) {
  constexpr bool is_args = std::is_same_v<Body, typename ProcTraits<Body::kProc>::Args>;
  internal::Encoder counter;
  counter.BeginScope(kHeaderSize,
                     is_args ? InfoOf(Body::kProc).args_size : InfoOf(Body::kProc).res_size);
  Body::Fields(body, counter);
  return internal::Up8(counter.end());
}

template <class Args>
DafsStatus DecodeArgs(std::span<const std::byte> message, ByteOrder order, Args& args,
                      NameRule names) {
  internal::Renew(args);
  internal::Decoder decoder(message, order, internal::Role::kRequest, DafsStatus::kOk, names);
  decoder.BeginScope(kHeaderSize, InfoOf(Args::kProc).args_size);
  Args::Fields(args, decoder);
  return decoder.error();
}

template <class Res>
absl::Status DecodeRes(std::span<const std::byte> message, ByteOrder order, DafsStatus status,
                       Res& res, OpenClaimType claim_type) {
  constexpr const ProcInfo& kInfo = InfoOf(Res::kProc);
  internal::Renew(res);
  const auto present = internal::FindResult(message.size(), kInfo, status, claim_type);
  if (!present.ok() || !*present) return present.status();
  internal::Decoder decoder(message, order, internal::Role::kResponse, status);
  decoder.BeginScope(kHeaderSize, kInfo.res_size);
  Res::Fields(res, decoder);
  return decoder.ok() ? absl::OkStatus() : internal::MalformedResult(kInfo, decoder.error());
}

template <class Body>
std::string ToString(const Body& body) {
  internal::Printer printer;
  Body::Fields(body, printer);
  return absl::StrCat(Text(Name(Body::kProc)), "{", printer.Take(), "}");
}

}  // namespace dafs::wire

// clang-format off
#define DAFS_WIRE_INSTANTIATE(name, ...)                                                           \
  template absl::StatusOr<size_t> EncodeRequest(const RequestHeader&, const name##Args&,          \
      ByteOrder, std::span<std::byte>, const EncodeOptions&);                                     \
  template absl::StatusOr<size_t> EncodeResponse(const ResponseHeader&, const name##Res&,         \
      ByteOrder, std::span<std::byte>, const EncodeOptions&);                                     \
  template size_t EncodedSize(const name##Args&);                                                 \
  template size_t EncodedSize(const name##Res&);                                                  \
  template DafsStatus DecodeArgs(std::span<const std::byte>, ByteOrder, name##Args&,              \
      NameRule);                                                                                  \
  template absl::Status DecodeRes(std::span<const std::byte>, ByteOrder, DafsStatus,              \
      name##Res&, OpenClaimType);                                                                 \
  template std::string ToString(const name##Args&);                                               \
  template std::string ToString(const name##Res&);
// clang-format on
