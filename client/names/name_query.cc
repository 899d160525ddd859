#include "client/names/name_query.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"

namespace dafs::names {
namespace {

constexpr size_t kMostOutputBytes = 1 << 20;
// The variables that the helper gets are settings of libldap and of the resolver.
std::vector<std::string> EnvironmentOfHelper() {
  std::vector<std::string> all =
      PassedOn({"LDAPCONF", "LDAPTLS_CACERT", "RES_OPTIONS", "LOCALDOMAIN"});
  all.emplace_back("PATH=/usr/bin:/bin");
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NameQuery>> NameQuery::Start(const NameQueryOptions& options,
                                                            absl::Time now) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return absl::ErrnoToStatus(errno, "pipe");
  auto query = absl::WrapUnique(new NameQuery());
  query->output_ = UniqueFd(ends[0]);
  query->deadline_ = now + kMostQueryTime;
  const UniqueFd theirs(ends[1]);
  std::vector<std::string> arguments = {"dafs-names", options.all ? "all" : "first", options.name};
  if (!options.conf.empty()) arguments.push_back(options.conf);
  RETURN_IF_ERROR(query->helper_.Start({.path = options.helper,
                                        .arguments = std::move(arguments),
                                        .environment = EnvironmentOfHelper(),
                                        .output = theirs.get()}));
  return query;
}

std::optional<absl::StatusOr<Answers>> NameQuery::Poll(absl::Time now) {
  std::array<char, 16384> piece;
  ssize_t got = 0;
  while ((got = read(output_.get(), piece.data(), piece.size())) > 0) {
    text_.append(piece.data(), static_cast<size_t>(got));
    if (text_.size() > kMostOutputBytes) {
      return absl::UnavailableError("dafs-names has sent more than 1 MiB");
    }
  }
  if (got == 0) return Finish();
  if (errno != EAGAIN && errno != EINTR) {
    return absl::UnavailableError(absl::StrCat("dafs-names: ", std::strerror(errno)));
  }
  if (now < deadline_) return std::nullopt;
  return absl::UnavailableError(absl::StrCat("the name services did not answer within ",
                                             absl::FormatDuration(kMostQueryTime)));
}

// The output is complete, so the helper ends now.
absl::StatusOr<Answers> NameQuery::Finish() {
  const int status = helper_.Wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ParseAnswers(text_);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1) {
    return absl::InvalidArgumentError(text_.substr(0, text_.find('\n')));
  }
  return absl::UnavailableError(
      WIFSIGNALED(status) ? absl::StrCat("dafs-names was ended by signal ", WTERMSIG(status))
                          : absl::StrCat("dafs-names has failed; is it installed with "
                                         "its libraries? exit status ",
                                         WEXITSTATUS(status)));
}

absl::StatusOr<Answers> RunNameQuery(const NameQueryOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NameQuery> query, NameQuery::Start(options, Loop::Now()));
  for (;;) {
    if (std::optional<absl::StatusOr<Answers>> answers = query->Poll(Loop::Now())) {
      return *std::move(answers);
    }
    pollfd wait = {.fd = query->fd(), .events = POLLIN, .revents = 0};
    poll(&wait, 1, 1000);
  }
}

}  // namespace dafs::names
