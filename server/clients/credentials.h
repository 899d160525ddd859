// The users on whose behalf requests are executed, and which clients may name them.
// Spec: 3.1.1.1.2 (untrusted clients), 3.1.1.2, 6.2.8 (REGISTER_CRED), 6.2.9; WIRE 9.4.
//
// Trust is as with NFS and AUTH_SYS. DAFS_AUTH_NONE and DAFS_AUTH_DEFAULT prove nothing, so the
// server trusts the network and the client's machine: only a privileged program there can connect
// from a reserved port. A trusted client may register any user's credentials. A client is trusted
// if some export admits it (Export::MisfitOf): its address (`clients`; without the option, every
// address), its protection (`xprtsec`, `certs`), how it authenticates (`sec`, `principals`), and
// without a principal its port (a reserved one, or any with `insecure`). The store checks every
// request again against the export it touches, so trust for one export gives nothing on another.
//
// A client with DAFS_AUTH_GSS is trusted if its principal is one of --trusted: a machine that
// vouches for its users. Any other principal is one user of this machine: it registers nothing, and
// its requests, with the zero cred_handle, act as that user (3.1.1.1.2).
//
// A client with DAFS_AUTH_TEXT is one user likewise: the one to whom the password belongs
// (server/clients/passwords.h).
//
// A client that no export admits can connect with DAFS_AUTH_DEFAULT only, registers nothing, and
// acts as the anonymous user. Requests of trusted clients with the zero cred_handle act as the
// anonymous user too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/export_set.h"
#include "wire/messages/session.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

inline constexpr uint32_t kAnonymousId = 65534;  // the default of exports: the user `nobody`

// A user as the kernel sees it.
struct Credential {
  uint32_t uid = kAnonymousId;
  uint32_t gid = kAnonymousId;
  std::vector<uint32_t> groups;
};

// Converts the arguments of REGISTER_CRED to a user. DAFS_CRED_NAME queries the name service and
// may block; the others do not. Statuses: kInval (invalid ids), kNotAuthorized (no such user),
// kNotSupp (DAFS_CRED_GSS).
wire::DafsStatus MakeCredential(const wire::RegisterCredArgs& args, Credential* credential);

// The user of this machine with that name. Queries the name service and may block. Statuses:
// kNotAuthorized (no such user), kInval (more groups than a credential holds).
wire::DafsStatus CredentialOfUser(const std::string& name, Credential* credential);

// Whether some export admits a client at `peer`.
bool IsAdmitted(const ExportSet& exports, const Peer& peer);
// Whether some export may admit it once it has authenticated by Kerberos.
bool MayBeAdmittedByKerberos(const ExportSet& exports, const Peer& peer);
// Whether some export may admit it once it has authenticated by a password.
bool MayBeAdmittedByPassword(const ExportSet& exports, const Peer& peer);

// The credentials of one client_id, valid on all its sessions. Thread-safe; nothing blocks.
class Credentials {
 public:
  explicit Credentials(uint32_t most) : most_(most) {}

  // kResource: the negotiated number of credentials is registered already.
  wire::DafsStatus Register(Credential credential, wire::CredHandle* handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // kNoCreds: no such handle.
  wire::DafsStatus Release(const wire::CredHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the credential, or null. Requests that use it share ownership, so RELEASE_CRED on
  // another session does not wait for them.
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
