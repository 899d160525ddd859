// Shared by the groups of operations of one worker: the state of the mount, the client library,
// and the answers and waits that several groups need. Belongs to one worker's thread.
#pragma once

#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/channel.h"
#include "fuse/operations/shared/attribute_replies.h"
#include "fuse/operations/shared/entry_replies.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/pending_writes.h"
#include "fuse/operations/shared/record_lock_owners.h"
#include "fuse/operations/shared/server_opens.h"
#include "fuse/request/caller_proc.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

struct Context {
  // All three must outlive it.
  Context(MountState& state_in, UserFiles& files_in, KernelChannel& channel)
      : state(state_in), files(files_in), attributes(state, channel) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  MountState& state;
  UserFiles& files;
  const CallerProc callers;  // the system calls of callers, in /proc
  AttributeReplies attributes;
  EntryReplies entries{state, attributes};
  PendingWrites pending{state, files};
  ServerOpens opens{state, files};
  RecordLockOwners lock_owners{state, files, opens};

  // Called before a change of mode, owner, group or ACL. Commits data that might have to be written
  // again, while its writers are still allowed to write it.
  Task<void> BeforeRightsChange(const client::Identity& user, const InodeView& node) {
    return files.CommitOfOthers(user, node.handle);
  }

  // With a session for each user, called before `user` changes data of the file. A session does not
  // know what the others keep. Commits the data that they have written. Otherwise they could write
  // it again after a restart of the server, over the change.
  Task<void> BeforeDataChange(const client::Identity& user, uint64_t nodeid,
                              const wire::FileHandle& file) {
    co_await pending.Drained(nodeid);
    Task<void> committing = files.CommitOfOthers(user, file);
    co_await committing;
  }
};

}  // namespace dafs::fuse
