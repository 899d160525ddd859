// The paths to the server: each address by each transport. Which of them lead to one server, which
// work, and how many sessions use each. The sessions of a client are spread over the paths to one
// server; a session whose path fails takes another one. Spec: A.5 (several locations of one
// server), A.5 (the addresses of a name change); WIRE 9.5 (SERVER_IDENTITY). Thread-safe; nothing
// blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "wire/dat/address.h"
#include "wire/dat/dat.h"
#include "wire/messages/server_identity.h"

namespace dafs::client {

// With several paths, one on which nothing is acknowledged for this long is given up.
inline constexpr absl::Duration kPathTimeout = absl::Seconds(2);

// Whether sessions can be spread: two of `addresses` are of one family. An IPv4 and an IPv6 address
// of a host usually share its link, so one of them only replaces the other.
bool HaveSeveralPaths(const std::vector<dat::Address>& addresses);

class Paths {
 public:
  // `name`: for log lines. `retry`: ClientOptions::path_retry. The providers outlive this.
  Paths(std::string name, const std::vector<dat::Provider*>& providers,
        const std::vector<dat::Address>& addresses, absl::Duration retry);
  Paths(const Paths&) = delete;
  Paths& operator=(const Paths&) = delete;

  // From now on the server has these addresses, at least one, in this order. Sessions stay on the
  // paths that they use, also on one that is not listed any more. Nothing known of a path is lost.
  void Replace(const std::vector<dat::Address>& addresses) ABSL_LOCKS_EXCLUDED(mutex_);
  // Addresses to which the server may move (5.3). Sessions use them only if no other path leads to
  // it, and from then on, once one has led to this server.
  void SetAlternates(const std::vector<dat::Address>& addresses) ABSL_LOCKS_EXCLUDED(mutex_);
  // In the order of the latest list.
  std::vector<dat::Address> addresses() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Those, then the alternates to which the server has moved.
  std::vector<dat::Address> ReachableAddresses() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is another address to try, also an alternate one.
  bool several() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Paths have numbers below this. It grows if addresses are added.
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);
  // `path` must have a Use.
  dat::Provider& provider(size_t path) const ABSL_LOCKS_EXCLUDED(mutex_);
  dat::Address address(size_t path) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts a session on a path, from its first attempt to its end. While a path has a Use, its
  // number means the same path.
  class Use {
   public:
    Use(Use&& other) noexcept
        : paths_(std::exchange(other.paths_, nullptr)),
          path_(other.path_),
          weight_(other.weight_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(paths_, other.paths_);
      std::swap(path_, other.path_);
      std::swap(weight_, other.weight_);
      return *this;
    }
    ~Use();
    size_t path() const { return path_; }

   private:
    friend class Paths;
    Use(Paths* paths, size_t path, size_t weight) : paths_(paths), path_(path), weight_(weight) {}
    Paths* paths_;
    size_t path_;
    size_t weight_;  // 0: it is not counted
  };

  // The path that a session tries next, which is none of `tried` (a flag for each path; those
  // without a flag were not tried): one that works before one that has failed, then in the order of
  // transports, then the one with the fewest sessions. While the server does not say which one it
  // is, sessions are not spread. nullopt: all were tried. `counts`: the session counts; the control
  // session has too little traffic. `alternates`: those to which the server has not moved yet are
  // tried, too.
  std::optional<Use> Choose(const std::vector<bool>& tried, bool counts, bool alternates = false)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A session reached a server through `path`. `identity` is what that server reported; nullopt:
  // nothing, which is an error for an alternate. kUnavailable: that is another server than that of
  // the other paths, so no session may use it. If all paths that ever reached a server now say the
  // same, the server was replaced, and the new one is taken. Logs both.
  absl::Status Reached(size_t path, const std::optional<wire::ServerIdentityRes>& identity)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The path led to no session, or lost one.
  void Failed(size_t path, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // A failed path by the transport of `like` that is to be tried again now, not counted; nullopt:
  // none. None by RDMA, since finding its route blocks. The pause until the next time grows.
  std::optional<Use> DueProbe(size_t like, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // A working path by the same transport to which the session on `path` should change, so that
  // sessions are spread evenly; counted at once, so that two sessions do not both change. nullopt:
  // it should stay.
  std::optional<Use> Better(size_t path) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Report {
    std::string address;
    std::string transport;
    size_t sessions = 0;
    std::string state;  // "works", "failed", "another server", "unused", "not listed", "alternate"
  };
  std::vector<Report> GetReport() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Path {
    size_t transport = 0;  // an index of providers_
    dat::Address address;
    bool is_listed = true;
    bool is_kept = false;       // listed as an alternate, also if Replace does not list it
    bool is_alternate = false;  // and has not led to the server yet
    size_t position = 0;        // of its address in the list
    size_t uses = 0;
    size_t sessions = 0;
    bool was_reached = false;
    bool has_failed = false;                          // since it was last reached
    bool is_foreign = false;                          // another server
    std::optional<wire::ServerIdentityRes> identity;  // what its server said last
    absl::Time next_probe;
    absl::Duration probe_pause;
  };

  Path& Place(size_t transport, const dat::Address& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Use Take(size_t path, size_t weight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReserve(size_t path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  auto RankOf(size_t path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSame(const std::optional<wire::ServerIdentityRes>& identity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(size_t path, size_t weight) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name_;
  const std::vector<dat::Provider*> providers_;
  const absl::Duration retry_;
  mutable absl::Mutex mutex_;
  std::vector<dat::Address> addresses_ ABSL_GUARDED_BY(mutex_);
  bool several_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_alternates_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Path> paths_ ABSL_GUARDED_BY(mutex_);
  // The server of this client, and the family of the address at which it was found. nullopt: not
  // reached yet, or it does not say.
  std::optional<wire::ServerIdentityRes> server_ ABSL_GUARDED_BY(mutex_);
  int family_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs::client
