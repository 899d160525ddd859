// The common types of the protocol that are plain data: opaque ids, times, buffers, chunks.
// Spec: WIRE 4.1, 4.2; draft 6.1.4, 6.1.7, 6.1.9.
// All are values: copyable and comparable; ids are also hashable. Usable from any thread.
//
// Each structure lists its fields once, in `Fields`, in the order and with the names of the
// specification. Encoding, decoding, printing and the size check all use that list (see
// wire/codec/). kWireSize and kWireAlign repeat the sizes printed in the specification.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/limits.h"

namespace dafs::wire {

// The byte order of one session. The client chooses it by its first message. Spec: WIRE 2.1.
enum class ByteOrder : uint8_t { kLittle, kBig };

// `N` raw bytes that are never swapped. `Tag` makes different ids different types.
// Spec: 6.1.1.4 dafs_opaque32, dafs_opaque64.
template <class Tag, size_t N>
struct Opaque {
  static constexpr size_t kWireSize = N;
  static constexpr size_t kWireAlign = N < 8 ? N : 8;

  std::array<uint8_t, N> bytes{};

  constexpr bool is_zero() const { return bytes == std::array<uint8_t, N>{}; }
  friend constexpr auto operator<=>(const Opaque&, const Opaque&) = default;  // NOLINT(*-nullptr)
  template <class H>
  friend H AbslHashValue(H h, const Opaque& id) {
    return H::combine_contiguous(std::move(h), id.bytes.data(), N);
  }
};

// Converts `value`, in host order, to an opaque64 and back. For the side that makes an id and later
// recognises it. The bytes mean nothing to the peer.
template <class Id>
Id OpaqueFromUint64(uint64_t value) {
  static_assert(Id::kWireSize == 8);
  Id id;
  std::memcpy(id.bytes.data(), &value, 8);
  return id;
}
template <class Id>
uint64_t OpaqueToUint64(const Id& id) {
  static_assert(Id::kWireSize == 8);
  uint64_t value = 0;
  std::memcpy(&value, id.bytes.data(), 8);
  return value;
}

using SessionId = Opaque<struct SessionIdTag, 8>;    // dafs_session_id_type; zero: never assigned
using ClientId = Opaque<struct ClientIdTag, 8>;      // dafs_client_id_type; zero: never assigned
using StateId = Opaque<struct StateIdTag, 8>;        // dafs_state_id_type; zero: no state
using Verifier = Opaque<struct VerifierTag, 8>;      // dafs_verifier_type
using Analyzer = Opaque<struct AnalyzerTag, 8>;      // echoed byte for byte, 6.1.2
using CredHandle = Opaque<struct CredHandleTag, 4>;  // dafs_cred_handle_type; zero: the default
using FsHandle = Opaque<struct FsHandleTag, 16>;     // dafs_FSHandle_type
using FileId = Opaque<struct FileIdTag, 48>;
using ServerId = Opaque<struct ServerIdTag, 16>;  // of SERVER_IDENTITY (WIRE 9.5); never zero

// `id` as hexadecimal digits, for logs and reports.
template <class Tag, size_t N>
std::string HexOf(const Opaque<Tag, N>& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * N);
  for (const uint8_t byte : id.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// dafs_filehandle_type (6.1.4): the file system, which clients may compare, and the opaque file.
struct FileHandle {
  static constexpr size_t kWireSize = 64;
  static constexpr size_t kWireAlign = 8;

  FsHandle fshandle;
  FileId fileid;

  static void Fields(auto& m, auto& c) {
    c.Field("fshandle", m.fshandle);
    c.Field("fileid", m.fileid);
  }
  friend constexpr auto operator<=>(const FileHandle&, const FileHandle&) = default;
  template <class H>
  friend H AbslHashValue(H h, const FileHandle& f) {
    return H::combine(std::move(h), f.fshandle, f.fileid);
  }
};

// dafs_checksum_type (6.1.4). Spec: WIRE section 6; computed by wire/codec/checksum.h.
struct Checksum {
  static constexpr size_t kWireSize = 4;
  static constexpr size_t kWireAlign = 2;

  uint16_t s2 = 0;
  uint16_t s1 = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("S2", m.s2);
    c.Field("S1", m.s1);
  }
  friend constexpr auto operator<=>(const Checksum&, const Checksum&) = default;
};

// dafs_change_info_type (6.1.4): a directory's CHANGE attribute before and after a modification.
struct ChangeInfo {
  static constexpr size_t kWireSize = 24;
  static constexpr size_t kWireAlign = 8;

