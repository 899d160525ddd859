// A mount of a DAFS name: where the name services say that it is. Spec: A.1, A.5. Belongs to the
// main thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/names/name_query.h"
#include "client/names/places.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/end_signals.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

struct NameFound {
  std::string service;               // that has the name
  std::vector<names::Place> places;  // at least one, in the order to try them
  absl::Duration refresh;            // how often to look it up again
};

// The helper that is run for options.source, which is a name. kFailedPrecondition: it is missing.
absl::StatusOr<names::NameQueryOptions> NameQueryFor(const Options& options);
// Which transports the mount may use.
names::Transports TransportsOf(const Options& options);

// Looks the name up. Blocks for at most names::kMostQueryTime; a signal ends it. `may_pass`: a
// service did not answer.
Outcome LookUpName(const Options& options, const EndSignals& signals, const Daemon& daemon,
                   NameFound* found);

// The options for a mount of one place: source.host, port, source.export_path and addresses.
Options OptionsAt(const Options& options, const names::Place& place);

}  // namespace dafs::fuse
