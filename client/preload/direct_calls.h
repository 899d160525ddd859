// The functions of the module dafs-direct.so. libdafs-preload.so loads it when a program first
// reads a file of a mount with O_DIRECT. So programs that never do load nothing more. Both are of
// one version, which `version` carries.
//
// A client is this process at one server. It has lanes, each with a session, which one thread at a
// time may use. All lanes may use a file.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "runtime/direct_ioctl.h"

namespace dafs::preload {

inline constexpr char kDirectEntry[] = "dafs_direct_calls";

enum class ReadEnd : uint8_t {
  kRead,
  // Not read. The session was lost meanwhile, so that the server may have lost data that the mount
  // writes again: the mount decides what the file contains.
  kSessionLost,
  kFailed,  // not read
};

struct DirectCalls {
  const char* version = nullptr;  // DAFS_VERSION
  // Makes the client of the server and export of `where`, for the present user of the process.
  // Null: failed, as all of these, with the reason in `why`.
  void* (*make_client)(const DirectIoctl& where, char* why, size_t why_size) = nullptr;
  // Connects. Blocks for at most a few seconds.
  void* (*make_lane)(void* client, char* why, size_t why_size) = nullptr;
  void (*end_lane)(void* lane) = nullptr;
  // A file, by its filehandle. Sends nothing. Null also: `where` has another server or export, or
  // the process another user, than the client. *again: the session was lost after `where` was made.
  void* (*open)(void* lane, const DirectIoctl& where, bool* again, char* why,
                size_t why_size) = nullptr;
  void (*close)(void* file) = nullptr;
  // Reads into at most kMostSegments pieces of memory. *count: bytes; fewer only at the end of the
  // file.
  ReadEnd (*read)(void* lane, void* file, const iovec* into, int segments, uint64_t offset,
                  int64_t* count) = nullptr;
};
inline constexpr int kMostSegments = 64;

using DirectEntry = const DirectCalls* (*)();

}  // namespace dafs::preload
