#include "wire/codec/direct.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "wire/codec/codec.h"
#include "wire/codec/decoder.h"
#include "wire/codec/encoder.h"

namespace dafs::wire {
namespace {

using internal::Decoder;
using internal::Encoder;
using internal::NeedsSwap;
using internal::Role;
using internal::StoreAs;
using internal::Up8;

absl::StatusOr<size_t> Written(const Encoder& encoder, size_t room) {
  if (encoder.error() == DafsStatus::kOk) return encoder.end();
  return StatusFromDafs(encoder.error(),
                        absl::StrCat("direct content of ", encoder.end(), " bytes into ", room));
}

absl::Status Malformed(const char* what) {
  return absl::DataLossError(absl::StrCat("direct content: malformed ", what));
}

constexpr size_t kEntryHeader = internal::ArrayHeader<Direntry>();
constexpr size_t kEntrySize = Direntry::kWireSize;

// A reader's target for Direntry's field list: the same fields, as views.
struct EntryInPlace {
  uint64_t cookie = 0;
  FileAttributes& attrs;
  std::string_view name;
};

}  // namespace

size_t DirectSize(const FileAttributes& attributes) {
  Encoder counter;
  counter.AttributesItem(attributes);
  return counter.end();
}

absl::StatusOr<size_t> EncodeDirect(const FileAttributes& attributes, ByteOrder order,
                                    std::span<std::byte> out) {
  Encoder encoder(out, order, DafsStatus::kOk);
  encoder.AttributesItem(attributes);
  return Written(encoder, out.size());
}

absl::StatusOr<size_t> EncodeDirectString(std::string_view link, ByteOrder order,
                                          std::span<std::byte> out) {
  Encoder encoder(out, order, DafsStatus::kOk);
  encoder.StringItem(link, kLinkDataBound);
  return Written(encoder, out.size());
}

absl::StatusOr<size_t> DecodeDirect(std::span<const std::byte> content, ByteOrder order,
                                    FileAttributes& attributes) {
  attributes = FileAttributes();
  Decoder decoder(content, order, Role::kResponse, DafsStatus::kOk);
  decoder.AttributesAt(0, attributes);
  if (!decoder.ok()) return Malformed("attributes");
  return decoder.extent();
}

absl::StatusOr<std::string_view> DecodeDirectString(std::span<const std::byte> content,
                                                    ByteOrder order) {
  Decoder decoder(content, order, Role::kResponse, DafsStatus::kOk);
  const std::string_view s = decoder.StringAt(0, kLinkDataBound);
  if (!decoder.ok()) return Malformed("string");
  return s;
}

// While entries are added, their heap grows from the start of `out`. Finish knows the number of
// elements and moves the heap after them. Positions stay multiples of 8, and offsets inside an
// attributes structure are relative to it, so nothing else changes.
DirentArrayBuilder::DirentArrayBuilder(ByteOrder order, std::span<std::byte> out)
    : order_(order), out_(out) {}

bool DirentArrayBuilder::Add(uint64_t cookie, const FileAttributes& attributes,
                             std::string_view name) {
  const size_t start = Up8(heap_end_);
  const size_t elements_end = kEntryHeader + (entries_.size() + 1) * kEntrySize;
  if (start > out_.size() || elements_end > out_.size() - start) return false;
  Encoder encoder(out_.subspan(start, out_.size() - start - elements_end), order_, DafsStatus::kOk);
  Entry entry = {cookie, 0, 0};
  if ((attributes.included & kFattrAll) != 0) {
    entry.attrs = static_cast<uint32_t>(start + encoder.AttributesItem(attributes)) + 1;
  }
  entry.name = static_cast<uint32_t>(start + encoder.StringItem(name, kNameBound));
  if (encoder.error() != DafsStatus::kOk) return false;
  std::memset(out_.data() + heap_end_, 0, start - heap_end_);
  heap_end_ = start + encoder.end();
  entries_.push_back(entry);
  return true;
}

size_t DirentArrayBuilder::Finish() {
  const size_t heap = kEntryHeader + entries_.size() * kEntrySize;
  if (heap > out_.size()) return 0;  // even the count does not fit; nothing was added
  std::memmove(out_.data() + heap, out_.data(), heap_end_);
  const bool swap = NeedsSwap(order_);
  StoreAs(out_.data(), static_cast<uint32_t>(entries_.size()), swap);
  StoreAs(out_.data() + 4, uint32_t{0}, swap);
  std::byte* at = out_.data() + kEntryHeader;
  for (const Entry& entry : entries_) {
    const size_t attrs = entry.attrs == 0 ? 0 : heap + entry.attrs - 1;
    StoreAs(at, entry.cookie, swap);
    StoreAs(at + 8, static_cast<uint32_t>(attrs), swap);
    StoreAs(at + 12, static_cast<uint32_t>(heap + entry.name), swap);
    at += kEntrySize;
  }
  return heap + heap_end_;
}

size_t FinishReaddirInline(const ResponseHeader& header, const Verifier& cookieverf, bool eof,
                           size_t count, size_t extent, ByteOrder order, std::span<std::byte> out,
                           bool checksum) {
  const bool swap = NeedsSwap(order);
  size_t end = kReaddirInlineEntries;
  if (count > 0) end += extent;
  std::memcpy(out.data() + kHeaderSize, cookieverf.bytes.data(), 8);
  StoreAs(out.data() + kHeaderSize + 8, uint32_t{eof}, swap);
  StoreAs(out.data() + kHeaderSize + 12,
          static_cast<uint32_t>(count > 0 ? kReaddirInlineEntries - kHeaderSize : 0), swap);
  std::memset(out.data() + end, 0, Up8(end) - end);
  WriteResponseHeader(header, order, out, Up8(end), checksum);
  return Up8(end);
}

absl::Status DirentReader::OpenDirect(std::span<const std::byte> content, ByteOrder order) {
  *this = DirentReader();
  content_ = content;
  order_ = order;
  Decoder decoder(content, order, Role::kResponse, DafsStatus::kOk);
  if (!decoder.ArrayAt<Direntry>(0, kBoundedBySize, Presence::kOptional, count_)) {
    count_ = 0;
    status_ = Malformed("array of entries");
  }
  extent_ = decoder.extent();
  return status_;
}

absl::Status DirentReader::OpenInline(std::span<const std::byte> message, ByteOrder order,
                                      Verifier& cookieverf, bool& eof) {
  *this = DirentReader();
  content_ = message;
  order_ = order;
  Decoder decoder(message, order, Role::kResponse, DafsStatus::kOk);
  decoder.BeginScope(kHeaderSize, InfoOf(Proc::kReaddirInline).res_size);
  decoder.Field("cookieverf", cookieverf);
  decoder.Bool32("eof", eof);
  size_t item = 0;
  if (decoder.EnterItem(Presence::kOptional, 4, item) &&
      decoder.ArrayAt<Direntry>(item, kBoundedBySize, Presence::kOptional, count_)) {
    start_ = item;
  }
  if (!decoder.ok()) {
    count_ = 0;
    status_ = absl::DataLossError("response to READDIR_INLINE: malformed array of entries");
  }
  return status_;
}

bool DirentReader::Next(DirentView& entry) {
  if (next_ >= count_) return false;
  Decoder decoder(content_, order_, Role::kResponse, DafsStatus::kOk);
  decoder.EnterArray<Direntry>(start_, count_);
  decoder.SkipTo(start_ + kEntryHeader + size_t{next_} * kEntrySize);
  EntryInPlace in_place = {0, attributes_, {}};
  Direntry::Fields(in_place, decoder);
  if (!decoder.ok()) {
    status_ = absl::DataLossError(absl::StrCat("READDIR: malformed entry ", next_, " of ", count_));
    count_ = 0;
    return false;
  }
  ++next_;
  if (decoder.extent() > extent_) extent_ = decoder.extent();
  entry = {in_place.cookie, &attributes_, in_place.name};
  return true;
}

}  // namespace dafs::wire
