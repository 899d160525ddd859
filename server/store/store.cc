#include "server/store/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/store/inventory.h"
#include "server/store/store_impl.h"
#include "server/store/system/stall_report.h"
#include "server/store/system/state_dir.h"

namespace dafs::server {

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Create(std::move(options)));
  RETURN_IF_ERROR(store->OpenExports([](size_t) {}, absl::InfiniteDuration()));
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Create(StoreOptions options) {
  RETURN_IF_ERROR(CheckExports(options.exports));
  if (options.max_append < 65536) {
    return absl::InvalidArgumentError("max_append must be at least 65536 (spec 6.1.6)");
  }
  RestoreOwnIdentity();
  if (!HasNeededCapabilities()) {
    return absl::PermissionDeniedError(
        "opening files by handle and acting as the caller need privileges: run dafsd as root");
  }
  struct stat st;
  if (stat(options.state_dir.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", options.state_dir, ": ",
                     errno != 0 ? std::strerror(errno) : "not a directory"));
  }
  const bool has_served = HasServed(options.state_dir);
  ASSIGN_OR_RETURN(const HandleKey key, LoadOrCreateHandleKey(options.state_dir));
  ASSIGN_OR_RETURN(const uint32_t instance, NextInstance(options.state_dir, key, has_served));
  ASSIGN_OR_RETURN(std::unique_ptr<WriteVerifier> verifier,
                   WriteVerifier::Open(options.state_dir, instance));
  auto impl = std::make_unique<StoreImpl>(std::move(options), key, instance, std::move(verifier));
  RETURN_IF_ERROR(impl->fencing.Load());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<StoreImpl> impl) : impl_(std::move(impl)) {}

Store::~Store() { RestoreOwnIdentity(); }

absl::Status Store::OpenExports(std::function<void(size_t)> settle, absl::Duration within) {
  // By export, each used by the thread of that export.
  std::vector<uint8_t> was_tried(export_count());
  const absl::Duration first = within == absl::InfiniteDuration() ? absl::Seconds(5) : within;
  impl_->settle = std::move(settle);
  const auto open = [this, first, was_tried](size_t index) mutable {
    const Export& exported = impl_->exports[index];
    if (exported.removed) return absl::OkStatus();  // by a reload, before it could be opened
    // A file system that fails after some seconds each time must not be logged each time.
    const bool again = std::exchange(was_tried[index], uint8_t{1}) != 0;
    const StallReport stalls(absl::StrCat("export ", exported.name, "=", exported.directory),
                             {.first = again ? absl::Minutes(1) : first});
    return impl_->OpenAndSettle(index);
  };
  const absl::Status status = impl_->openings.Start(open, within);
  for (size_t i : Opening()) impl_->mounts->NoteMayHang(i);
  return status;
}

void Store::EndOpening() { impl_->openings.End(); }

bool Store::AwaitOpened(absl::Time deadline) const { return impl_->openings.Await(deadline); }

std::vector<size_t> Store::Opening() const {
  std::vector<size_t> opening;
  for (size_t i = 0; i < impl_->options.exports.size(); ++i) {  // later ones were opened before
    if (impl_->openings.IsOpening(i)) opening.push_back(i);
  }
  return opening;
}

std::optional<size_t> Store::ExportOf(const wire::FsHandle& fshandle) const {
  return impl_->mounts->ExportOf(fshandle);
}

size_t Store::export_count() const { return impl_->options.exports.size(); }

const ExportSet& Store::exports() const { return impl_->exports; }

absl::StatusOr<ExportChanges> Store::ReloadExports(std::vector<Export> wanted,
                                                   absl::Duration within) {
  return impl_->ReloadExports(std::move(wanted), within);
}

void Store::FollowPaths() { impl_->FollowPaths(); }

void Store::RestoreServerIdentity() { RestoreOwnIdentity(); }

Grace& Store::grace() { return impl_->grace; }

void Store::SetEndPromises(EndPromises end) { impl_->end_promises = std::move(end); }

Delegations& Store::delegations() { return impl_->delegations; }

Promises& Store::promises() { return impl_->promises; }

wire::FileHandle Store::HandleOf(const ObjectKey& key) const { return impl_->mac.Seal(key); }

void Store::EndLeases() { impl_->leases.Stop(); }

void Store::EndGrace(absl::Time now) {
  impl_->delegations.EndClaims(now);
  const std::optional<Grace::Ending> ending = impl_->grace.Ended(now);
  if (!ending) return;
  std::vector<size_t> ended;
  for (size_t i = 0; i < impl_->exports.size(); ++i) {
    if (ending->In(i)) ended.push_back(i);
  }
  RestoreOwnIdentity();
  impl_->SweepOrphans(ended);
}

void Store::ForgetRemoved() {
  static_assert(kForgetCalls == DescriptorCache::kParts);
  RestoreOwnIdentity();
  impl_->ForgetRemoved();
  impl_->RecallRemoved();
}

std::optional<size_t> Store::ExportThatMayHang(const wire::FsHandle& fshandle) const {
  return impl_->mounts->ExportThatMayHang(fshandle);
}

bool Store::IsAboveWhatMayHang(const wire::FsHandle& fshandle) const {
  return impl_->mounts->any_may_hang() && fshandle == impl_->pseudo().fshandle();
}

std::optional<size_t> Store::ExportThatMayHang(const wire::FileHandle& directory,
                                               std::span<const std::string> path) const {
  const PseudoNode* node = impl_->pseudo().Find(directory);
  for (const std::string& name : path) {
    if (node == nullptr) return std::nullopt;
    const auto it = node->children.find(name);
    if (it == node->children.end()) return std::nullopt;
    node = it->second;
    if (node->export_index < 0) continue;
    const auto index = static_cast<size_t>(node->export_index);
    return impl_->mounts->MayHang(index) ? std::optional<size_t>(index) : std::nullopt;
  }
  return std::nullopt;
}

WriteVerifier& Store::write_verifiers() { return *impl_->write_verifier; }

Inventory Store::inventory() const { return Inventory(*impl_); }

size_t Store::open_count() const { return impl_->opens.size(); }

size_t Store::lock_count() const { return impl_->locks.size(); }

size_t Store::descriptor_count() const {
  return impl_->cache.descriptors().load(std::memory_order_relaxed);
}

}  // namespace dafs::server