  uint64_t before = 0;
  uint64_t after = 0;
  bool atomic = false;

  static void Fields(auto& m, auto& c) {
    c.Field("before", m.before);
    c.Field("after", m.after);
    c.Bool32("atomic", m.atomic);
    c.Pad32("pad");
  }
  friend constexpr auto operator<=>(const ChangeInfo&, const ChangeInfo&) = default;
};

// dafs_time_type (6.1.4): since 1970-01-01 00:00 UTC. nseconds is 0 .. 999 999 999.
struct Time {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 8;

  int64_t seconds = 0;
  uint32_t nseconds = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("seconds", m.seconds);
    c.Nseconds("nseconds", m.nseconds);
  }
  friend constexpr auto operator<=>(const Time&, const Time&) = default;  // NOLINT(*-nullptr)
};

// dafs_settime_type (6.1.4): client_time is zero with kSetToServerTime.
struct SetTime {
  static constexpr size_t kWireSize = 24;
  static constexpr size_t kWireAlign = 8;

  Time client_time;
  TimeSetHow how = TimeSetHow::kSetToServerTime;

  static void Fields(auto& m, auto& c) {
    c.Field("client_time", m.client_time);
    c.Field("how", m.how);
  }
  friend constexpr auto operator<=>(const SetTime&, const SetTime&) = default;
};

// dafs_specdata_type (6.1.4): device numbers, major and minor.
struct SpecData {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 8;

  uint64_t specdata1 = 0;
  uint64_t specdata2 = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("specdata1", m.specdata1);
    c.Field("specdata2", m.specdata2);
  }
  friend constexpr auto operator<=>(const SpecData&, const SpecData&) = default;
};

// dafs_ace_type (6.1.4, 4.4.3). `type`, `flag`, `access_mask`: kAce... of
// wire/protocol/constants.h.
struct Ace {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 4;

  uint32_t type = 0;
  uint32_t flag = 0;
  uint32_t access_mask = 0;
  std::string who;

  static void Fields(auto& m, auto& c) {
    c.Field("type", m.type);
    c.Field("flag", m.flag);
    c.Field("access_mask", m.access_mask);
    c.String("who", m.who, kWhoBound, kRequired);
  }
  friend bool operator==(const Ace&, const Ace&) = default;
};

// dafs_pathname_type (6.1.4): components, outermost first.
using Pathname = std::vector<std::string>;

// dafs_fs_location_type (6.1.4). An empty root_path is the server's root.
struct FsLocation {
  static constexpr size_t kWireSize = 8;
  static constexpr size_t kWireAlign = 4;

  std::string server;
  Pathname root_path;

  static void Fields(auto& m, auto& c) {
    c.String("server", m.server, kServerNameBound, kRequired);
    c.RawPath("root_path", m.root_path);
  }
  friend bool operator==(const FsLocation&, const FsLocation&) = default;
};

// dafs_fs_locations (6.1.4). An empty fs_root is the root.
struct FsLocations {
  static constexpr size_t kWireSize = 8;
  static constexpr size_t kWireAlign = 4;

  Pathname fs_root;
  std::vector<FsLocation> locations;

  static void Fields(auto& m, auto& c) {
    c.RawPath("fs_root", m.fs_root);
    c.Array("locations", m.locations, kLocationsMax);
  }
  friend bool operator==(const FsLocations&, const FsLocations&) = default;
};

// dafs_direct_op_buffer_type (6.1.7): memory of the client that the server reads or writes.
struct DirectOpBuffer {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 8;

  uint64_t buffer_address = 0;
  uint32_t buffer_byte_count = 0;
  uint32_t buffer_handle = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("buffer_address", m.buffer_address);
    c.Field("buffer_byte_count", m.buffer_byte_count);
    c.Field("buffer_handle", m.buffer_handle);
  }
  friend constexpr auto operator<=>(const DirectOpBuffer&, const DirectOpBuffer&) = default;
};

// A list of direct buffers. The usual one or two need no allocation.
using DirectOpBuffers = absl::InlinedVector<DirectOpBuffer, 2>;

// The total size of all buffers of a list.
inline uint64_t TotalBytes(const DirectOpBuffers& buffers) {
  uint64_t total = 0;
  for (const DirectOpBuffer& b : buffers) total += b.buffer_byte_count;
  return total;
}

// dafs_file_chunk_type (6.1.7): a range of a file in a batch request.
struct FileChunk {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 8;

