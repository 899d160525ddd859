// The structured content of direct buffers, and the entries of READDIR.
// Spec: WIRE 10.2 (R60), 9.4 READDIR_INLINE; draft 4.2.2, 6.5.14, 6.5.29 to 6.5.32, 6.5.36.
// Position 0 of the bytes is the item's start; there is no padding at the end. If the content spans
// several of a client's buffers, the client joins them first. Any thread; nothing blocks.
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
#include "wire/protocol/types.h"

namespace dafs::wire {

struct ResponseHeader;  // wire/protocol/header.h

// The extent of `attributes` as one structure. GETATTR_DIRECT transfers it, and SETATTR_DIRECT
// advertises it.
size_t DirectSize(const FileAttributes& attributes);

// Writes one attributes structure to `out`. Returns its extent (at least 16).
// Errors: kFailedPrecondition with kTooSmall if it does not fit; the content of `out` is then
// unspecified.
absl::StatusOr<size_t> EncodeDirect(const FileAttributes& attributes, ByteOrder order,
                                    std::span<std::byte> out);
// Writes one utf8string (READLINK_DIRECT): 4 + length bytes.
absl::StatusOr<size_t> EncodeDirectString(std::string_view link, ByteOrder order,
                                          std::span<std::byte> out);

// Reads one attributes structure from the start of `content`. Returns its extent; `content` may be
// longer. kDataLoss if the structure is malformed (a server responds DAFSERR_INVAL).
absl::StatusOr<size_t> DecodeDirect(std::span<const std::byte> content, ByteOrder order,
                                    FileAttributes& attributes);
// Reads one utf8string of at most 65535 bytes. The view points into `content`. The extent is 4 +
// size.
absl::StatusOr<std::string_view> DecodeDirectString(std::span<const std::byte> content,
                                                    ByteOrder order);

// Builds the counted array of direntry in a READDIR response. Adds entry by entry, up to a bound,
// directly in `out` (the bytes of an inline response from message offset 56, or a staging buffer).
//
//     DirentArrayBuilder builder(order, out.subspan(56, bound));
//     while (more && builder.Add(cookie, attributes, name)) ...
//     size_t extent = builder.Finish();
class DirentArrayBuilder {
 public:
  // The size of `out` is the bound: the smaller of maxcount and the available room.
  DirentArrayBuilder(ByteOrder order, std::span<std::byte> out);

  // Adds an entry. Returns false and changes nothing if it does not fit. `name` must not be empty,
  // and `cookie` must not be 0, 1 or 2.
  bool Add(uint64_t cookie, const FileAttributes& attributes, std::string_view name);

  size_t count() const { return entries_.size(); }

  // Puts the array in canonical form at the start of `out` and returns its extent. The extent is 8
  // without entries (an inline response then has offset 0 instead). Do not use the builder
  // afterwards.
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
// offset 56 of `out`. `extent` is the result of Finish(), `count` the number of entries. Returns
// response_len.
size_t FinishReaddirInline(const ResponseHeader& header, const Verifier& cookieverf, bool eof,
                           size_t count, size_t extent, ByteOrder order, std::span<std::byte> out,
                           bool checksum);
inline constexpr size_t kReaddirInlineEntries = 56;  // up8(40 + 16)

// One entry, as the reader returns it. Valid until the next call of Next.
struct DirentView {
  uint64_t cookie = 0;
  const FileAttributes* attrs = nullptr;
  std::string_view name;  // points into the content
};

// Reads the entries of a READDIR response in order, without an allocation for each.
//
//     DirentReader reader;
//     RETURN_IF_ERROR(reader.OpenDirect(content, order));     // or OpenInline(message, order, ...)
//     while (reader.Next(entry)) ...
//     RETURN_IF_ERROR(reader.status());
class DirentReader {
 public:
  // `content` is the data that READDIR_DIRECT transferred; it may be longer. kDataLoss if
  // malformed.
  absl::Status OpenDirect(std::span<const std::byte> content, ByteOrder order);

  // `message` is a READDIR_INLINE response with status OK. Also sets `cookieverf` and `eof`.
  absl::Status OpenInline(std::span<const std::byte> message, ByteOrder order, Verifier& cookieverf,
                          bool& eof);

  size_t count() const { return count_; }

  // Reads the next entry. Returns false at the end, or at a malformed entry, which status()
  // reports.
  bool Next(DirentView& entry);
  const absl::Status& status() const { return status_; }

  // The largest end of the items read so far. After the last entry it is the length that
  // READDIR_DIRECT's direct_checksum covers.
  size_t extent() const { return extent_; }

 private:
  std::span<const std::byte> content_;
  ByteOrder order_ = ByteOrder::kLittle;
  size_t start_ = 0;  // position of the count word in content_
  uint32_t count_ = 0;
  uint32_t next_ = 0;
  size_t extent_ = 0;
  FileAttributes attributes_;
  absl::Status status_;
};

}  // namespace dafs::wire
