#include "server/store/access/exports/openings.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/log/log.h"

namespace dafs::server {

Openings::~Openings() {
  End();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [index, each] : all_) threads.push_back(std::move(each.thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

absl::Status Openings::Start(std::function<absl::Status(size_t)> open, absl::Duration within,
                             absl::Duration retry) {
  open_ = std::move(open);
  retry_ = retry;
  count_.store(is_opening_.size(), std::memory_order_release);
  for (std::atomic<bool>& each : is_opening_) each.store(true, std::memory_order_release);
  {
    absl::MutexLock lock(&mutex_);
    running_ = is_opening_.size();
    for (size_t i = 0; i < is_opening_.size(); ++i) {
      Opening& opening = all_[i];
      opening.is_running = true;
      opening.thread = std::thread([this, i] {
        Run(i);
        RunMore(i, true);
      });
    }
  }
  Await(absl::Now() + within);
  absl::MutexLock lock(&mutex_);
  has_started_ = true;
  for (const absl::Status& error : errors_) {
    if (!error.ok()) return error;
  }
  for (auto& [index, each] : all_) {
    if (!each.is_running) each.thread.join();  // has ended; frees its stack
  }
  return absl::OkStatus();
}

Openings::Added Openings::OpenMore(const std::vector<size_t>& exports,
                                   std::function<absl::Status(size_t)> open,
                                   std::function<void(size_t)> drop, absl::Duration within) {
  Added added;
  std::vector<size_t> opened;
  {
    absl::MutexLock lock(&mutex_);
    open_more_ = std::move(open);
    drop_ = drop;
    for (const size_t i : exports) Begin(i);
    const auto all_done = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      for (const size_t i : exports) {
        if (!all_.at(i).has_result) return false;
      }
      return true;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&all_done), within);
    for (const size_t i : exports) {
      Opening& opening = all_.at(i);
      opening.is_awaited = false;
      if (!opening.has_result) {
        added.unfinished = i;
        continue;
      }
      added.status.Update(opening.status);
      if (opening.status.ok()) opened.push_back(i);
    }
  }
  if (added.status.ok() && !added.unfinished) return added;
  for (const size_t i : opened) drop(i);
  return added;
}

void Openings::Begin(size_t export_index) {
  Opening& opening = all_[export_index];
  opening.is_awaited = true;
  opening.has_result = false;
  if (opening.is_running) return;
  if (opening.thread.joinable()) opening.thread.join();  // takes no lock any more
  opening.is_running = true;
  ++running_;
  opening.thread = std::thread([this, export_index] { RunMore(export_index, false); });
}

void Openings::End() {
  absl::MutexLock lock(&mutex_);
  ends_ = true;
}

// The calls of Start.
void Openings::Run(size_t export_index) {
  std::string logged;
  for (;;) {
    const absl::Status status = open_(export_index);
    absl::MutexLock lock(&mutex_);
    errors_[export_index] = status;
    if (!status.ok() && has_started_) {
      if (logged != status.message()) {
        logged = std::string(status.message());
        LogError(logged + "; its clients wait until it can be served");
      }
      const Opening& opening = all_.at(export_index);
      const auto is_over = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ends_ || opening.is_awaited;
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&is_over), retry_) || !ends_) continue;
    }
    if (status.ok()) {
      is_opening_[export_index].store(false, std::memory_order_release);
      count_.fetch_sub(1, std::memory_order_release);
    }
    return;
  }
}

// The calls of OpenMore, and the end of the thread. `is_opened`: by Run.
void Openings::RunMore(size_t export_index, bool is_opened) {
  mutex_.Lock();
  Opening& opening = all_.at(export_index);
  for (;;) {
    if (opening.is_awaited) {
      const std::function<absl::Status(size_t)> open = open_more_;
      mutex_.Unlock();
      absl::Status status = open(export_index);
      mutex_.Lock();
      opening.status = std::move(status);
      opening.has_result = true;
      if (opening.is_awaited) break;  // OpenMore decides what becomes of it
      is_opened = opening.status.ok();
    }
    if (!is_opened || drop_ == nullptr) break;
    const std::function<void(size_t)> drop = drop_;
    mutex_.Unlock();
    drop(export_index);
    mutex_.Lock();
    if (!opening.is_awaited) break;
  }
  opening.is_running = false;
  --running_;
  mutex_.Unlock();
}

bool Openings::Await(absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(this, &Openings::none), deadline);
}

}  // namespace dafs::server
