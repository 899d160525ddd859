#include "client/ctl/fence_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/files/files.h"
#include "client/state/client.h"
#include "runtime/host_name.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/verbs.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;
using wire::FenceAccess;
using wire::FenceObject;
using wire::FenceUpdate;

struct FenceWord {
  const char* name;
  const char* about;
  bool has_ids;
};
constexpr FenceWord kFenceWords[] = {
    {"show", "Show the fence ids that have access", false},
    {"init", "Make a list of these fence ids; without an id, remove the list", true},
    {"allow", "Add fence ids to the list", true},
    {"deny", "Remove fence ids from the list, and wait until their requests have ended", true},
};

// Where the target leads.
struct Target {
  std::string server;             // host, host:port
  std::vector<std::string> path;  // from the root of the server
};

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  const size_t at = text.find(":/");
  if (at == std::string::npos || at == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": expected SERVER:/EXPORT or SERVER:/EXPORT/PATH"));
  }
  return Target{text.substr(0, at), absl::StrSplit(text.substr(at + 1), '/', absl::SkipEmpty())};
}

// A session with the server, and the object that the target names.
class FencedTarget {
 public:
  static absl::StatusOr<std::unique_ptr<FencedTarget>> Open(const FenceRequest& request);
  ~FencedTarget() {
    if (files_ == nullptr) return;
    if (is_good_) {
      RunUntilDone(*loop_, files_->Disconnect());
    } else {
      files_->Shutdown();  // a server that does not reply gets no DISCONNECT either
    }
  }

  // The root of an export, or of a file system in one, stands for the whole file system.
  FenceObject object() const { return object_; }
  absl::StatusOr<std::vector<std::string>> Get() {
    return Noted(RunUntilDone(*loop_, files_->fencing().GetFence(user_, handle_)));
  }
  absl::Status Set(const FenceChange& change) {
    absl::Status status = RunUntilDone(*loop_, files_->fencing().SetFence(user_, handle_, change));
    is_good_ = is_good_ && status.code() != absl::StatusCode::kDeadlineExceeded;
    return status;
  }

 private:
  absl::Status Connect(const FenceRequest& request);
  absl::Status Find(const std::vector<std::string>& path);
  template <class T>
  absl::StatusOr<T> Noted(absl::StatusOr<T> result) {
    is_good_ = is_good_ && result.status().code() != absl::StatusCode::kDeadlineExceeded;
    return result;
  }

  std::unique_ptr<dat::Provider> rdma_, tcp_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Files> files_;
  const Identity user_{};
  bool is_good_ = false;
  wire::FileHandle handle_;
  FenceObject object_ = FenceObject::kFilesystem;
};

absl::StatusOr<std::unique_ptr<FencedTarget>> FencedTarget::Open(const FenceRequest& request) {
  auto target = std::make_unique<FencedTarget>();
  RETURN_IF_ERROR(target->Connect(request));
  return target;
}

absl::Status FencedTarget::Connect(const FenceRequest& request) {
  ASSIGN_OR_RETURN(const Target target, ParseTarget(request.target));
  std::string host;
  uint16_t port = dat::kDefaultPort;
  RETURN_IF_ERROR(dat::SplitHostPort(target.server, &host, &port));
  ClientOptions options;
  ASSIGN_OR_RETURN(options.addresses, dat::ResolveHost(host, port));
  if (request.proto != "tcp" && !request.tls.wanted()) rdma_ = dat::NewVerbsProvider();
  if (request.proto != "rdma") {
    ASSIGN_OR_RETURN(tcp_, NewTcpProvider(request.tls, host));
  } else if (request.tls.wanted()) {
    return absl::InvalidArgumentError("--xprtsec: RDMA devices have no TLS; use --proto tcp");
  }
  for (dat::Provider* provider : {rdma_.get(), tcp_.get()}) {
    if (provider != nullptr) options.providers.push_back(provider);
  }
  options.server_name = request.target;
  // Two machines may fence each other at once, with the same pid.
  options.client_id_string = absl::StrCat("dafsctl fence ", HostName(), " ", getpid());
  options.fence_id = request.as;
  // The parent: whether the target is the root of a file system shows in comparison with it.
  options.export_path = target.path;
  if (!target.path.empty()) options.export_path.pop_back();
  options.max_requests = 4;
  options.buffers.bytes = size_t{4} << 20;
  options.response_cache = false;  // these requests may be sent twice
  options.soft = true;
  options.timeout = options.connect_timeout = absl::Seconds(request.timeout_s);
  ASSIGN_OR_RETURN(client_, Client::Create(std::move(options)));
  ASSIGN_OR_RETURN(loop_, Loop::Create());
  ASSIGN_OR_RETURN(files_, Files::Create(*client_, *loop_));
  RETURN_IF_ERROR(RunUntilDone(*loop_, files_->Connect()));
  is_good_ = true;
  return Find(target.path);
}

