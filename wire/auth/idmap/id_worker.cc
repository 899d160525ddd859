#include "wire/auth/idmap/id_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "wire/auth/idmap/id_library.h"
#include "wire/auth/idmap/id_message.h"
#include "wire/auth/idmap/packet_socket.h"

namespace dafs::auth {
namespace {

std::string Unavailable(std::string_view question, std::string why) {
  return Encode(IdAnswer{.outcome = IdAnswer::Outcome::kUnavailable,
                         .number = NumberOf(question),
                         .text = std::move(why)});
}

// The worker keeps nothing of dafs-idmap open: its client must see when dafs-idmap ends.
bool LeaveStreams() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  return null >= 0 && dup2(null, STDIN_FILENO) >= 0;
}

// Serves until dafs-idmap ends, or libnfsidmap cannot be used.
void Work(int socket, const IdWorkerOptions& options, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || !LeaveStreams()) return;
  auto library = IdLibrary::Open(options.domain, options.config);
  for (;;) {
    absl::StatusOr<std::string> bytes =
        ReceivePacket(socket, kMostIdMessageBytes, absl::InfiniteFuture());
    if (!bytes.ok()) return;
    const std::optional<IdQuestion> question = DecodeIdQuestion(*bytes);
    if (!question.has_value()) return;
    if (!library.ok()) {
      SendPacket(socket, Unavailable(*bytes, std::string(library.status().message())));
      return;
    }
    IdAnswer answer = (*library)->Answer(*question);
    answer.number = question->number;
    if (!SendPacket(socket, Encode(answer))) return;
  }
}

// Collects the exit status of killed workers. Not while there is one to kill: its pid would be free
// for another process.
void Reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

std::string IdWorker::Start() {
  Reap();
  auto ends = PacketSockets();
  if (!ends.ok()) return std::string(ends.status().message());
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return absl::StrCat("fork: ", std::strerror(errno));
  if (pid_ == 0) {
    ends->first.Close();
    Work(ends->second.get(), options_, parent);
    _exit(0);
  }
  socket_ = std::move(ends->first);
  return "";
}

// Does not wait for its end: a process that waits for a dead file server ends late.
void IdWorker::End() {
  socket_.Close();
  if (pid_ > 0) kill(std::exchange(pid_, -1), SIGKILL);
  Reap();
}

std::string IdWorker::Fail(std::string_view question, const std::string& why) {
  End();
  return Unavailable(question, why);
}

std::string IdWorker::Ask(const std::string& question) {
  const absl::Time deadline = SteadyNow() + options_.answer_time;
  // A worker without libnfsidmap has ended after its answer. So may any, by the kernel.
  if (socket_.valid() && !SendPacket(socket_.get(), question)) End();
  if (!socket_.valid()) {
    if (const std::string why = Start(); !why.empty()) return Fail(question, why);
    if (!SendPacket(socket_.get(), question))
      return Fail(question, "the worker has ended at its start");
  }
  absl::StatusOr<std::string> answer = ReceivePacket(socket_.get(), kMostIdMessageBytes, deadline);
  if (answer.ok()) return *std::move(answer);
  return Fail(question, absl::IsDeadlineExceeded(answer.status())
                            ? absl::StrCat("libnfsidmap did not answer within ",
                                           absl::FormatDuration(options_.answer_time),
                                           "; do DNS and the directory of the users answer?")
                            : "libnfsidmap has ended its process");
}

}  // namespace dafs::auth