  uint64_t offset = 0;
  uint32_t byte_count = 0;
  uint32_t cache_hint = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("offset", m.offset);
    c.Field("byte_count", m.byte_count);
    c.Field("cache_hint", m.cache_hint);
  }
  friend constexpr auto operator<=>(const FileChunk&, const FileChunk&) = default;
};

// dafs_rw_request_type (6.1.7): one request of a batch.
struct RwRequest {
  static constexpr size_t kWireSize = 96;
  static constexpr size_t kWireAlign = 8;

  FileHandle filehandle;
  uint64_t request_id = 0;
  StateId state_id;
  RwFlag rw_flag = RwFlag::kRead;
  absl::InlinedVector<FileChunk, 2> chunks;
  DirectOpBuffers request_buffers;
  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("request_id", m.request_id);
    c.Field("state_id", m.state_id);
    c.Field("rw_flag", m.rw_flag);
    c.Array("chunks", m.chunks, kChunksMax);
    c.Array("request_buffers", m.request_buffers, kBuffersMax);
    c.Field("direct_checksum", m.direct_checksum);
  }
  friend bool operator==(const RwRequest&, const RwRequest&) = default;
};

// dafs_completion_notification_type (6.1.7). `status` is a DAFS status code.
struct CompletionNotification {
  static constexpr size_t kWireSize = 24;
  static constexpr size_t kWireAlign = 8;

  uint64_t request_id = 0;
  uint32_t status = 0;
  uint32_t bytes_transferred = 0;
  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) {
    c.Field("request_id", m.request_id);
    c.Field("status", m.status);
    c.Field("bytes_transferred", m.bytes_transferred);
    c.Field("direct_checksum", m.direct_checksum);
    c.Pad32("pad");
  }
  friend constexpr auto operator<=>(const CompletionNotification&,
                                    const CompletionNotification&) = default;
};

// dafs_auth_req (6.1.9). auth_type selects the fields in use; the others are empty.
struct AuthReq {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 4;

  AuthType auth_type = AuthType::kNone;
  std::string auth_id;                           // kText
  std::string auth_password;                     // kText
  GssProcedure procedure = GssProcedure::kInit;  // kGss
  GssService service = GssService::kAuth;        // kGss
  std::string token;                             // kGss

  static void Fields(auto& m, auto& c) {
    c.Field("auth_type", m.auth_type);
    c.Union("area", 12, 4, [&] {
      if (m.auth_type == AuthType::kText) {
        c.String("auth_id", m.auth_id, kAuthBound, kRequired);
        c.String("auth_password", m.auth_password, kAuthBound);
      } else if (m.auth_type == AuthType::kGss) {
        c.Field("procedure", m.procedure);
        c.Field("service", m.service);
        c.OpaqueBytes("token", m.token, kGssBound);
      }
    });
  }
  friend bool operator==(const AuthReq&, const AuthReq&) = default;
};

// dafs_auth_res (6.1.9).
struct AuthRes {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 4;

  AuthType auth_type = AuthType::kNone;
  uint32_t gss_major = 0;  // kGss
  uint32_t gss_minor = 0;  // kGss
  std::string gss_token;   // kGss

  static void Fields(auto& m, auto& c) {
    c.Field("auth_type", m.auth_type);
    c.Union("area", 12, 4, [&] {
      if (m.auth_type == AuthType::kGss) {
        c.Field("gss_major", m.gss_major);
        c.Field("gss_minor", m.gss_minor);
        c.OpaqueBytes("gss_token", m.gss_token, kGssBound);
      }
    });
  }
  friend bool operator==(const AuthRes&, const AuthRes&) = default;
};

// authtype (6.2.7): one security method of SECINFO.
struct SecInfo {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 4;

  AuthType auth_type = AuthType::kNone;
  std::string oid;                             // kGss: DER contents octets
  uint32_t qop = 0;                            // kGss
  GssService gss_service = GssService::kAuth;  // kGss

  static void Fields(auto& m, auto& c) {
    c.Field("auth_type", m.auth_type);
    c.Union("authinfo", 12, 4, [&] {
      if (m.auth_type == AuthType::kGss) {
        c.OpaqueBytes("oid", m.oid, kOidBound, kRequired);
        c.Field("qop", m.qop);
        c.Field("gss_service", m.gss_service);
      }
    });
  }
  friend bool operator==(const SecInfo&, const SecInfo&) = default;
};

}  // namespace dafs::wire
