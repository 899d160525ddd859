#include "server/clients/credentials.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace dafs::server {
namespace {

using wire::DafsStatus;

// -1 means "no change" to the system calls that switch identity, so it is no valid id.
constexpr uint32_t kNoId = 0xffffffff;

}  // namespace

DafsStatus CredentialOfUser(const std::string& name, Credential* credential) {
  *credential = Credential();
  std::vector<char> buffer(16 << 10);
  passwd entry;
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return DafsStatus::kNotAuthorized;
  }
  credential->uid = entry.pw_uid;
  credential->gid = entry.pw_gid;
  int count = static_cast<int>(wire::kGroupsMax);
  std::vector<gid_t> groups(wire::kGroupsMax);
  if (getgrouplist(name.c_str(), entry.pw_gid, groups.data(), &count) < 0) {
    return DafsStatus::kInval;  // more groups than a credential holds
  }
  credential->groups.assign(groups.begin(), groups.begin() + count);
  return DafsStatus::kOk;
}

DafsStatus MakeCredential(const wire::RegisterCredArgs& args, Credential* credential) {
  *credential = Credential();
  switch (args.cred_type) {
    case wire::CredType::kName:
      // getpwnam_r would look up the part before the NUL.
      if (args.name.find('\0') != std::string::npos) return DafsStatus::kInval;
      return CredentialOfUser(args.name, credential);
    case wire::CredType::kId:
      credential->uid = static_cast<uint32_t>(args.uid);
      credential->gid = static_cast<uint32_t>(args.gid);
      for (int32_t group : args.groups) credential->groups.push_back(static_cast<uint32_t>(group));
      if (credential->uid == kNoId || credential->gid == kNoId ||
          std::count(credential->groups.begin(), credential->groups.end(), kNoId) != 0) {
        return DafsStatus::kInval;
      }
      return DafsStatus::kOk;
    case wire::CredType::kGss:
      return DafsStatus::kNotSupp;
    case wire::CredType::kDefault:
      return DafsStatus::kOk;
  }
  return DafsStatus::kInval;
}

bool IsAdmitted(const ExportSet& exports, const Peer& peer) {
  const std::vector<const Export*> served = exports.Served();
  return std::any_of(served.begin(), served.end(),
                     [&](const Export* each) { return each->Admits(peer); });
}

bool MayBeAdmittedByPassword(const ExportSet& exports, const Peer& peer) {
  const std::vector<const Export*> served = exports.Served();
  return std::any_of(served.begin(), served.end(),
                     [&](const Export* each) { return each->MayAdmitByPassword(peer); });
}

bool MayBeAdmittedByKerberos(const ExportSet& exports, const Peer& peer) {
  const std::vector<const Export*> served = exports.Served();
  return std::any_of(served.begin(), served.end(),
                     [&](const Export* each) { return each->MayAdmitByKerberos(peer); });
}

DafsStatus Credentials::Register(Credential credential, wire::CredHandle* handle) {
  auto shared = std::make_shared<const Credential>(std::move(credential));
  absl::MutexLock lock(&mutex_);
  if (by_handle_.size() >= most_) return DafsStatus::kResource;
  // Ends soon: there are 2^32 numbers.
  do {
    ++last_;
    std::memcpy(handle->bytes.data(), &last_, sizeof(last_));
  } while (handle->is_zero() || by_handle_.contains(*handle));
  by_handle_.emplace(*handle, std::move(shared));
  return DafsStatus::kOk;
}

DafsStatus Credentials::Release(const wire::CredHandle& handle) {
  absl::MutexLock lock(&mutex_);
  return by_handle_.erase(handle) != 0 ? DafsStatus::kOk : DafsStatus::kNoCreds;
}

std::shared_ptr<const Credential> Credentials::Find(const wire::CredHandle& handle) const {
  absl::MutexLock lock(&mutex_);
  auto it = by_handle_.find(handle);
  return it != by_handle_.end() ? it->second : nullptr;
}

size_t Credentials::count() const {
  absl::MutexLock lock(&mutex_);
  return by_handle_.size();
}

}  // namespace dafs::server
