// A thread that keeps a client's leases alive and answers dafsctl. It has its own loop and its own
// session, the control session. A request on any session renews all leases of the client, so it
// sends NULL only while the workers send nothing. The server announces changes over this session
// (client/status/promise_keeper.h).
// Spec: 4.5 (leases), 6.5.1; WIRE 5.3 LEASE_TIME, 9.6.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/state/client.h"
#include "client/state/promises.h"
#include "client/status/mount_report.h"

namespace dafs::client {

struct LeaseKeeperOptions {
  // dafsctl finds the mount by a socket in this directory (made with mode 0700, or for the group
  // dafs), named after the mount point. Empty: no socket.
  std::string socket_directory = "/run/dafs";
  std::string cpu_latency;  // for dafsctl: how fast idle CPUs wake up
  absl::Duration slow;      // for dafsctl: -o slow=
  std::string options;      // for -o remount: the mount options, separated by commas
  // Answers what the keeper itself does not; nullopt: unknown. `by_owner`: root or the user of this
  // process asks, not the group dafs. On the keeper's thread; must not block. May be null.
  std::function<std::optional<absl::StatusOr<std::string>>(std::string_view request, bool by_owner)>
      answer;
  uint64_t restarts = 0;    // how often another program has continued this mount
  absl::Time restarted_at;  // wall clock
  // The users who have sessions. On the keeper's thread; must not block. May be null.
  std::function<std::vector<UserReport>()> users = {};
  // With ClientOptions::callbacks: drops what is cached under promises. Null: nothing is. Must
  // outlive the keeper.
  PromiseObserver* promise_observer = nullptr;
};

class LeaseKeeper {
 public:
  // Starts the thread. If the socket cannot be made, that is logged and is not an error. `client`
  // must outlive this.
  static absl::StatusOr<std::unique_ptr<LeaseKeeper>> Start(Client& client,
                                                            const LeaseKeeperOptions& options);
  // Ends the session and joins the thread. The workers' loops may run or have ended.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // For a restart of the mount (docs/restart.md): ends promises and delegations, and requests no
  // more until Resume. `ended` runs on any thread, when nothing is cached any more that was
  // promised; delegations may still be on their way back.
  void Suspend(absl::AnyInvocable<void()> ended);
  void Resume();

  // For dafsctl: how the kernel's requests arrive.
  void SetRequestsBy(std::string requests_by);

  // The path of the socket of `mount_point` in `directory`.
  static std::string SocketPath(const std::string& directory, const std::string& mount_point);
  // Whether a file of that directory is such a socket. dafsd may have one there, too.
  static bool IsSocketName(std::string_view name);

 private:
  class Impl;
  explicit LeaseKeeper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dafs::client
