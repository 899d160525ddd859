// libdafs for programs: an export, sessions with it, and operations on files other than
// asynchronous reads and writes. See client/library/async_io.h for those, and for threads, blocking
// and memory.
// Spec: FAST03 4; DAFS 2.4.1 (a user-level library).
//
// Errors name the server, the export and the call.
//
// A Library is thread-safe. An ExportSession belongs to the thread of its loop. Its calls block,
// except those of io(). They turn the loop meanwhile, so outstanding I/O makes progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/library/async_io.h"
#include "client/library/batch_io.h"
#include "client/library/lock_calls.h"
#include "client/library/path_calls.h"
#include "client/library/reference_reads.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/client.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class LeaseKeeper;

struct LibraryOptions {
  std::string server;       // "host", "host:port", "[v6]:port"
  std::string export_path;  // "/data"
  // Tried in order: NewVerbsProvider (wire/dat/verbs/verbs.h), NewIwarpProvider
  // (wire/dat/iwarp/iwarp.h). Borrowed. They connect from a port below 1024. A program without the
  // right to bind one connects from any port; the export must then be `insecure`.
  std::vector<dat::Provider*> providers;
  // All other options. The library fills in names, addresses and providers. It replaces an empty
  // client_id_string by one that is unique to this library, because another process is another
  // client.
  ClientOptions client;
  // If true, a thread with its own session renews the leases of the client's opens while the
  // program does not use them. Otherwise an expired open is opened again.
  bool keep_leases = true;
};

// One client of one export.
class Library {
 public:
  // Resolves the server's addresses. kInvalidArgument, kNotFound, kUnavailable.
  static absl::StatusOr<std::unique_ptr<Library>> Open(LibraryOptions options);
  ~Library();  // after its sessions
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Client& client() { return *client_; }
  // Returns an open owner that no other caller has (4.4.1.1).
  std::string NewOwner();

 private:
  Library() = default;
  std::unique_ptr<Client> client_;
  std::unique_ptr<LeaseKeeper> lease_keeper_;
  std::atomic<uint64_t> owners_{0};
};

struct FileOptions {
  bool write = false;
  bool create = false;     // with `mode`, if the file does not exist
  bool exclusive = false;  // with `create`: EXIST if the file exists
  bool truncate = false;   // sets the size of an existing file to zero
  // Creates a file without a name in the directory of the path. The last close removes it.
  bool unlinked = false;
  uint32_t mode = 0644;
  // Denied to other opens meanwhile: wire::kShareRead, kShareWrite, kShareBoth (6.5.24).
  // DENIED: another open conflicts.
  uint32_t share_deny = wire::kShareDenyNone;
  // While the file is open with a key, every open that gives another key fails with KEY_MISMATCH
  // (4.4.2).
  std::optional<uint64_t> share_key;
  bool deny_delete = false;  // no client removes or renames the file while it is open (6.5.24)
  // How the program will use the file; sent as CACHE_HINT after the open. The server need not
  // follow it.
  wire::AccessPattern pattern = wire::AccessPattern::kNormal;
};

// One session with the export, on behalf of one user.
class ExportSession {
 public:
  // Connects. The library and the loop outlive the session. `most_out`: client/library/async_io.h.
  // Errors as of Files::Connect and Files::Mount.
  static absl::StatusOr<std::unique_ptr<ExportSession>> Open(
      Library& library, Loop& loop, Identity user, uint32_t most_out = AsyncIo::kDefaultMostOut);
  // Disconnects, and waits for that at most two seconds. Outstanding I/O ends with kCancelled; its
  // completions are dropped if they were not collected.
  ~ExportSession();
  ExportSession(const ExportSession&) = delete;
  ExportSession& operator=(const ExportSession&) = delete;

  // ---- Memory (client/memory/user_memory.h) -----------------------------------------------------

