#include "fuse/mount/client/mount_name.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/names/answers.h"
#include "client/names/location.h"
#include "fuse/mount/client/mount_client.h"
#include "runtime/files/installed_file.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {
namespace {

constexpr int kSignalPollMs = 100;

std::string NextStep(const Options& options) {
  return absl::StrCat("; `dafsctl names ", options.names.empty() ? "" : "--conf ", options.names,
                      options.names.empty() ? "" : " ", options.source.text,
                      "` shows what each service answers");
}

Outcome NotFound(const Options& options, const names::Answers& answers) {
  const bool is_away =
      std::any_of(answers.services.begin(), answers.services.end(),
                  [](const auto& one) { return one.result == names::Result::kAway; });
  return {.code = ExitCode::kMountFailure,
          .reason = absl::StrCat(options.source.text, ": ", names::WhyNotFound(answers),
                                 NextStep(options), "; a server is written SERVER:/EXPORT"),
          .may_pass = is_away};
}

Outcome TakeAnswers(const Options& options, const names::Answers& answers, NameFound* found) {
  const names::Answer* const answer = names::FirstFound(answers);
  if (answer == nullptr) return NotFound(options, answers);
  std::string unused;
  found->places = names::PlacesOf(answer->locations, TransportsOf(options), &unused);
  found->service = answer->service;
  found->refresh = answers.refresh;
  if (!found->places.empty()) {
    if (!unused.empty()) {
      LogNotice(absl::StrCat(options.source.text, ": locations that are not used: ", unused));
    }
    return {};
  }
  const bool may_resolve = std::any_of(answer->locations.begin(), answer->locations.end(),
                                       [](const auto& one) { return !one.problem.empty(); });
  return {.code = ExitCode::kMountFailure,
          .reason =
              absl::StrCat(options.source.text, ": ", answer->service,
                           " has no location that this mount can use: ", unused, NextStep(options)),
          .may_pass = may_resolve};
}

}  // namespace

names::Transports TransportsOf(const Options& options) {
  const bool may_rdma = options.xprtsec == Xprtsec::kNone && options.proto != Proto::kTcp;
  return {.tcp = options.proto != Proto::kRdma,
          .rdma = may_rdma && (options.proto == Proto::kRdma || HasRdmaDevice())};
}

absl::StatusOr<names::NameQueryOptions> NameQueryFor(const Options& options) {
  ASSIGN_OR_RETURN(std::string helper, FindInstalledFile("dafs-names", options.source.text));
  return names::NameQueryOptions{.helper = std::move(helper),
                                 .name = options.source.text,
                                 .conf = options.names,
                                 .all = false};
}

Outcome LookUpName(const Options& options, const EndSignals& signals, const Daemon& daemon,
                   NameFound* found) {
  const auto failed = [&](const absl::Status& status) {
    return Outcome{
        .code = absl::IsInvalidArgument(status) ? ExitCode::kUsage : ExitCode::kMountFailure,
        .reason = absl::StrCat(options.source.text, ": ", status.message()),
        .may_pass = absl::IsUnavailable(status)};
  };
  const absl::StatusOr<names::NameQueryOptions> query_options = NameQueryFor(options);
  if (!query_options.ok()) return failed(query_options.status());
  absl::StatusOr<std::unique_ptr<names::NameQuery>> query =
      names::NameQuery::Start(*query_options, Loop::Now());
  if (!query.ok()) return failed(query.status());
  for (;;) {
    if (std::optional<absl::StatusOr<names::Answers>> answers = (*query)->Poll(Loop::Now())) {
      return answers->ok() ? TakeAnswers(options, **answers, found) : failed(answers->status());
    }
    pollfd waits[] = {{.fd = (*query)->fd(), .events = POLLIN, .revents = 0},
                      {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    poll(waits, 2, kSignalPollMs);
    if (!signals.Wait(daemon, absl::ZeroDuration())) return Interrupted();
  }
}

Options OptionsAt(const Options& options, const names::Place& place) {
  Options o = options;
  o.source.host = place.location.host;
  o.source.export_path = place.location.path;
  if (place.location.port != 0) o.port = place.location.port;
  o.addresses = place.addresses;
  return o;
}

}  // namespace dafs::fuse
