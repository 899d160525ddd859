// A fake mechanism of GSS: its tokens are words that say what the exchange shall prove.
// wire/auth/gss has the real one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "wire/auth/exchange.h"

namespace dafs::auth::testing {

// The server's side. A token is "PRINCIPAL USER SECONDS", each of which may be missing. "more" asks
// for another token, and anything that begins with "bad" is refused.
class FakeExchange final : public Exchange {
 public:
  // Holds `counted` as long as it exists.
  explicit FakeExchange(std::shared_ptr<const void> counted) : counted_(std::move(counted)) {}
  absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
    *answer = "answer";
    if (token.substr(0, 3) == "bad") return absl::UnauthenticatedError("a bad token");
    if (token == "more") return Progress::kContinues;
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(token.data(), token.size()), ' ');
    name_ = words[0];
    if (words.size() > 1) user_ = words[1];
    double seconds = 0;
    if (words.size() > 2 && absl::SimpleAtod(words[2], &seconds)) {
      lifetime_ = absl::Seconds(seconds);
    }
    return Progress::kDone;
  }
  const std::string& peer_name() const override { return name_; }
  const std::string& user() const override { return user_; }
  absl::Duration lifetime() const override { return lifetime_; }
  uint32_t major_status() const override { return 7; }
  uint32_t minor_status() const override { return 8; }

 private:
  const std::shared_ptr<const void> counted_;
  std::string name_, user_;
  absl::Duration lifetime_ = absl::InfiniteDuration();
};

class FakeAcceptor final : public Acceptor {
 public:
  std::unique_ptr<Exchange> Begin(const std::string&) override {
    return std::make_unique<FakeExchange>(counted_);
  }
  std::string_view mechanism() const override { return "oid"; }
  // The exchanges that exist now.
  long living() const { return counted_.use_count() - 1; }

 private:
  // Shared by the exchanges.
  const std::shared_ptr<const int> counted_ = std::make_shared<const int>(0);
};

// The client's side: sends the given tokens, one for each exchange, and the last one again and
// again. Takes any answer.
class FakeInitiator final : public Initiator {
 public:
  // `lifetime`: of what each exchange proves, as this side knows it.
  explicit FakeInitiator(std::vector<std::string> tokens,
                         absl::Duration lifetime = absl::InfiniteDuration())
      : tokens_(std::move(tokens)), lifetime_(lifetime) {}

  std::unique_ptr<Exchange> Begin(const std::string&) override {
    absl::MutexLock lock(&mutex_);
    const size_t at = std::min<size_t>(static_cast<size_t>(begun_++), tokens_.size() - 1);
    return std::make_unique<Side>(tokens_[at], lifetime_, answer_, counted_);
  }
  // The exchanges that exist now.
  long living() const { return counted_.use_count() - 1; }
  int begun() const {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }
  // The result that the next exchanges give for the server's answer.
  void SetAnswer(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(status);
  }

 private:
  class Side final : public Exchange {
   public:
    Side(std::string token, absl::Duration lifetime, absl::Status answer,
         std::shared_ptr<const void> counted)
        : token_(std::move(token)),
          lifetime_(lifetime),
          answer_(std::move(answer)),
          counted_(std::move(counted)) {}
    absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
      answer->clear();
      if (token.empty()) {
        *answer = token_;
        return Progress::kContinues;
      }
      if (!answer_.ok()) return answer_;
      return Progress::kDone;
    }
    const std::string& peer_name() const override { return token_; }
    const std::string& user() const override { return none_; }
    absl::Duration lifetime() const override { return lifetime_; }
    uint32_t major_status() const override { return 0; }
    uint32_t minor_status() const override { return 0; }

   private:
    const std::string token_, none_;
    const absl::Duration lifetime_;
    const absl::Status answer_;
    const std::shared_ptr<const void> counted_;
  };

  const std::vector<std::string> tokens_;
  const absl::Duration lifetime_;
  // Shared by the exchanges.
  const std::shared_ptr<const int> counted_ = std::make_shared<const int>(0);
  mutable absl::Mutex mutex_;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::auth::testing
