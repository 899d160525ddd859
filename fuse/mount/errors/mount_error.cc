#include "fuse/mount/errors/mount_error.h"

#include <algorithm>
#include <string_view>

#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string ServerText(const Options& o) {
  bool v6 = o.source.host.find(':') != std::string::npos;
  const std::string server =
      (v6 ? "[" + o.source.host + "]" : o.source.host) + ":" + std::to_string(o.port);
  return o.source.is_name ? o.source.text + " (" + server + ")" : server;
}

// The server's log says which of these it is.
std::string SecurityRemedy(const Options& o) {
  std::string port = std::string("a port below 1024: mount as root") +
                     (o.reserved_port ? "" : " without noresvport") + ", or export with insecure";
  if (o.sec == Sec::kKrb5Host || o.sec == Sec::kKrb5) {
    return "the export does not admit the principal of this machine; add it to the export's "
           "principals=, and krb5 to its sec=, or mount with xprtsec=tls for sec=krb5p";
  }
  if (o.sec == Sec::kText) {
    return "the export takes no clients with a name and password; add text to the export's sec=";
  }
  switch (o.xprtsec) {
    case Xprtsec::kNone:
      return "the export takes only clients with TLS (mount with xprtsec=tls), with Kerberos "
             "(sec=krb5host), or with " +
             port;
    case Xprtsec::kTls:
      return "the export takes only clients with a certificate (mount with xprtsec=mtls), without "
             "TLS "
             "(xprtsec=none), or with " +
             port;
    case Xprtsec::kMtls:
      return "the export takes only clients with another certificate (certs= of the export), "
             "without "
             "TLS (xprtsec=none), or with " +
             port;
  }
  return port;
}

// The target of a symbolic link is a path on the server, which may lie outside the export.
Outcome SymlinkError(const Options& options) {
  return {ExitCode::kMountFailure,
          options.source.text + ": the path contains a symbolic link; name the directory itself"};
}

}  // namespace

Outcome HostError(const std::string& host, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kNotFound) {
    return {ExitCode::kMountFailure, host + ": host unknown"};
  }
  return {.code = ExitCode::kMountFailure,
          .reason = host + ": host lookup failed: " + Message(status),
          .may_pass = absl::IsUnavailable(status)};
}

Outcome ConnectError(const Options& options, const absl::Status& status) {
  std::string server = ServerText(options);
  if (wire::HasDafsStatus(status) && wire::DafsFromStatus(status) == wire::DafsStatus::kClidInUse) {
    return {
        ExitCode::kMountFailure,
        server +
            ": another client with the identity of this mount has a lease; if that is a copy of "
            "this machine, give each its own name with -o clientid=NAME; if it is this machine, "
            "whose address has changed, retry in two minutes"};
  }
  const std::string message = Message(status);
  const size_t kerberos = message.find("Kerberos: ");
  if (kerberos != message.npos && !absl::IsUnavailable(status)) {
    return {ExitCode::kUsage, server + ": " + message.substr(kerberos)};
  }
  const size_t password = message.find("Password: ");
  if (password != message.npos && !absl::IsUnavailable(status)) {
    return {ExitCode::kUsage, server + ": " + message.substr(password)};
  }
  const size_t tls = message.find("TLS: ");
  if (tls != message.npos && !absl::IsUnavailable(status)) {
    return {ExitCode::kMountFailure, server + ": " + message.substr(tls)};
  }
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return {ExitCode::kUsage, server + ": not permitted: " + Message(status)};
    case absl::StatusCode::kUnavailable: {
      bool refused = Message(status).find("refused") != std::string::npos;
      bool draining = Message(status).find("is draining") != std::string::npos;
      return {.code = ExitCode::kMountFailure,
              .reason = refused    ? server + ": connection refused (no DAFS server listens there)"
                        : draining ? server + ": " + Message(status)
                                   : server + ": no connection: " + Message(status),
              .may_pass = true};
    }
    case absl::StatusCode::kDeadlineExceeded:
      return {.code = ExitCode::kMountFailure,
              .reason = server + ": does not answer: " + Message(status),
              .may_pass = true};
    default:
      return {ExitCode::kMountFailure, server + ": no session: " + Message(status)};
  }
}

Outcome ExportError(const Options& options, const absl::Status& status) {
  const std::string& source = options.source.text;
  if (wire::HasDafsStatus(status)) {
    switch (wire::DafsFromStatus(status)) {
      case wire::DafsStatus::kNoEnt:
        return {ExitCode::kMountFailure,
                source + ": no such export for this client, or no such directory in it"};
      case wire::DafsStatus::kNotDir:
        return {ExitCode::kMountFailure, source + ": not a directory"};
      case wire::DafsStatus::kSymlink:
        return SymlinkError(options);
      case wire::DafsStatus::kAcces:
      case wire::DafsStatus::kPerm:
        return {ExitCode::kUsage,
                source +
                    ": not permitted by the server: no export there admits this machine's "
                    "address, certificate or principal (clients=, certs=, principals=), or its "
                    "root may not search a directory of the path"};
      case wire::DafsStatus::kWrongSec:
        return {ExitCode::kUsage, source + ": " + SecurityRemedy(options)};
      default:
        break;
    }
  }
  return {ExitCode::kMountFailure, source + ": " + Message(status)};
}

Outcome RootTypeError(const Options& options, wire::ObjectType type) {
  if (type == wire::ObjectType::kLnk) return SymlinkError(options);
  return {ExitCode::kMountFailure, options.source.text + ": not a directory"};
}

std::vector<std::string> ExportPath(const Source& source) {
  std::vector<std::string> components;
  std::string_view rest = source.export_path;
  while (!rest.empty()) {
    std::string_view component = rest.substr(0, rest.find('/'));
    if (!component.empty()) components.emplace_back(component);
    rest.remove_prefix(std::min(rest.size(), component.size() + 1));
  }
  return components;
}

}  // namespace dafs::fuse
