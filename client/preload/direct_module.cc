// The module dafs-direct.so: sessions of libdafs for libdafs-preload.so.
#include <sys/fsuid.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "client/files/shared/session_observer.h"
#include "client/library/library.h"
#include "client/library/own_groups.h"
#include "client/preload/direct_calls.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/run.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::preload {
namespace {

// Longer than the pause after which a server that restarts is back. Then the mount reads, and waits
// as its options say.
constexpr absl::Duration kTimeout = absl::Seconds(3);
// Reads up to this size arrive inside of their response, which is copied to the program.
constexpr uint32_t kInlineBytes = 12288;
constexpr size_t kBufferBytes = size_t{8} << 20;

struct DirectClient {
  std::string server;
  std::string export_path;
  uint32_t flags = 0;
  client::Identity user;
  std::unique_ptr<dat::Provider> tcp;
  std::unique_ptr<client::Library> library;  // after the provider
};

// A session, and whether it is the first of its lane.
class Lane final : public client::SessionObserver {
 public:
  explicit Lane(DirectClient& client) : client_(client) {}
  virtual ~Lane() {
    if (session_ == nullptr) return;
    session_->files().StopObserving(*this);
    group_.reset();
  }
  absl::Status Connect() {
    absl::StatusOr<std::unique_ptr<Loop>> loop = Loop::Create();
    if (!loop.ok()) return loop.status();
    loop_ = *std::move(loop);
    absl::StatusOr<std::unique_ptr<client::ExportSession>> session =
        client::ExportSession::Open(*client_.library, *loop_, client_.user, /*most_out=*/4);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    group_ = std::make_unique<client::CompletionGroup>(*loop_);
    session_->files().Observe(*this);
    was_lost_ = false;
    return absl::OkStatus();
  }

  DirectClient& client() { return client_; }
  client::ExportSession& session() { return *session_; }
  Loop& loop() { return *loop_; }
  client::CompletionGroup& group() { return *group_; }
  bool TakeLoss() { return std::exchange(was_lost_, false); }

  void SessionReady(client::Session&) override {}
  void SessionLost() override { was_lost_ = true; }
  void Shutdown() override {}

