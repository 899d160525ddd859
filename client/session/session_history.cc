#include "client/session/session_history.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/session.h"
#include "runtime/log/log.h"

namespace dafs::client {
namespace {

std::string Since(absl::Time time, absl::Duration unit) {
  return absl::FormatDuration(absl::Trunc(Loop::Now() - time, unit));
}

}  // namespace

SessionHistory::SessionHistory(std::string name)
    : name_(std::move(name)),
      not_connected_(absl::UnavailableError("never connected")),
      lost_at_(Loop::Now()) {}

void SessionHistory::Began() {
  ++connects_;
  began_at_ = Loop::Now();
  not_connected_ = absl::OkStatus();
}

void SessionHistory::Lost(const Session& session, bool is_planned, bool reconnects) {
  lost_at_ = Loop::Now();
  retry_logged_ = absl::Time();
  not_connected_ = session.why();
  Log(is_planned ? Severity::kNotice : Severity::kWarning,
      absl::StrCat(name_, ": session with ", session.peer().ToString(),
                   is_planned ? " " : " lost: ", not_connected_.message(),
                   reconnects ? "; reconnecting" : ""));
}

void SessionHistory::LogReplaced(const Session& session, int attempts) const {
  if (connects_ <= 1) return;
  SessionReport report;
  session.Fill(report);
  LogNotice(absl::StrCat(name_, ": new session with ", report.peer, " over ", report.transport,
                         " after ", Since(lost_at_, absl::Milliseconds(1)), ", ", attempts,
                         attempts == 1 ? " attempt" : " attempts",
                         passed_over_.empty() ? "" : "; tried before: ", passed_over_));
}

void SessionHistory::LogRetry(const absl::Status& why) {
  if (Loop::Now() - retry_logged_ < absl::Minutes(1)) return;
  retry_logged_ = Loop::Now();
  LogWarning(absl::StrCat(name_, ": no session for ", Since(lost_at_, absl::Milliseconds(1)), ": ",
                          why.message(), "; retrying"));
}

absl::Status SessionHistory::NoSession() const {
  return absl::DeadlineExceededError(absl::StrCat(name_, ": no session for ",
                                                  Since(lost_at_, absl::Seconds(1)), ": ",
                                                  not_connected_.message()));
}

void SessionHistory::Fill(const Session* session, WorkerReport& report) const {
  report.name = name_;
  report.connects = connects_;
  if (session != nullptr) {
    session->Fill(report.session);
    report.session.passed_over = passed_over_;
  } else {
    report.not_connected = std::string(not_connected_.message());
    report.not_connected_for = Loop::Now() - lost_at_;
  }
}

}  // namespace dafs::client
