// Sessions and errors of the C interface.
#include <unistd.h>

#include <algorithm>

#include "client/c/objects.h"
#include "client/library/own_groups.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/tls/openssl_tls.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::c {
namespace {

// A process makes one (wire/dat/verbs/verbs.h). It lives until the process ends.
dat::Provider* Rdma() {
  static dat::Provider* const provider = dat::NewVerbsProvider().release();
  return provider;
}

std::string Text(const char* text) { return text != nullptr ? text : ""; }

absl::Status MakeTcp(const dafs_options& options, Session& session) {
  dat::IwarpOptions tcp;
  if (options.tls_name != nullptr) {
    dat::TlsOptions tls;
    tls.server_name = options.tls_name;
    tls.ca_file = Text(options.tls_ca);
    tls.cert_file = Text(options.tls_cert);
    tls.key_file = Text(options.tls_key);
    absl::StatusOr<std::shared_ptr<dat::TlsContext>> context = dat::NewTls(tls);
    if (!context.ok()) return context.status();
    tcp.tls = *std::move(context);
  }
  session.tcp = dat::NewIwarpProvider(tcp);
  return absl::OkStatus();
}

absl::Status MakeProviders(const dafs_options& options, Session& session,
                           std::vector<dat::Provider*>* providers) {
  const std::string transport = Text(options.transport);
  if (transport != "tcp" && transport != "rdma" && !transport.empty()) {
    return absl::InvalidArgumentError("transport is none of tcp, rdma");
  }
  const bool tls = options.tls_name != nullptr;
  if (tls && transport == "rdma") {
    return absl::InvalidArgumentError("TLS protects TCP connections only");
  }
  if (transport != "tcp" && !tls) providers->push_back(Rdma());
  if (transport == "rdma") return absl::OkStatus();
  absl::Status status = MakeTcp(options, session);
  providers->push_back(session.tcp.get());
  return status;
}

absl::StatusOr<client::Identity> UserOf(const dafs_options& options) {
  client::Identity user;
  if (options.user != nullptr) {
    if (options.groups > 1024) return absl::InvalidArgumentError("more than 1024 groups");
    user.uid = options.user[0];
    user.gid = options.user[1];
    user.groups.assign(options.user + 2, options.user + 2 + options.groups);
    return user;
  }
  user.uid = geteuid();
  user.gid = getegid();
  user.groups = client::OwnGroups();
  return user;
}

absl::Status Connect(const dafs_options& options, Session& session) {
  client::LibraryOptions library;
  library.server = options.server;
  library.export_path = options.export_path;
  absl::StatusOr<client::Identity> user = UserOf(options);
  if (!user.ok()) return user.status();
  absl::Status status = MakeProviders(options, session, &library.providers);
  if (!status.ok()) return status;
  client::ClientOptions& client = library.client;
  client.client_id_string = Text(options.client_id);
  client.fence_id = Text(options.fence_id);
  if (options.timeout_ms != 0) {
    client.soft = true;
    client.timeout = absl::Milliseconds(options.timeout_ms);
    client.connect_timeout = std::min(client.connect_timeout, client.timeout);
  }
  absl::StatusOr<std::unique_ptr<client::Library>> opened =
      client::Library::Open(std::move(library));
  if (!opened.ok()) return opened.status();
  session.library = *std::move(opened);
  absl::StatusOr<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return loop.status();
  session.loop = *std::move(loop);
  absl::StatusOr<std::unique_ptr<client::ExportSession>> connected = client::ExportSession::Open(
      *session.library, *session.loop, *std::move(user),
      options.most_out != 0 ? options.most_out : client::AsyncIo::kDefaultMostOut);
  if (!connected.ok()) return connected.status();
  session.session = *std::move(connected);
  return absl::OkStatus();
}

template <class T>
void DropAll(std::set<uintptr_t>& handles) {
  for (const uintptr_t handle : handles) {
    std::unique_ptr<T> object(static_cast<T*>(HandleTable::Get().Find(T::kKind, handle)));
    HandleTable::Get().Remove(handle);
  }
  handles.clear();
}

}  // namespace

void Group::Signal() {
  if (!event.valid() || std::exchange(is_signalled, true)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
}

void Group::Clear() {
  if (!std::exchange(is_signalled, false)) return;
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(event.get(), &count, sizeof(count));
}

void Session::SignalGroups() {
  for (const uintptr_t handle : groups) {
    auto* group = static_cast<Group*>(HandleTable::Get().Find(Kind::kGroup, handle));
    if (group->completions.ended() > 0) group->Signal();
  }
}

}  // namespace dafs::c

// The functions of C are outside of namespaces.
using namespace dafs;     // NOLINT(google-build-using-namespace)
using namespace dafs::c;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* dafs_error(void) { return Last().message.c_str(); }
uint32_t dafs_error_status(void) { return Last().status; }
const char* dafs_version(void) { return DAFS_VERSION; }

int dafs_session_open(const dafs_options* options, dafs_session** session) {
  constexpr char kCall[] = "dafs_session_open";
  return static_cast<int>(Guarded(kCall, [&]() -> int64_t {
    dafs_options read;
    int error = 0;
    if (session == nullptr) return Missing(kCall, "session");
    *session = nullptr;
    if (!ReadOptions(options, kCall, &read, &error)) return error;
    if (read.server == nullptr) return Missing(kCall, "server");
    if (read.export_path == nullptr) return Missing(kCall, "export_path");
    if (read.most_out > 65536) return Wrong(kCall, "most_out is larger than 65536");
    auto made = std::make_unique<Session>();
    if (const absl::Status status = Connect(read, *made); !status.ok()) {
      return Fail(wire::Prefixed(
          status, std::string(read.server) + ":" + read.export_path + ": open a session: "));
    }
    const uintptr_t handle = HandleTable::Get().Add(Kind::kSession, made.get());
    if (handle == 0) return Fail(EMFILE, "dafs_session_open: too many handles");
    static_cast<void>(made.release());  // dafs_session_close owns it again
    *session = HandleOf<dafs_session>(handle);
    return 0;
  }));
}

int dafs_session_close(dafs_session* session) {
  constexpr char kCall[] = "dafs_session_close";
  return static_cast<int>(Guarded(kCall, [&]() -> int64_t {
    int error = 0;
    Session* found = Find<Session>(session, kCall, &error);
    if (found == nullptr) return error;
    if (found->callbacks > 0) return Fail(EBUSY, "dafs_session_close: called by its callback");
    HandleTable::Get().Remove(reinterpret_cast<uintptr_t>(session));
    std::unique_ptr<Session> owned(found);
    if (owned->background != nullptr) owned->background->Take();
    owned->background.reset();
    DropAll<List>(owned->lists);
    owned->session.reset();  // drops the completions, so that groups can end
    DropAll<Group>(owned->groups);
    DropAll<File>(owned->files);
    return 0;
  }));
}

}  // extern "C"
