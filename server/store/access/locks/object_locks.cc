#include "server/store/access/locks/object_locks.h"

#include <utility>

namespace dafs::server {

NameGuard::NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name)
    : first_(&mutexes[absl::HashOf(directory, name) % mutexes.size()]) {
  Lock();
}

NameGuard::NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name,
                     const ObjectKey& other_directory, const std::string& other_name)
    : first_(&mutexes[absl::HashOf(directory, name) % mutexes.size()]),
      second_(&mutexes[absl::HashOf(other_directory, other_name) % mutexes.size()]) {
  if (first_ == second_) second_ = nullptr;
  if (second_ != nullptr && second_ < first_) std::swap(first_, second_);  // same order everywhere
  Lock();
}

void NameGuard::Lock() {
  first_->Lock();
  if (second_ != nullptr) second_->Lock();
}

NameGuard::~NameGuard() {
  if (second_ != nullptr) second_->Unlock();
  first_->Unlock();
}

ObjectLocks::ObjectLocks(const ExportSet& exports, const Mounts& mounts)
    : exports_(exports), mounts_(mounts), locks_(exports.capacity()) {
  for (size_t i = 0; i < exports.size(); ++i) Add(i);
}

void ObjectLocks::Add(size_t export_index) { locks_[export_index] = std::make_unique<Locks>(); }

}  // namespace dafs::server
