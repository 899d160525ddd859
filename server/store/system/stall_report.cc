#include "server/store/system/stall_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"

namespace dafs::server {

StallReport::StallReport(std::string what, Times times)
    : what_(std::move(what)), times_(times), thread_([this] { Run(); }) {}

StallReport::~StallReport() {
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
  }
  thread_.join();
}

void StallReport::Run() {
  const absl::Time begin = absl::Now();
  const auto waited = [begin] {
    return absl::FormatDuration(absl::Trunc(absl::Now() - begin, absl::Seconds(1)));
  };
  bool said = false;
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&over_), said ? times_.again : times_.first)) {
    said = true;
    LogWarning(absl::StrCat(what_, ": no answer for ", waited(),
                            "; its clients wait for it, other exports are served meanwhile"));
  }
  if (said) LogNotice(absl::StrCat(what_, ": answered after ", waited()));
}

}  // namespace dafs::server
