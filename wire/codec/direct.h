// The structured content of direct buffers, and the entries of READDIR.
// Spec: WIRE.md 10.2 (R60), 9.4 READDIR_INLINE; draft 4.2.2, 6.5.14, 6.5.29 to 6.5.32, 6.5.36.
// Position 0 of the bytes takes the place of the item's start; nothing is padded at the end. Where
// a client's buffers straddle, it joins them first. Any thread; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/messages/readdir.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

struct ResponseHeader;  // wire/protocol/header.h

// The extent of `attributes` as one structure: what GETATTR_DIRECT transfers, SETATTR_DIRECT
// advertises.
size_t DirectSize(const FileAttributes& attributes);

// Writes one attributes structure to `out`; returns its extent (at least 16).
// Errors: kFailedPrecondition with kTooSmall if it does not fit; nothing of use was written.
absl::StatusOr<size_t> EncodeDirect(const FileAttributes& attributes, ByteOrder order,
                                    std::span<std::byte> out);
// One utf8string (READLINK_DIRECT): 4 + length bytes.
absl::StatusOr<size_t> EncodeDirectString(std::string_view link, ByteOrder order,
                                          std::span<std::byte> out);

// Reads one attributes structure from the start of `content`; returns its extent. `content` may be
// longer than the structure. kDataLoss if it is malformed (a server answers DAFSERR_INVAL).
absl::StatusOr<size_t> DecodeDirect(std::span<const std::byte> content, ByteOrder order,
                                    FileAttributes& attributes);
// Reads one utf8string of at most 65535 bytes; the view lies in `content`. The extent is 4 + size.
absl::StatusOr<std::string_view> DecodeDirectString(std::span<const std::byte> content,
                                                    ByteOrder order);

// Checks the rules for attributes that are to be set (SETATTR, CREATE, OPEN with create): only
// settable ones, MODE in its 12 bits. Included but not valid ones are disregarded.
DafsStatus CheckSettable(const FileAttributes& attributes);

// Builds the counted array of direntry that READDIR answers with, entry by entry, up to a bound,
// straight into `out` (an inline response's bytes from message offset 56, or a staging buffer).
//
//     DirentArrayBuilder builder(order, out.subspan(56, bound));
//     while (more && builder.Add(cookie, attributes, name)) ...
//     size_t extent = builder.Finish();
class DirentArrayBuilder {
 public:
  // `out` is exactly the bound: the smaller of maxcount and the room there is.
  DirentArrayBuilder(ByteOrder order, std::span<std::byte> out);

  // Adds an entry; false, and nothing changed, if it does not fit any more. `name` is not empty,
  // `cookie` not 0, 1 or 2.
  bool Add(uint64_t cookie, const FileAttributes& attributes, std::string_view name);

  size_t count() const { return entries_.size(); }

  // Puts the array in its canonical form at the start of `out`; returns the extent, 8 without
  // entries (an inline response then has offset 0 instead). The builder is spent.
  size_t Finish();

 private:
  struct Entry {
    uint64_t cookie;
    uint32_t attrs;  // position in the heap plus one; 0: none
    uint32_t name;   // position in the heap
  };
  ByteOrder order_;
  std::span<std::byte> out_;
  size_t heap_end_ = 0;
  std::vector<Entry> entries_;
};

// Writes the READDIR_INLINE response around an array that a DirentArrayBuilder built at message
// offset 56 of `out`; `extent` is Finish()'s, `count` the entries'. Returns response_len.
size_t FinishReaddirInline(const ResponseHeader& header, const Verifier& cookieverf, bool eof,
                           size_t count, size_t extent, ByteOrder order, std::span<std::byte> out,
                           bool checksum);
inline constexpr size_t kReaddirInlineEntries = 56;  // up8(40 + 16)

// One entry as the reader sees it. Both stay valid until the next call of Next.
struct DirentView {
  uint64_t cookie = 0;
  const FileAttributes* attrs = nullptr;
  std::string_view name;  // inside the content
};

// Reads the entries of a READDIR answer one after the other, without allocating for each.
//
//     DirentReader reader;
//     RETURN_IF_ERROR(reader.OpenDirect(content, order));     // or OpenInline(message, order, ...)
//     while (reader.Next(entry)) ...
//     RETURN_IF_ERROR(reader.status());
class DirentReader {
 public:
  // `content` is what READDIR_DIRECT transferred; it may be longer. kDataLoss if malformed.
  absl::Status OpenDirect(std::span<const std::byte> content, ByteOrder order);

  // `message` is a READDIR_INLINE response with status OK. Also gives cookieverf and eof.
  absl::Status OpenInline(std::span<const std::byte> message, ByteOrder order, Verifier& cookieverf,
                          bool& eof);

  size_t count() const { return count_; }

  // The next entry; false at the end, or at a malformed entry, which status() then reports.
  bool Next(DirentView& entry);
  const absl::Status& status() const { return status_; }

  // The largest end of the items read so far: after the last entry, the length that
  // READDIR_DIRECT's direct_checksum covers.
  size_t extent() const { return extent_; }

 private:
  std::span<const std::byte> content_;
  ByteOrder order_ = ByteOrder::kLittle;
  size_t start_ = 0;  // of the count word, in content_
  uint32_t count_ = 0;
  uint32_t next_ = 0;
  size_t extent_ = 0;
  FileAttributes attributes_;
  absl::Status status_;
};

}  // namespace dafs::wire
