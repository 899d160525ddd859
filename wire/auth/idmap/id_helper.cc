#include "wire/auth/idmap/id_helper.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "wire/auth/idmap/packet_socket.h"

namespace dafs::auth {
namespace {

absl::Status Stopped() { return absl::CancelledError("ID mapping: stopped"); }

std::string Remedy(const std::string& path, const absl::Status& why) {
  if (access(path.c_str(), X_OK) != 0) return "; install the package dafs-client";
  // This process has forbidden itself to start programs.
  return absl::StrContains(why.message(), std::strerror(EPERM)) ? "; restart this program" : "";
}

// The helper itself ends a question before IdHelper gives the helper up.
int64_t MillisecondsOfWorker(absl::Duration answer_time) {
  return absl::ToInt64Milliseconds(answer_time * 0.9);
}

}  // namespace

absl::StatusOr<int> IdHelper::StartLocked() {
  if (is_stopped_) return Stopped();
  if (socket_.valid()) return socket_.get();
  auto ends = PacketSockets();
  if (!ends.ok())
    return absl::UnavailableError(absl::StrCat("ID mapping: ", ends.status().message()));
  process_.emplace();
  const absl::Status started = process_->Start(
      {.path = options_.path,
       .arguments = {"dafs-idmap", absl::StrCat(MillisecondsOfWorker(options_.answer_time)),
                     options_.domain, options_.config},
       .environment = PassedOn({"KRB5_CONFIG", "KRB5CCNAME"}),  // for LDAP with SASL
       .input = ends->second.get()});
  if (!started.ok()) {
    process_.reset();
    return absl::UnavailableError(
        absl::StrCat("ID mapping: ", started.message(), Remedy(options_.path, started)));
  }
  socket_ = std::move(ends->first);
  return socket_.get();
}

void IdHelper::EndLocked() {
  socket_.Close();
  process_.reset();
}

absl::Status IdHelper::Start() {
  const absl::MutexLock lock(&mutex_);
  return StartLocked().status();
}

absl::StatusOr<int> IdHelper::Begin(const std::string& bytes) {
  const absl::MutexLock lock(&mutex_);
  for (const bool is_first : {true, false}) {
    const bool is_old = socket_.valid();
    absl::StatusOr<int> socket = StartLocked();
    if (!socket.ok() || SendPacket(*socket, bytes)) return socket;
    EndLocked();
    if (!is_first || !is_old) break;
  }
  return absl::UnavailableError("ID mapping: dafs-idmap has ended at its start");
}

absl::Status IdHelper::Fail(const std::string& why) {
  const absl::MutexLock lock(&mutex_);
  EndLocked();
  if (is_stopped_) return Stopped();
  return absl::UnavailableError(absl::StrCat("ID mapping: dafs-idmap ", why));
}

// After a deadline it goes on with the same helper, which kills its worker by itself and answers
// late. dafsd could not start another one.
absl::StatusOr<IdAnswer> IdHelper::Ask(IdQuestion question) {
  const absl::Time deadline = SteadyNow() + options_.answer_time;
  question.number = ++last_number_;
  absl::StatusOr<int> socket = Begin(Encode(question));
  if (!socket.ok()) return socket.status();
  for (;;) {
    absl::StatusOr<std::string> bytes = ReceivePacket(*socket, kMostIdMessageBytes, deadline);
    if (absl::IsDeadlineExceeded(bytes.status())) {
      return absl::UnavailableError(
          absl::StrCat("ID mapping: dafs-idmap did not answer within ",
                       absl::FormatDuration(options_.answer_time),
                       "; do DNS and the directory of the users answer?"));
    }
    if (!bytes.ok()) return Fail("has ended without an answer");
    const bool is_late = NumberOf(*bytes) != 0 && NumberOf(*bytes) < question.number;
    if (is_late) continue;
    std::optional<IdAnswer> answer = DecodeIdAnswer(question, *bytes);
    if (!answer.has_value()) return Fail("has sent no valid answer");
    if (answer->outcome == IdAnswer::Outcome::kUnavailable) {
      return absl::UnavailableError(absl::StrCat("ID mapping: ", answer->text));
    }
    return *std::move(answer);
  }
}

void IdHelper::Stop() {
  const absl::MutexLock lock(&mutex_);
  is_stopped_ = true;
  if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace dafs::auth
