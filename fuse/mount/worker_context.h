// The state that the parts of one worker share: its loop, its session, and the calls under way.
// Belongs to the worker's thread, except Run and Loop::Post of the loop. Only Run blocks.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "client/exchange/in_flight.h"
#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/channel.h"
#include "fuse/operations/operations.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

struct WorkerContext {
  // Runs `function` on the worker's thread and returns its result. Any thread except the worker's.
  // Blocks until then. kDeadlineExceeded: the worker does not answer.
  absl::Status Run(std::function<absl::Status()> function) const;

  MountState& state;
  const std::unique_ptr<Loop> loop;
  const std::unique_ptr<client::Files> files;
  const std::unique_ptr<UserFiles> user_files;            // by *files
  std::optional<KernelChannel> channel = {};              // once the worker serves
  std::optional<client::InFlightEntries> in_flight = {};  // outlives the calls
  OutstandingCalls calls = {};
  std::optional<Operations> operations = {};  // once the worker serves
};

}  // namespace dafs::fuse
