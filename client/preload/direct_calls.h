// The functions of the module dafs-direct.so. libdafs-preload.so loads the module when a program
// first reads a file of a mount with O_DIRECT; other programs never load it. The preload library
// uses the module only if both have the same `version`.
//
// A client stands for this process at one server. It has several lanes, each with a session, and
// one thread at a time may use a lane. Every lane can read every open file.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "runtime/files/direct_ioctl.h"

namespace dafs::preload {

inline constexpr char kDirectEntry[] = "dafs_direct_calls";

enum class ReadEnd : uint8_t {
  kRead,
  // Not read: the session was lost. The server may have lost written data, which the mount then
  // writes again. So the mount must read.
  kSessionLost,
  kFailed,  // not read
};

struct DirectCalls {
  const char* version = nullptr;  // DAFS_VERSION
  // Makes a client of the server and export of `where`, with the present user of the process. Null,
  // here and below: failed, with the reason in `why`.
  void* (*make_client)(const DirectIoctl& where, char* why, size_t why_size) = nullptr;
  // Connects. Blocks for at most a few seconds.
  void* (*make_lane)(void* client, char* why, size_t why_size) = nullptr;
  void (*end_lane)(void* lane) = nullptr;
  // Opens a file by its filehandle, without a request. Also null: the client has another server,
  // export or user than `where` and the process. *again: the session was lost after `where` was
  // made; make it again.
  void* (*open)(void* lane, const DirectIoctl& where, bool* again, char* why,
                size_t why_size) = nullptr;
  void (*close)(void* file) = nullptr;
  // Reads into at most kMostSegments pieces of memory. *count: the bytes read, fewer than wanted
  // only at the end of the file.
  ReadEnd (*read)(void* lane, void* file, const iovec* into, int segments, uint64_t offset,
                  int64_t* count) = nullptr;
};
inline constexpr int kMostSegments = 64;

using DirectEntry = const DirectCalls* (*)();

}  // namespace dafs::preload
