// Asynchronous reads and writes between files and the memory of the application, by RDMA where that
// is registered. Spec: FAST03 4 (the DAFS API); 4.2, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
//
// Who owns what, and which thread may do what:
//   - The application makes a loop (runtime/loop.h) and the sessions on it, usually one. All of
//     that belongs to one thread; other threads have loops of their own. No callback ever runs:
//     what has ended waits in its completion group (client/memory/completion_group.h) until it is
//     taken.
//   - Nothing happens between calls. Requests gather until the loop turns next and leave together;
//     CompletionGroup::Poll and Wait turn it, and every synchronous call.
//   - Read, Write and Cancel return at once. Wait blocks, and so do the synchronous calls of
//     client/library/library.h. Opening a session, and a lost session that is built anew, may block
//     the thread for as long as the transport needs to find its route.
//   - Memory given to an I/O is the library's until that has ended: until the answer is there, or
//     the connection dead on which the server could still have reached the memory. That holds after
//     Cancel, too, and after the time of a `soft` client is up. The two lists are copied.
//   - The file, the group and the registration outlive the I/O.
//
// A lost connection and a restarted server are not seen: what was out is issued again on a new
// session, as all of client/files/files.h is. Nothing is allocated for an I/O once it is warm
// (coroutine frames and records are kept), but for one of more than two segments to a request,
// whose list of buffers is; nothing is ever registered for it. Where the server reaches memory by
// windows (client/memory/exposure.h), each is open for its request only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/identity.h"
#include "runtime/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Part of a file. Positions are explicit in every I/O; there is no file pointer.
struct FileRange {
  uint64_t offset = 0;
  uint32_t size = 0;
};

// An open file, as I/O needs it. Stays where it is while an I/O of it is out.
struct IoFile {
  std::string name;  // for messages
  wire::FileHandle handle;
  wire::StateId state_id;
  uint32_t out = 0;  // I/Os that are out
};

struct IoOptions {
  uint64_t cookie = 0;  // comes back with the completion
  // Writes: what must be safe when they end. kUnstable is safe after a commit of the file only, and
  // is written again until then if the server loses it.
  wire::StableHow stability = wire::StableHow::kUnstable;
  uint32_t cache_hint = 0;  // wire::kCacheHint...: for the bytes of this I/O
};

class AsyncIo {
 public:
  static constexpr size_t kMostSegments = 64;  // of one I/O; of its file ranges, too
  static constexpr uint32_t kDefaultMostOut = 256;

  // For I/O of `files` on behalf of `who`; both outlive it. `most_out`: I/Os that are out, or ended
  // and not collected, at once.
  AsyncIo(Files& files, const Identity& who, uint32_t most_out = kDefaultMostOut);
  // After Files::Shutdown, or when nothing is out. What was not collected is forgotten.
  ~AsyncIo();
  AsyncIo(const AsyncIo&) = delete;
  AsyncIo& operator=(const AsyncIo&) = delete;

  // Issues a read of the `from` ranges of `file` into the `into` segments, or a write; both lists
  // are runs of bytes of one length, but need not be cut alike. It ends in `group`.
  // kResourceExhausted: `most_out` are out; kInvalidArgument: the lists are too long, or differ in
  // length; kNotFound, kOutOfRange, kPermissionDenied: of UserMemory::Check. Nothing was issued
  // then.
  absl::StatusOr<IoId> Read(IoFile& file, std::span<const MemorySegment> into,
                            std::span<const FileRange> from, CompletionGroup& group,
                            const IoOptions& options = {});
  absl::StatusOr<IoId> Write(IoFile& file, std::span<const MemorySegment> from,
                             std::span<const FileRange> to, CompletionGroup& group,
                             const IoOptions& options = {});

  // Waits for this one I/O and takes it out of its group. kNotFound: it was collected already.
  absl::StatusOr<IoCompletion> Wait(IoId id);

  // Asks for the end of an I/O. What the server has already cannot be called back: then the I/O
  // ends when its answer comes. It ends with kCancelled unless all of it has been carried out.
  // kNotFound: it was collected already.
  absl::Status Cancel(IoId id);

  size_t out() const { return out_; }

 private:
  class Record;
  struct Piece;
  absl::StatusOr<IoId> Issue(bool write, IoFile& file, std::span<const MemorySegment> segments,
                             std::span<const FileRange> ranges, CompletionGroup& group,
                             const IoOptions& options);
  absl::Status Check(bool write, std::span<const MemorySegment> segments,
                     std::span<const FileRange> ranges) const;
  Record* Find(IoId id);
  dat::Task<void> RunLane(Record& record);
  dat::Task<absl::Status> RunPiece(Record& record, Piece& piece);
  dat::Task<absl::Status> RunStaged(Record& record, Piece& piece);
  bool Stages(const Record& record, uint32_t size) const;

  Files& files_;
  const Identity& who_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<Record*> free_;
  size_t out_ = 0;
};

}  // namespace dafs::client
