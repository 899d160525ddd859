// Arguments and results of the store's procedures that are not messages of the protocol. Values.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire {
struct FileAttributes;
}  // namespace dafs::wire

namespace dafs::server {

// Whether Read may wait for the disk.
enum class ReadMode : uint8_t {
  kNoWait,  // returns would_block unless all of the data is in the page cache
  kWait,
};

struct ReadResult {
  wire::DafsStatus status = wire::DafsStatus::kOk;
  bool would_block = false;  // nothing was decided: call again with kWait on a thread that may wait
  bool eof = false;          // offset + bytes_read reaches the file size (R85)
  uint32_t bytes_read = 0;
};

struct WriteResult {
  uint32_t count = 0;
  wire::StableHow committed = wire::StableHow::kUnstable;
  wire::Verifier verifier;
};

struct AppendResult {
  uint64_t offset = 0;  // where the data was written
  wire::StableHow committed = wire::StableHow::kDataSync;
  wire::Verifier verifier;
};

// The arguments that READDIR_INLINE and READDIR_DIRECT share.
struct ReaddirRequest {
  wire::FileHandle filehandle;
  uint64_t cookie = 0;
  wire::Verifier cookieverf;
  uint32_t dircount = 0;
  uint64_t attr_request_bitmap = 0;
};

// Whether a caller becomes the anonymous user (all_squash): in no export, in all, or in some.
enum class Squashes : uint8_t { kNobody, kEverybody, kEverybodyInSome };

struct ReaddirResult {
  wire::Verifier cookieverf;
  bool eof = false;
  bool hides_for_security = false;  // exports are left out that refuse the caller with kWrongSec
};

// Receives one entry. Returns false if the entry does not fit: the listing then ends before it. If
// it returns true, it may have moved from `attrs`.
using ReaddirSink =
    absl::FunctionRef<bool(uint64_t cookie, std::string_view name, wire::FileAttributes& attrs)>;

}  // namespace dafs::server
