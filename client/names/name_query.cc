#include "client/names/name_query.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

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
// The variables that the helper gets: settings of libldap and of the resolver.
constexpr const char* kPassedOn[] = {"LDAPCONF", "LDAPTLS_CACERT", "RES_OPTIONS", "LOCALDOMAIN"};

std::vector<std::string> EnvironmentOfHelper() {
  std::vector<std::string> all = {"PATH=/usr/bin:/bin"};
  for (const char* name : kPassedOn) {
    if (const char* value = getenv(name)) all.push_back(absl::StrCat(name, "=", value));
  }
  return all;
}

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
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
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = {"dafs-names", options.all ? "all" : "first", options.name};
  if (!options.conf.empty()) arguments.push_back(options.conf);
  std::vector<std::string> environment = EnvironmentOfHelper();
  const int error = posix_spawn(&query->pid_, options.helper.c_str(), &actions, &attributes,
                                PointersTo(arguments).data(), PointersTo(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return query;
  query->pid_ = -1;
  return absl::FailedPreconditionError(absl::StrCat(options.helper, ": ", std::strerror(error)));
}

NameQuery::~NameQuery() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
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
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
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