absl::Status FencedTarget::Find(const std::vector<std::string>& path) {
  ASSIGN_OR_RETURN(const Node parent, Noted(RunUntilDone(*loop_, files_->Mount(user_))));
  handle_ = parent.handle;
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const Node node,
      Noted(RunUntilDone(*loop_, files_->names().Lookup(user_, parent.handle, path.back()))));
  handle_ = node.handle;
  const bool is_root = node.handle.fshandle != parent.handle.fshandle;
  object_ = is_root ? FenceObject::kFilesystem : FenceObject::kFile;
  return absl::OkStatus();
}

// ---- Messages ----------------------------------------------------------------------------------

// Adds the remedy to an error of the word.
absl::Status Explained(const absl::Status& status, const std::string& word) {
  std::string why(status.message());
  switch (wire::DafsFromStatus(status)) {
    case DafsStatus::kAcces:
      absl::StrAppend(&why, "; if a fence is the reason, name an id of its list with --as");
      break;
    case DafsStatus::kInval:
      absl::StrAppend(
          &why,
          "; a list never runs empty, because then every client has access: to deny the "
          "last id, allow another first, and without a list begin with init");
      break;
    case DafsStatus::kNotAuthorized:
      absl::StrAppend(&why,
                      "; run dafsctl as root on a client that the export admits, or make it "
                      "`insecure`");
      break;
    default:
      if (word == "deny" && status.code() == absl::StatusCode::kDeadlineExceeded) {
        absl::StrAppend(&why,
                        "; requests of the denied clients may still be executed: run it again");
      }
      break;
  }
  return absl::Status(status.code(), absl::StrCat("fence ", word, ": ", why));
}

void Print(const FenceRequest& request, FenceObject object, const std::vector<std::string>& ids) {
  const bool of_file = object == FenceObject::kFile;
  if (request.json) {
    const nlohmann::json report = {
        {"target", request.target}, {"object", of_file ? "file" : "file system"}, {"ids", ids}};
    std::printf("%s\n",
                report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  if (ids.empty()) std::printf("no list: every client has access\n");
  for (const std::string& id : ids) std::printf("%s\n", absl::Utf8SafeCHexEscape(id).c_str());
}

FenceChange ChangeOf(const std::string& word, FenceObject object, const FenceRequest& request) {
  FenceChange change{.object = object, .ids = request.ids};
  if (word == "deny") {
    change.access = FenceAccess::kDeny;
    change.update = FenceUpdate::kRemove;
  } else if (word == "init") {
    change.update = FenceUpdate::kOverwrite;
    // Otherwise dafsctl could not change the list again, and the last client could not be denied.
    if (!change.ids.empty()) change.ids.push_back(request.as);
  }
  return change;
}

}  // namespace

CLI::App* AddFenceCommand(CLI::App& app, FenceRequest& request) {
  CLI::App* const fence =
      app.add_subcommand("fence", "Show and change which clients may access an export");
  fence->require_subcommand(1);
  for (const FenceWord& word : kFenceWords) {
    CLI::App* const command = fence->add_subcommand(word.name, word.about);
    command
        ->add_option("TARGET", request.target,
                     "SERVER:/EXPORT for its whole file system, SERVER:/EXPORT/PATH for one file")
        ->required();
    if (word.has_ids) {
      command->add_option("ID", request.ids, "fence ids, as clients have them by fence_id=")
          ->required(std::string(word.name) != "init");
    }
    command->add_option("--as", request.as, "fence id of dafsctl itself, which init adds")
        ->capture_default_str();
    command->add_option("--proto", request.proto, "transport: auto, tcp or rdma")
        ->check(CLI::IsMember({"auto", "tcp", "rdma"}))
        ->capture_default_str();
    command
        ->add_option("-W,--timeout", request.timeout_s,
                     "seconds to wait for the connection, and for each reply")
        ->check(CLI::Range(0.001, 86400.0))
        ->capture_default_str();
    command->add_flag("--json", request.json, "print JSON");
    AddTlsArguments(*command, request.tls);
  }
  return fence;
}

absl::Status AskForFence(const CLI::App& command, const FenceRequest& request) {
  const std::string word = command.get_subcommands().front()->get_name();
  absl::StatusOr<std::unique_ptr<FencedTarget>> target = FencedTarget::Open(request);
  if (!target.ok()) return Explained(target.status(), word);
  if (word != "show") {
    const absl::Status status = (*target)->Set(ChangeOf(word, (*target)->object(), request));
    if (!status.ok()) return Explained(status, word);
    if (!request.json) return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<std::string>> ids = (*target)->Get();
  if (!ids.ok()) return Explained(ids.status(), word);
  Print(request, (*target)->object(), *ids);
  return absl::OkStatus();
}

}  // namespace dafs::client
