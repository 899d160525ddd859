// State that the workers of one mount share. Everything in it is thread-safe, constant, or set
// before the workers serve.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "client/exchange/in_flight.h"
#include "fuse/cache/kernel_caches.h"
#include "fuse/cache/stale_open_tracker.h"
#include "fuse/files/live_files.h"
#include "fuse/files/lock_owners.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_clients.h"
#include "fuse/files/write_behind_table.h"
#include "fuse/kernel/notifications/notifier.h"
#include "fuse/operations/shared/kernel_terms.h"
#include "fuse/operations/shared/left_by_kill.h"
#include "fuse/operations/shared/listing_acls.h"
#include "fuse/operations/shared/owner_names.h"
#include "fuse/operations/shared/root_replies.h"
#include "fuse/options/options.h"
#include "fuse/request/identity_cache.h"
#include "runtime/loop/cpu_latency.h"

namespace dafs::fuse {

struct MountState {
  explicit MountState(Options options_in) : options(std::move(options_in)) {}

  const Options options;
  KernelTerms kernel{.default_permissions = options.default_permissions};
  KernelCaches caches{options.cache};

  OpenFiles open_files;
  OpenDirectories open_directories;
  LockOwners lock_owners;
  // Their record for a process that goes on after this one was killed; set before the first
  // request.
  LiveFiles live_files{nullptr};
  LeftByKill left;
  // With sec=krb5: the clients of the users; set before the first request. Null: all users share
  // the session of the mount.
  UserClients* users = nullptr;
  WriteBehindTable write_behind;
  IdentityCache identities{options.source.text};
  RootReplies root;
  OwnerNames owners;
  StaleOpenTracker stale_opens;  // used by OPEN, OPENDIR and LINK
  ListingAcls listing_acls;
  // The CPU latency request of the workers' loops; set before they start. Null: none.
  std::unique_ptr<CpuLatency> cpu_latency;
  // Invalidates the kernel's cached pages; set before the workers serve. Null: nothing is
  // invalidated.
  std::unique_ptr<Notifier> notifier;
  // The changes that are under way, for the program that continues the mount after a kill; set
  // before the workers serve. Null: no program does.
  std::unique_ptr<client::InFlightTable> in_flight;
  // Passes an INTERRUPT to all workers; set before the workers serve.
  absl::AnyInvocable<void(uint64_t unique) const> interrupt_all;
};

}  // namespace dafs::fuse
