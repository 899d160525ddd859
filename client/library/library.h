// libdafs in a program of one's own: an export, sessions with it, and what a program does with
// files beside reading and writing them asynchronously (client/library/async_io.h, where threads,
// blocking and memory are explained). Spec: FAST03 4; DAFS 2.4.1 (a user-level library).
//
// A Library is thread-safe. An ExportSession belongs to the thread of its loop; its calls block,
// but for those of io(), and keep the loop turning meanwhile: what is out goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/library/async_io.h"
#include "client/library/batch_io.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/client.h"
#include "client/state/identity.h"
#include "runtime/loop.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class LeaseKeeper;

struct LibraryOptions {
  std::string server;       // "host", "host:port", "[v6]:port"
  std::string export_path;  // "/data"
  // Tried in order: NewVerbsProvider (wire/dat/verbs/verbs.h), NewIwarpProvider
  // (wire/dat/iwarp/iwarp.h). Borrowed. They connect from ports below 1024; a program that may not
  // bind one connects from any port, which takes an export that is `insecure`.
  std::vector<dat::Provider*> providers;
  // Everything else. Names, addresses and providers in it are filled in; an empty client_id_string
  // is made unique to this library: another process is another client.
  ClientOptions client;
  // A thread with a session of its own keeps the client's opens alive while the program does
  // nothing with them. Without it they are opened anew when they have run out.
  bool keep_leases = true;
};

// One client of one export.
class Library {
 public:
  // Finds the server's addresses. kInvalidArgument, kNotFound, kUnavailable.
  static absl::StatusOr<std::unique_ptr<Library>> Open(LibraryOptions options);
  ~Library();  // after its sessions
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Client& client() { return *client_; }
  // An open owner that nobody else has (4.4.1.1).
  std::string NewOwner();

 private:
  Library() = default;
  std::unique_ptr<Client> client_;
  std::unique_ptr<LeaseKeeper> lease_keeper_;
  std::atomic<uint64_t> owners_{0};
};

struct FileOptions {
  bool write = false;
  bool create = false;    // with `mode`, if there is none
  bool truncate = false;  // an existing one is cut to nothing
  uint32_t mode = 0644;
};

// One session with the export, on behalf of one user.
class ExportSession {
 public:
  // Connects. The library and the loop outlive the session. `most_out`: client/library/async_io.h.
  // Errors as of Files::Connect and Files::Mount.
  static absl::StatusOr<std::unique_ptr<ExportSession>> Open(
      Library& library, dat::Loop& loop, Identity who,
      uint32_t most_out = AsyncIo::kDefaultMostOut);
  // Disconnects, which waits at most two seconds. What is out ends with kCancelled, and is
  // forgotten if nobody collected it.
  ~ExportSession();
  ExportSession(const ExportSession&) = delete;
  ExportSession& operator=(const ExportSession&) = delete;

  // ---- Memory (client/memory/user_memory.h) -----------------------------------------------------

  absl::StatusOr<MemoryHandle> Register(std::span<std::byte> memory, MemoryAccess access);
  absl::Status Deregister(MemoryHandle handle);

  // ---- Files ---------------------------------------------------------------------------------

  // `path` is relative to the export: "dir/file". A file may be used by all sessions of its
  // library.
  absl::StatusOr<std::unique_ptr<IoFile>> OpenFile(std::string_view path,
                                                   const FileOptions& options = {});
  // kFailedPrecondition: an I/O of it is out; it stays open.
  absl::Status CloseFile(IoFile& file);
  absl::StatusOr<wire::FileAttributes> Stat(const IoFile& file);
  // Until now's writes are safe: fsync(2).
  absl::Status Commit(const IoFile& file);

  // ---- Reading and writing -------------------------------------------------------------------

  // One I/O, waited for: the bytes moved, fewer at the end of the file only.
  absl::StatusOr<uint64_t> Read(IoFile& file, const MemorySegment& into, uint64_t offset);
  absl::StatusOr<uint64_t> Write(IoFile& file, const MemorySegment& from, uint64_t offset);
  AsyncIo& io() { return *io_; }
  // Many at a time, and in no hurry (client/library/batch_io.h).
  BatchIo& batches() { return *batches_; }
  // What the program is going to do with `file`, and with `count` bytes from `offset` on (0: to the
  // end). The server does as it likes.
  absl::Status CacheHint(const IoFile& file, uint64_t offset, uint32_t count,
                         wire::AccessPattern pattern, uint32_t cache_hint);

  // All that the protocol can; RunUntilDone (runtime/run.h) waits for it.
  Files& files() { return *files_; }
  dat::Loop& loop() { return loop_; }
  const Node& root() const { return root_; }
  const Identity& who() const { return who_; }

 private:
  ExportSession(Library& library, dat::Loop& loop, Identity who);
  absl::Status Connect(uint32_t most_out);
  absl::StatusOr<wire::FileHandle> Walk(std::string_view path, std::string* name);
  absl::StatusOr<uint64_t> Finish(absl::StatusOr<IoId> id);

  Library& library_;
  dat::Loop& loop_;
  const Identity who_;
  std::unique_ptr<Files> files_;
  CompletionGroup group_;  // of the synchronous calls
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<BatchIo> batches_;
  Node root_;
};

}  // namespace dafs::client