 private:
  DirectClient& client_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<client::ExportSession> session_;
  std::unique_ptr<client::CompletionGroup> group_;
  bool was_lost_ = false;
};

// A file, without an open at the server. The server checks each read as it does an open. A program
// that is killed, or waits for the mount while the server restarts, cannot reclaim an open, and all
// clients would wait for the end of the grace period.
struct DirectFile {
  wire::FileHandle handle;
};

client::Identity PresentUser() {
  client::Identity user;
  user.uid = static_cast<uint32_t>(setfsuid(static_cast<uid_t>(-1)));  // changes nothing
  user.gid = static_cast<uint32_t>(setfsgid(static_cast<gid_t>(-1)));
  user.groups = client::OwnGroups();
  return user;
}

void* Failed(const absl::Status& status, char* why, size_t why_size) {
  std::snprintf(why, why_size, "%.*s", static_cast<int>(status.message().size()),
                status.message().data());
  return nullptr;
}

void* MakeClient(const DirectIoctl& where, char* why, size_t why_size) {
  SetLogLevel(static_cast<Severity>(0));  // the program's standard error and syslog are its own
  auto made = std::make_unique<DirectClient>();
  made->server = where.server;
  made->export_path = where.export_path;
  made->flags = where.flags;
  made->user = PresentUser();
  made->tcp = dat::NewIwarpProvider({.want_crc = (where.flags & kDirectIoctlCrc) != 0});
  client::LibraryOptions options;
  options.server = made->server;
  options.export_path = made->export_path;
  options.providers = {made->tcp.get()};
  options.keep_leases = false;  // nothing is open: no thread in the program is needed
  client::ClientOptions& client = options.client;
  client.checksums = (where.flags & kDirectIoctlChecksum) != 0;
  client.keep_atime = (where.flags & kDirectIoctlNoAtime) != 0;
  client.soft = true;
  client.timeout = client.connect_timeout = kTimeout;
  client.inline_read_bytes = kInlineBytes;
  client.buffers.bytes = kBufferBytes;
  absl::StatusOr<std::unique_ptr<client::Library>> library =
      client::Library::Open(std::move(options));
  if (!library.ok()) return Failed(library.status(), why, why_size);
  made->library = *std::move(library);
  return made.release();
}

void* MakeLane(void* client, char* why, size_t why_size) {
  auto lane = std::make_unique<Lane>(*static_cast<DirectClient*>(client));
  const absl::Status status = lane->Connect();
  if (!status.ok()) return Failed(status, why, why_size);
  return lane.release();
}

void EndLane(void* lane) { delete static_cast<Lane*>(lane); }

void* OpenFile(void* of, const DirectIoctl& where, bool* again, char* why, size_t why_size) {
  Lane& lane = *static_cast<Lane*>(of);
  const DirectClient& client = lane.client();
  if (client.server != where.server || client.export_path != where.export_path ||
      client.flags != where.flags) {
    return Failed(absl::FailedPreconditionError("a process reads files of one mount only"), why,
                  why_size);
  }
  if (client.user != PresentUser()) {
    return Failed(absl::FailedPreconditionError("the process has changed its user"), why, why_size);
  }
  wire::FileHandle handle;
  static_assert(sizeof(where.filehandle) ==
                sizeof(handle.fshandle.bytes) + sizeof(handle.fileid.bytes));
  std::memcpy(handle.fshandle.bytes.data(), where.filehandle, sizeof(handle.fshandle.bytes));
  std::memcpy(handle.fileid.bytes.data(), where.filehandle + sizeof(handle.fshandle.bytes),
              sizeof(handle.fileid.bytes));
  *again = lane.TakeLoss();
  if (*again) return Failed(absl::UnavailableError("the session was lost"), why, why_size);
  return new DirectFile{handle};
}

void CloseFile(void* file) { delete static_cast<DirectFile*>(file); }

ReadEnd ReadFile(void* of, void* file, const iovec* into, int segments, uint64_t offset,
                 int64_t* count) {
  Lane& lane = *static_cast<Lane*>(of);
  std::array<client::MemorySegment, kMostSegments> list;
  client::FileRange range{offset, 0};
  for (int i = 0; i < segments; ++i) {
    const iovec& from = into[static_cast<size_t>(i)];
    list[static_cast<size_t>(i)] = {
        static_cast<std::byte*>(from.iov_base), static_cast<uint32_t>(from.iov_len), {}};
    range.size += static_cast<uint32_t>(from.iov_len);
  }
  const DirectFile& opened = *static_cast<DirectFile*>(file);
  client::IoFile io;  // of this I/O alone: other lanes may read the file, too
  io.handle = opened.handle;
  client::AsyncIo& ios = lane.session().io();
  const absl::StatusOr<client::IoId> id =
      ios.Read(io, {list.data(), static_cast<size_t>(segments)}, {&range, 1}, lane.group());
  if (!id.ok()) return ReadEnd::kFailed;
  const absl::StatusOr<client::IoCompletion> end = ios.Wait(*id);
  if (lane.TakeLoss()) return ReadEnd::kSessionLost;
  if (!end.ok() || !end->status.ok()) return ReadEnd::kFailed;
  *count = static_cast<int64_t>(end->count);
  return ReadEnd::kRead;
}

constexpr DirectCalls kCalls = {.version = DAFS_VERSION,
                                .make_client = MakeClient,
                                .make_lane = MakeLane,
                                .end_lane = EndLane,
                                .open = OpenFile,
                                .close = CloseFile,
                                .read = ReadFile};

}  // namespace
}  // namespace dafs::preload

#pragma GCC visibility push(default)
extern "C" const dafs::preload::DirectCalls* dafs_direct_calls() { return &dafs::preload::kCalls; }
#pragma GCC visibility pop