  absl::StatusOr<MemoryHandle> Register(std::span<std::byte> memory, MemoryAccess access);
  absl::Status Deregister(MemoryHandle handle);

  // ---- Files ---------------------------------------------------------------------------------

  // `path` is relative to the export: "dir/file". All sessions of the library may use the file.
  absl::StatusOr<std::unique_ptr<IoFile>> OpenFile(std::string_view path,
                                                   const FileOptions& options = {});
  // Releases its locks and what it keeps from other opens. kFailedPrecondition: an I/O of the file
  // is outstanding; it stays open.
  absl::Status CloseFile(IoFile& file);
  absl::StatusOr<wire::FileAttributes> Stat(const IoFile& file);
  // The file is open for writing.
  absl::Status Truncate(const IoFile& file, uint64_t size);
  // Makes all writes so far stable, as fsync(2).
  absl::Status Commit(const IoFile& file);
  // Calls by path: list, mkdir, remove, rename, attributes, VERIFY and NVERIFY, fencing lists.
  // ClientOptions::fence_id is the id of this library in fencing lists.
  PathCalls& paths() { return *paths_; }
  // Locks of byte ranges, of all kinds.
  LockCalls& locks() { return *locks_; }

  // ---- Reading and writing -------------------------------------------------------------------

  // One I/O, and waits for it. Returns the bytes moved; fewer only at the end of the file.
  absl::StatusOr<uint64_t> Read(IoFile& file, const MemorySegment& into, uint64_t offset);
  absl::StatusOr<uint64_t> Write(IoFile& file, const MemorySegment& from, uint64_t offset);
  // Writes `data` at the end of the file, whatever other clients append meanwhile, and returns its
  // offset. All of it is appended, or nothing. Copies. WRITE_TOOBIG: more than the server appends
  // at once.
  absl::StatusOr<uint64_t> Append(const IoFile& file, std::span<const std::byte> data);
  AsyncIo& io() { return *io_; }
  // Reads by reference (client/library/reference_reads.h): what they have done, and whether they
  // are possible now. Null: ClientOptions::reference_directory_bytes is 0.
  const ReferenceReads* references() const { return references_.get(); }
  // Requests references to the blocks of `count` bytes from `offset` on, so that the first read of
  // each needs no request. Returns the number of blocks. UNAVAILABLE: not possible now.
  absl::StatusOr<uint32_t> FetchReferences(IoFile& file, uint64_t offset, uint64_t count);
  // Many I/Os in one request, not urgent (client/library/batch_io.h).
  BatchIo& batches() { return *batches_; }
  // How the program will use `file`, and `count` bytes of it from `offset` on (0: to the end). The
  // server need not follow it.
  absl::Status CacheHint(const IoFile& file, uint64_t offset, uint32_t count,
                         wire::AccessPattern pattern, uint32_t cache_hint);

  // All operations of the protocol; RunUntilDone (runtime/loop/run.h) waits for one.
  Files& files() { return *files_; }
  Loop& loop() { return loop_; }
  const Node& root() const { return root_; }
  const Identity& user() const { return user_; }

 private:
  ExportSession(Library& library, Loop& loop, Identity user);
  absl::Status Connect(uint32_t most_out);
  absl::StatusOr<std::unique_ptr<IoFile>> OpenPath(std::string_view path,
                                                   const FileOptions& options);
  absl::StatusOr<uint64_t> AppendAll(const IoFile& file, std::span<const std::byte> data);
  absl::StatusOr<uint64_t> Finish(absl::StatusOr<IoId> id);

  Library& library_;
  Loop& loop_;
  const Identity user_;
  std::unique_ptr<Files> files_;
  CompletionGroup group_;  // for the synchronous calls
  std::unique_ptr<ReferenceReads> references_;
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<BatchIo> batches_;
  Node root_;
  std::unique_ptr<PathCalls> paths_;
  std::unique_ptr<LockCalls> locks_;
};

}  // namespace dafs::client
