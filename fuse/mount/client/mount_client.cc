#include "fuse/mount/client/mount_client.h"

#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/state/server/password_initiator.h"
#include "fuse/modules/gss_module.h"
#include "fuse/modules/tls_module.h"
#include "fuse/mount/client/mapped_names.h"
#include "fuse/mount/errors/mount_error.h"
#include "fuse/mount/process/shared_directories.h"
#include "fuse/restart/handover.h"
#include "runtime/files/installed_file.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "wire/auth/user/user_initiator.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::fuse {
namespace {

// A user's session has fewer slots and buffers than that of a mount, since there are many.
constexpr uint32_t kRequestsOfUser = 16;
constexpr size_t kBufferBytesOfUser = size_t{16} << 20;

// Replaces %{uid}.
std::string CacheOfUser(std::string ccache, uint32_t uid) {
  constexpr std::string_view kUid = "%{uid}";
  for (size_t at = ccache.find(kUid); at != ccache.npos; at = ccache.find(kUid, at)) {
    ccache.replace(at, kUid.size(), std::to_string(uid));
  }
  return ccache;
}

constexpr char kHostKeytab[] = "/etc/krb5.keytab";

client::Windows WindowsOf(const Options& o) {
  switch (o.windows) {
    case Windows::kOff:
      return client::Windows::kOff;
    case Windows::kOn:
      return client::Windows::kOn;
    case Windows::kAuto:
      break;
  }
  return client::Windows::kAuto;
}

wire::ByteOrder ByteOrderOf(const Options& o) {
  switch (o.byte_order) {
    case MessageOrder::kLittle:
      return wire::ByteOrder::kLittle;
    case MessageOrder::kBig:
      return wire::ByteOrder::kBig;
    case MessageOrder::kHost:
      break;
  }
  return client::HostByteOrder();
}

// The options of the client that do not depend on this machine.
client::ClientOptions ClientOptionsOf(const Options& o, bool may_lock) {
  client::ClientOptions c;
  c.device = o.rdma_device;
  c.server_name = o.source.text;
  c.mount_point = o.mount_point;
  c.export_path = ExportPath(o.source);
  c.fence_id = o.fence_id;
  c.byte_order = ByteOrderOf(o);
  c.checksums = o.checksum;
  c.keep_atime = (o.mount_flags & MS_NOATIME) != 0;
  c.rdma_read_channel = o.rdma_read_channel;
  c.callbacks = o.callbacks;
  c.promises = TakesPromises(o);
  c.delegations = TakesDelegations(o);
  c.windows = WindowsOf(o);
  if (o.msgsize != 0) c.max_request_size = c.max_response_size = o.msgsize;
  c.uncommitted_bytes = size_t{o.uncommitted} << 20;
  if (o.buffers != 0) c.buffers.bytes = size_t{o.buffers} << 20;
  c.buffers.release_unused_after = o.idle_release;
  c.buffers.lock_reserve = may_lock;
  c.buffers.large_bytes = std::max({o.rsize, o.wsize, 64u << 10});
  c.buffers.small_bytes = std::min(c.buffers.small_bytes, c.buffers.large_bytes);
  c.read_bytes = o.rsize;
  c.write_bytes = o.wsize;
  c.failover_after = o.failover_after.value_or(c.failover_after);
  c.soft = o.soft;
  c.timeout = o.timeo;
  return c;
}

dat::TlsOptions TlsOptionsOf(const Options& o) {
  return {.server_name = o.source.host,
          .ca_file = o.tls_ca,
          .cert_file = o.tls_cert,
          .key_file = o.tls_key};
}

// How the mount proves who it is.
absl::Status AddAuthentication(const Options& o, client::ClientOptions& c) {
  if (o.sec == Sec::kSys) return absl::OkStatus();
  if (o.sec == Sec::kText) {
    RETURN_IF_ERROR(client::ReadCredentialsFile(o.credentials).status());  // a fault is known now
    c.initiator = client::NewPasswordInitiator(
        [file = o.credentials] { return client::ReadCredentialsFile(file); });
    c.auth = client::Auth::kText;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(c.initiator,
                   NewInitiatorFromModule({.server_host = o.source.host,
                                           .keytab = o.keytab.empty() ? kHostKeytab : o.keytab,
                                           .principal = o.principal}));
  c.auth = client::Auth::kGss;
  c.must_be_trusted = o.sec == Sec::kKrb5Host;
  return absl::OkStatus();
}

constexpr size_t kMostServerAddresses = 64;

// Adds the addresses of `host` that are not there yet.
Outcome AddAddressesOf(const std::string& host, uint16_t port, client::ClientOptions& c) {
  const absl::StatusOr<std::vector<dat::Address>> found = dat::ResolveHost(host, port);
  if (!found.ok()) return HostError(host, found.status());
  for (const dat::Address& address : *found) {
    if (std::find(c.addresses.begin(), c.addresses.end(), address) == c.addresses.end()) {
      c.addresses.push_back(address);
    }
  }
  if (c.addresses.size() <= kMostServerAddresses) return {};
  return {ExitCode::kUsage, host + ": more than 64 addresses of the server"};
}

Outcome FindAddresses(const Options& o, client::ClientOptions& c) {
  Outcome added;
  if (!o.source.is_name) added = AddAddressesOf(o.source.host, o.port, c);
  for (const std::string& text : o.addresses) {
    if (added.code != ExitCode::kOk) break;
    std::string host;
    uint16_t port = o.port;
    if (absl::Status split = dat::SplitHostPort(text, &host, &port); !split.ok()) {
      return {ExitCode::kUsage, std::string(split.message())};
    }
    added = AddAddressesOf(host, port, c);
  }
  return added;
}

// Without the helper program the mount works: only names of owners are not known.
absl::Status AddIdNames(const Options& o, client::ClientOptions& c) {
  absl::StatusOr<std::shared_ptr<client::IdNames>> names = NewMappedNames(o);
  if (names.ok()) {
    c.id_names = *std::move(names);
    return absl::OkStatus();
  }
  if (!o.id_domain.empty()) return names.status();
  LogWarning(absl::StrCat(c.server_name, ": ", names.status().message(),
                          "; owners that the server sends as names are shown as user 65534"));
  return absl::OkStatus();
}

}  // namespace

bool HasRdmaDevice() {
  std::error_code error;
  std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

absl::Status MountClient::AddTransports(const Options& o, client::ClientOptions& c) {
  RETURN_IF_ERROR(AddAuthentication(o, c));
  dat::IwarpOptions tcp = {.want_crc = o.crc, .reserved_port = o.reserved_port};
  if (client::HaveSeveralPaths(c.addresses) || o.failover_after.has_value()) {
    tcp.dead_peer_timeout = client::kPathTimeout;
  }
  if (o.xprtsec != Xprtsec::kNone) {
    absl::StatusOr<std::shared_ptr<dat::TlsContext>> tls = NewTlsFromModule(TlsOptionsOf(o));
    if (!tls.ok()) return tls.status();
    tcp.tls = *std::move(tls);
    UseTcp(o, tcp, c);
    c.left_out = "rdma: it has no TLS";
    return absl::OkStatus();
  }
  if (o.proto == Proto::kRdma || (o.proto == Proto::kAuto && HasRdmaDevice())) {
    rdma_ = dat::NewVerbsProvider({.reserved_port = o.reserved_port});
    c.providers.push_back(rdma_.get());
  } else if (o.proto == Proto::kAuto) {
    c.left_out = "rdma: no RDMA device on this machine";
  }
  if (o.proto != Proto::kRdma) UseTcp(o, tcp, c);
  return absl::OkStatus();
}

// There are not enough reserved ports for the sessions of many users, and Kerberos needs none.
void MountClient::UseTcp(const Options& o, dat::IwarpOptions tcp, client::ClientOptions& c) {
  tcp_ = dat::NewIwarpProvider(tcp);
  c.providers.push_back(tcp_.get());
  if (o.sec != Sec::kKrb5) return;
  tcp.reserved_port = false;
  users_tcp_ = dat::NewIwarpProvider(tcp);
}

Outcome MountClient::Make(const Options& options, bool may_lock) {
  client::ClientOptions c = ClientOptionsOf(options, may_lock);
  if (Outcome found = FindAddresses(options, c); found.code != ExitCode::kOk) return found;
  if (absl::Status status = AddTransports(options, c); !status.ok()) {
    return {ExitCode::kUsage, std::string(status.message())};
  }
  if (absl::Status status = AddIdNames(options, c); !status.ok()) {
    return {ExitCode::kUsage, std::string(status.message())};
  }
  client_id_ = TakeClientId(options, {.locks = kRuntimeDirectory, .secret = kStateDirectory});
  c.client_id_string = client_id_.text;
  client::ClientOptions of_users = c;
  if (Outcome outcome = Create(std::move(c)); !outcome.ok()) return outcome;
  return options.sec == Sec::kKrb5 ? MakeUsers(options, std::move(of_users)) : Outcome();
}

// The clients of users have names of their own, since a server gives a name to one principal.
Outcome MountClient::MakeUsers(const Options& options, client::ClientOptions base) {
  absl::StatusOr<std::string> helper = FindInstalledFile("dafs-gss-user", "sec=krb5");
  if (!helper.ok()) return {ExitCode::kUsage, std::string(helper.status().message())};
  base.client_verifier = client_->options().client_verifier;
  base.callbacks = base.promises = base.delegations = false;
  base.fails_without_credentials = true;
  base.max_requests = std::min(base.max_requests, kRequestsOfUser);
  base.buffers.bytes = std::min(base.buffers.bytes, kBufferBytesOfUser);
  base.buffers.keeps_reserve = base.buffers.lock_reserve = false;
  for (dat::Provider*& provider : base.providers) {
    if (provider == tcp_.get()) provider = users_tcp_.get();
  }
  const auto make = [this, base, helper = *helper, ccache = options.ccache,
                     host = options.source.host](uint32_t uid) {
    client::ClientOptions c = base;
    c.addresses = client_->paths().addresses();
    absl::StrAppend(&c.server_name, ", user ", uid);
    absl::StrAppend(&c.client_id_string, "/uid:", uid);
    c.initiator = auth::NewUserInitiator(
        {.helper = helper, .uid = uid, .server_host = host, .ccache = CacheOfUser(ccache, uid)});
    absl::StatusOr<std::unique_ptr<client::Client>> made = client::Client::Create(std::move(c));
    if (made.ok()) {
      (*made)->limits().CopyFrom(client_->limits());
      (*made)->root().Restore(client_->root().Save());
    }
    return made;
  };
  absl::StatusOr<std::unique_ptr<client::Client>> unconnected = client::Client::Create(base);
  if (!unconnected.ok()) return {ExitCode::kUsage, std::string(unconnected.status().message())};
  users_ = std::make_unique<UserClients>(options.max_user_sessions, make, *std::move(unconnected));
  return {};
}

Outcome MountClient::MakeAgain(const Options& options, bool may_lock, const HandoverRecord& record,
                               UniqueFd lock) {
  client::ClientOptions c = ClientOptionsOf(options, may_lock);
  SetClientOptions(record, c);
  if (absl::Status status = AddTransports(options, c); !status.ok()) {
    return {ExitCode::kUsage, std::string(status.message())};
  }
  if (absl::Status status = AddIdNames(options, c); !status.ok()) {
    return {ExitCode::kUsage, std::string(status.message())};
  }
  client_id_ = {record.client_id_string, std::move(lock)};
  return Create(std::move(c));
}

void MountClient::SetAddresses(const std::vector<dat::Address>& addresses) {
  client_->paths().Replace(addresses);
  if (users_ == nullptr) return;
  for (const std::shared_ptr<UserClient>& user : users_->All()) {
    user->client->paths().Replace(addresses);
  }
}

Outcome MountClient::Create(client::ClientOptions options) {
  absl::StatusOr<std::unique_ptr<client::Client>> client =
      client::Client::Create(std::move(options));
  if (!client.ok()) return {ExitCode::kUsage, std::string(client.status().message())};
  client_ = *std::move(client);
  return {};
}

}  // namespace dafs::fuse
