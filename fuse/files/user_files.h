// Which of a worker's client libraries makes the requests of a user. The operations use that of the
// caller, or, with an open file or directory, that of its opener: the state ids of an open mean
// nothing in another one. With sec=krb5 each user but root has a session with the tickets of that
// user (UserClients). Otherwise, all users share the session of the mount.
//
// Ends the Files of users that are not used any more, and keeps the leases of those that have
// opens. Belongs to one worker's thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/state/records/identity.h"
#include "fuse/files/user_clients.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class UserFiles {
 public:
  // `mount` must outlive it. All users share it.
  explicit UserFiles(client::Files& mount) : mount_(mount) {}
  // Each user has a session of `users`, which must outlive it. `refused` has been shut down: it
  // makes the requests of a user whose session cannot be made, for want of memory.
  UserFiles(client::Files& mount, UserClients& users, std::unique_ptr<client::Files> refused);
  ~UserFiles();  // after Shutdown
  UserFiles(const UserFiles&) = delete;
  UserFiles& operator=(const UserFiles&) = delete;

  // On the worker's thread, before the first request.
  void Begin();
  // Ends everything now, after the loop has ended.
  void Shutdown();

  // For requests of the mount itself: no user made them.
  client::Files& mount() const { return mount_; }
  // For requests of `user`. Valid while the caller holds that identity (CallerOf), or its open.
  client::Files& Of(const client::Identity& user) {
    return users_ == nullptr || user.uid == 0 ? mount_ : OfUser(user.uid);
  }
  // Whether users have sessions of their own.
  bool has_users() const { return users_ != nullptr; }
  // Whether they are of one session: otherwise neither knows the opens of the other.
  bool AreShared(const client::Identity& a, const client::Identity& b) const {
    return users_ == nullptr || a.uid == b.uid;
  }
  // Calls `visit` for each that this worker has, that of the mount first.
  template <class F>
  void ForEach(F&& visit) {
    visit(mount_);
    for (auto& [uid, own] : own_) visit(*own->files);
  }

  // Commits the data of `file` that other users than `user` have written. Each user's session keeps
  // its own data: without this, the server could get older data of one after newer data of another
  // (client/recovery/committer.h).
  Task<void> CommitOfOthers(const client::Identity& user, const wire::FileHandle& file);
  // CommitOperations::TakeFailure of all users.
  absl::Status TakeFailure(const wire::FileHandle& file);
  // CommitOperations::CommitAll, CommitSoon and all_committed of all users of this worker.
  void CommitSoon();
  void CommitAll(const std::function<void()>& done);
  bool AllCommitted() const;
  // Files::Disconnect of all.
  Task<void> Disconnect();

  Loop& loop() const { return mount_.loop(); }
  // Which names the server accepts.
  wire::NameRule name_rule() const { return mount_.name_rule(); }

 private:
  struct Own {
    std::shared_ptr<UserClient> user;
    std::unique_ptr<client::Files> files;
    bool renews = false;  // a NULL is outstanding
  };

  client::Files& OfUser(uint32_t uid);
  void DropEnded();
  void Tend();
  Task<void> End(Own* own);
  Task<void> Renew(Own* own);
  Task<void> DisconnectOne(client::Files& files, size_t* left, Pending<bool>* done);

  client::Files& mount_;
  UserClients* const users_ = nullptr;
  const std::unique_ptr<client::Files> refused_;
  uint64_t version_ = 0;  // of users_, when DropEnded was called
  absl::flat_hash_map<uint32_t, std::unique_ptr<Own>> own_;
  std::vector<std::unique_ptr<Own>> ending_;
  Loop::TimerId timer_ = 0;
  bool is_shut_down_ = false;
};

}  // namespace dafs::fuse
