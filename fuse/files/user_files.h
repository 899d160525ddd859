// Which of a worker's client libraries makes the requests of a user. The operations use that of the
// caller, or, with an open file or directory, that of its opener: the state ids of an open mean
// nothing in another one. All users share the session of the mount.
// Belongs to one worker's thread. Nothing blocks.
#pragma once

#include "client/files/files.h"
#include "client/state/identity.h"
#include "runtime/loop.h"

namespace dafs::fuse {

class UserFiles {
 public:
  // `mount` must outlive it.
  explicit UserFiles(client::Files& mount) : mount_(mount) {}
  UserFiles(const UserFiles&) = delete;
  UserFiles& operator=(const UserFiles&) = delete;

  // For requests of the mount itself: no user made them.
  client::Files& mount() const { return mount_; }
  // For requests of `who`. Valid while the caller holds that identity.
  client::Files& Of(const client::Identity& /*who*/) const { return mount_; }
  // Calls `visit` for each that may have data or opens of a file.
  template <class F>
  void ForEach(F&& visit) const {
    visit(mount_);
  }

  Loop& loop() const { return mount_.loop(); }
  // Which names the server accepts.
  wire::NameRule name_rule() const { return mount_.name_rule(); }

 private:
  client::Files& mount_;
};

}  // namespace dafs::fuse
