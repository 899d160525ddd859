// On whose behalf requests are executed, and whom we believe when it says so.
// Spec: 3.1.1.1.2 (untrusted clients), 3.1.1.2, 6.2.8 (REGISTER_CRED), 6.2.9; WIRE 9.4.
//
// Trust, as with NFS and AUTH_SYS: DAFS_AUTH_NONE and DAFS_AUTH_DEFAULT prove nothing, so what is
// believed is the network, and the machine at the other end: only a privileged program of it can
// connect from a reserved port. A client is trusted, that is, it may register any user's
// credentials, if some export admits its address (`clients`; without the option, every address) and
// its port (a reserved one, or any with `insecure`). The store checks every request again against
// the export it touches, so being trusted for one export gives nothing on another. An untrusted
// client can connect with DAFS_AUTH_DEFAULT only, registers nothing, and acts as the anonymous
// user; so do requests of trusted clients with the zero cred_handle.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/export.h"
#include "wire/messages/session.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

inline constexpr uint32_t kAnonymousId = 65534;  // "nobody", as the exports' default

// A user as the kernel sees it.
struct Credential {
  uint32_t uid = kAnonymousId;
  uint32_t gid = kAnonymousId;
  std::vector<uint32_t> groups;
};

// The user that the arguments of REGISTER_CRED describe. DAFS_CRED_NAME asks the name service and
// may block; the others do not. Statuses: kInval (ids that are no ids), kNotAuthorized (no such
// user), kNotSupp (DAFS_CRED_GSS).
wire::DafsStatus MakeCredential(const wire::RegisterCredArgs& args, Credential* credential);

// Whether a client at `peer` may register credentials.
bool IsTrusted(const std::vector<Export>& exports, const Peer& peer);

// The credentials of one client_id, valid on all its sessions. Thread-safe; nothing blocks.
class Credentials {
 public:
  explicit Credentials(uint32_t most) : most_(most) {}

  // kResource: as many as were negotiated are registered already.
  wire::DafsStatus Register(Credential credential, wire::CredHandle* handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // kNoCreds: no such handle.
  wire::DafsStatus Release(const wire::CredHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // The credential, or null. Shared with the requests that use it: RELEASE_CRED on one session
  // does not wait for them.
  std::shared_ptr<const Credential> Find(const wire::CredHandle& handle) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  uint32_t most() const { return most_; }
  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const uint32_t most_;
  mutable absl::Mutex mutex_;
  uint32_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<wire::CredHandle, std::shared_ptr<const Credential>> by_handle_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
