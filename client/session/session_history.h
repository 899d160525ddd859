// Records when the sessions of a worker began and were lost, and why there is none now. Writes the
// log lines about that, and reports to dafsctl. Belongs to the thread of the worker's loop.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/report.h"

namespace dafs::client {

class Session;

class SessionHistory {
 public:
  explicit SessionHistory(std::string name);  // for log lines

  // A session is established.
  void Began();
  // `session` ended by itself. `is_planned`: the client gave it up. `reconnects`: the next one will
  // be built.
  void Lost(const Session& session, bool is_planned, bool reconnects);
  // An attempt to build a session succeeded. `tried`: why earlier addresses and transports failed.
  void Succeeded(std::string tried) { passed_over_ = std::move(tried); }
  // All addresses and transports failed.
  void Failed(const absl::Status& why) { not_connected_ = why; }

  // Logs that `session` replaces a lost one.
  void LogReplaced(const Session& session, int attempts) const;
  // Logs that an attempt failed, once a minute at most.
  void LogRetry(const absl::Status& why);
  // kDeadlineExceeded: says why there is no session, and for how long.
  absl::Status NoSession() const;

  const std::string& name() const { return name_; }
  // When the last session was lost; before the first session, when this object was made.
  absl::Time lost_at() const { return lost_at_; }
  absl::Time began_at() const { return began_at_; }
  // `session` is the live one; null: none.
  void Fill(const Session* session, WorkerReport& report) const;

 private:
  std::string name_;
  uint64_t connects_ = 0;
  absl::Status not_connected_;  // why there is no session
  std::string passed_over_;     // why earlier attempts failed, before the present session
  absl::Time lost_at_;
  absl::Time began_at_;
  absl::Time retry_logged_;
};

}  // namespace dafs::client
