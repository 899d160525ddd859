// The users and groups of a machine, under the control of a test. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/state/id_names.h"

namespace dafs::client::testing {

class FakeIdNames : public IdNames {
 public:
  // alice has number 5001, and the group staff 6001.
  FakeIdNames() {
    ids_[{auth::IdKind::kUser, "alice@example.com"}] = 5001;
    ids_[{auth::IdKind::kGroup, "staff@example.com"}] = 6001;
  }

  // While it is set, questions wait for Answer.
  void Hold() {
    absl::MutexLock lock(&mutex_);
    holds_ = true;
  }
  // Answers all questions that wait, on another thread.
  void Answer() {
    std::vector<std::function<void()>> waiting;
    {
      absl::MutexLock lock(&mutex_);
      holds_ = false;
      waiting.swap(waiting_);
    }
    std::thread([&waiting] {
      for (const auto& answer : waiting) answer();
    }).join();
  }
  // Lookups fail from now on.
  void Fail() {
    absl::MutexLock lock(&mutex_);
    fails_ = true;
  }
  int asked() const {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }

  std::optional<absl::StatusOr<uint32_t>> KeptId(auth::IdKind kind,
                                                 std::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    const auto kept = kept_ids_.find({kind, std::string(name)});
    return kept != kept_ids_.end() ? std::optional(kept->second) : std::nullopt;
  }
  std::optional<absl::StatusOr<std::string>> KeptName(auth::IdKind kind,
                                                      uint32_t id) const override {
    absl::MutexLock lock(&mutex_);
    const auto kept = kept_names_.find({kind, id});
    return kept != kept_names_.end() ? std::optional(kept->second) : std::nullopt;
  }
  void AskId(auth::IdKind kind, std::string_view name, std::function<void()> done) override {
    Ask([this, kind, name = std::string(name), done = std::move(done)] {
      {
        absl::MutexLock lock(&mutex_);
        const auto found = ids_.find({kind, name});
        absl::StatusOr<uint32_t> id = absl::NotFoundError("no such name");
        if (fails_) {
          id = absl::UnavailableError("the directory is down");
        } else if (found != ids_.end()) {
          id = found->second;
        }
        kept_ids_.insert_or_assign({kind, name}, std::move(id));
      }
      done();
    });
  }
  void AskName(auth::IdKind kind, uint32_t id, std::function<void()> done) override {
    Ask([this, kind, id, done = std::move(done)] {
      {
        absl::MutexLock lock(&mutex_);
        absl::StatusOr<std::string> name = absl::NotFoundError("no such number");
        for (const auto& [key, number] : ids_) {
          if (key.first == kind && number == id) name = key.second;
        }
        if (fails_) name = absl::UnavailableError("the directory is down");
        kept_names_.insert_or_assign({kind, id}, std::move(name));
      }
      done();
    });
  }

 private:
  void Ask(std::function<void()> answer) {
    {
      absl::MutexLock lock(&mutex_);
      ++asked_;
      if (holds_) {
        waiting_.push_back(std::move(answer));
        return;
      }
    }
    answer();
  }

  mutable absl::Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_ ABSL_GUARDED_BY(mutex_) = false;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<auth::IdKind, std::string>, uint32_t> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<auth::IdKind, std::string>, absl::StatusOr<uint32_t>> kept_ids_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<auth::IdKind, uint32_t>, absl::StatusOr<std::string>> kept_names_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client::testing
