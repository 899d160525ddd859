// The kernel's requests, each a coroutine over the client library. It translates the nodes and
// handles of FUSE to the filehandles and state ids of DAFS. A table in operations.cc leads from the
// opcode to the function of its group.
// Belongs to one worker's thread. MountState is the state that workers share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/channel.h"
#include "fuse/operations/attributes.h"
#include "fuse/operations/files/data.h"
#include "fuse/operations/files/ioctls.h"
#include "fuse/operations/files/locks.h"
#include "fuse/operations/files/open.h"
#include "fuse/operations/files/ranges.h"
#include "fuse/operations/files/write.h"
#include "fuse/operations/names/directory.h"
#include "fuse/operations/names/names.h"
#include "fuse/operations/root_status.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/slow_operations.h"
#include "fuse/operations/xattrs.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class Operations {
 public:
  // All three must outlive it.
  Operations(MountState& state, UserFiles& files, KernelChannel& channel)
      : context_(state, files, channel), slow_(state, files.mount()) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Answers `call` according to its opcode. An unknown opcode fails with ENOSYS, which the kernel
  // remembers. Calls `done` when the call has ended, which may be after its answer: a RELEASE is
  // answered before its CLOSE, for example.
  Task<void> Serve(std::unique_ptr<Call> call, std::function<void()> done);

  // Call after each start of Serve, when it waits or has ended.
  void Began() { slow_.Began(); }
  // For dafsctl: the calls without an answer.
  void Report(const OutstandingCalls& calls, client::WorkerReport& report) const {
    slow_.Report(calls, report);
  }

  // The caller of `call` is being killed. Called before the call is answered early, while the
  // server may still execute it. Later requests for the files that it changes wait until it ends.
  void EndsEarly(Call& call) { context_.pending.Hold(call); }

  // Called when the worker ends. Commits what was written, then calls `done`.
  void CommitAll(std::function<void()> done) { context_.files.CommitAll(done); }
  bool AllCommitted() const { return context_.files.AllCommitted(); }
  // Called after the loop has ended and after Files::Shutdown. Ends the calls that wait for pending
  // writes of other workers.
  void Shutdown() { context_.pending.Shutdown(); }

  // FORGET and BATCH_FORGET. They have no answer.
  void Forget(uint64_t nodeid, RequestReader in);
  void BatchForget(RequestReader in);

 private:
  struct Table;
  void ForgetNode(uint64_t nodeid, uint64_t count);
  Task<void> CloseLeft(const Call& call);

  Context context_;
  SlowOperations slow_;
  RootStatus root_{context_};
  NameOperations names_{context_};
  AttributeOperations attributes_{context_, root_};
  OpenOperations open_{context_};
  DataOperations data_{context_};
  WriteOperations write_{context_};
  RangeOperations ranges_{context_};
  LockOperations locks_{context_};
  IoctlOperations ioctls_{context_, locks_};
  DirectoryOperations directories_{context_};
  XattrOperations xattrs_{context_};
};

}  // namespace dafs::fuse
