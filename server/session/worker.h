// A thread that owns some of the server's sessions: its loop, their domains, and the memory for
// their direct transfers. Workers share no buffers and no connections, only the tables of the store
// (docs/decisions.md, Server). Adopt, EndSuperseded, EndSessionsOf, EndSession, CollectReports,
// CollectCounts, CollectBusyFiles, DropUnusedDomains, Shutdown and sessions() are thread-safe; the
// rest belongs to the worker's thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/log/log_budget.h"
#include "runtime/loop/loop.h"
#include "server/session/session.h"
#include "server/session/shared/busy_files.h"
#include "server/session/transfer/direct_buffers.h"
#include "wire/dat/dat.h"

namespace dafs::server {

class Worker {
 public:
  // Maps the direct memory and starts the thread. `shared` is borrowed.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const Shared& shared);
  ~Worker();  // after Shutdown; joins
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Creates a session from a connection that SessionTable::Admit admitted as `place`.
  void Adopt(std::unique_ptr<dat::PendingEndpoint> pending, SessionTable::Place place);
  // Ends the sessions of clients that a later instance has superseded. Returns at once.
  void EndSuperseded();
  // Ends the sessions of one client. Returns at once.
  void EndSessionsOf(const wire::ClientId& client_id, absl::Status why);
  // Ends the session with this identifier, if it is one of this client. Returns at once.
  void EndSession(const wire::SessionId& session_id, const wire::ClientId& client_id,
                  absl::Status why);
  // Calls `done` on the worker's thread with the reports of its sessions. Returns at once. `done`
  // is dropped if the worker has ended.
  void CollectReports(std::function<void(std::vector<SessionReport>)> done);
  // Calls `done` on the worker's thread with what it has counted. Returns at once. `done` is
  // dropped if the worker has ended.
  void CollectCounts(std::function<void(WorkerCounts)> done);
  // The same with the files that its requests concern most, over the last kRecent.
  static constexpr absl::Duration kRecent = absl::Seconds(10);
  struct BusyReport {
    std::vector<FileUse> files;
    absl::Duration over;  // the time in which these were counted
  };
  void CollectBusyFiles(std::function<void(BusyReport)> done);
  // Ends the reference channels: their clients bind new ones, if they still may. Returns at once.
  void EndReferenceChannels();
  // Releases the domains that no session uses: their device may have been removed, and the system
  // waits until it is closed. Returns at once.
  void DropUnusedDomains();
  // Ends all sessions and then the loop. Returns at once.
  void Shutdown();
  // Waits until they have ended, from another thread. Returns false at `deadline`: then a request
  // of some session still waits for its file system.
  bool AwaitEnd(absl::Time deadline);
  // The number of sessions adopted and not yet gone, for choosing the least busy worker.
  uint32_t sessions() const { return count_; }

  Loop& loop() { return *loop_; }
  DirectBuffers& direct_buffers() { return *direct_buffers_; }
  WorkerCounts& counts() { return counts_; }
  LogBudget& slow_log() { return slow_log_; }
  // A request for `file` is being answered; `bytes` of messages and data.
  void CountUse(const ObjectKey& file, uint64_t bytes) {
    if (!measures_) StartMeasuring();
    busy_files_.Count(file, bytes);
  }
  // Returns the session of this worker with the identifier, or null.
  Session* Find(const wire::SessionId& session_id) const;
  // The session has ended and no work of it runs any more. Destroys it after the calling stack has
  // unwound.
  void Forget(Session* session);

 private:
  // One protection domain per device. No peer may access any region of it, so sessions can share a
  // domain. A reference channel, whose peer reads regions, has one for itself.
  struct Device {
    std::unique_ptr<dat::Domain> domain;
    std::unique_ptr<dat::Region> slab;
  };

  explicit Worker(const Shared& shared) : shared_(shared) {}
  // A session, and the device of a reference channel, which is its own.
  struct Adopted {
    std::unique_ptr<Device> own;
    std::unique_ptr<Session> session;
  };
  absl::StatusOr<std::unique_ptr<Device>> NewDevice(dat::PendingEndpoint& pending,
                                                    std::span<std::byte> slab);
  absl::StatusOr<Device*> DeviceOf(dat::PendingEndpoint& pending);
  absl::Status Open(dat::PendingEndpoint& pending, const SessionTable::Place& place);
  void MaybeStop();
  // Rates and busy files are measured in windows while there are requests.
  void StartMeasuring();
  void TurnWindows();

  const Shared shared_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<DirectBuffers> direct_buffers_;
  std::vector<std::unique_ptr<Device>> devices_;
  absl::flat_hash_map<Session*, Adopted> sessions_;
  WorkerCounts counts_;
  LogBudget slow_log_;
  bool stopping_ = false;
  BusyFiles busy_files_;
  bool measures_ = false;                    // TurnWindows will run
  absl::Time busy_since_, busy_next_since_;  // of the windows of busy_files_
  std::atomic<uint32_t> count_{0};           // publishes nothing but itself
  absl::Notification ended_;
  std::thread thread_;
};

}  // namespace dafs::server
