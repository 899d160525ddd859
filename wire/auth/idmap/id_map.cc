#include "wire/auth/idmap/id_map.h"

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/log/log.h"
#include "runtime/log/log_budget.h"
#include "runtime/text.h"
#include "wire/auth/idmap/id_helper.h"
#include "wire/auth/idmap/id_message.h"
#include "wire/auth/idmap/kept_answers.h"
#include "wire/auth/idmap/packet_socket.h"

namespace dafs::auth {
namespace {

using Kind = IdQuestion::Kind;
using Result = absl::StatusOr<IdAnswer>;

IdQuestion QuestionOfName(IdKind kind, std::string_view name) {
  return {.kind = kind == IdKind::kUser ? Kind::kUserId : Kind::kGroupId,
          .name = std::string(name)};
}

IdQuestion QuestionOfId(IdKind kind, uint32_t id) {
  return {.kind = kind == IdKind::kUser ? Kind::kUserName : Kind::kGroupName, .id = id};
}

bool IsByName(const IdQuestion& question) {
  return question.kind != Kind::kUserName && question.kind != Kind::kGroupName;
}

std::string Subject(const IdQuestion& question) {
  return IsByName(question) ? question.name : absl::StrCat(question.id);
}

// Questions with the same key have the same answer.
std::string KeyOf(const IdQuestion& question) {
  return absl::StrCat(static_cast<uint32_t>(question.kind), " ", Subject(question));
}

// The answer of the helper, or the error that it means.
Result ResultOf(const IdQuestion& question, Result answer) {
  if (!answer.ok() || answer->outcome == IdAnswer::Outcome::kFound) return answer;
  if (answer->outcome == IdAnswer::Outcome::kNone) {
    return absl::NotFoundError(
        absl::StrCat("ID mapping: ", Subject(question), " is not a user or group of this machine"));
  }
  return absl::UnavailableError(absl::StrCat("ID mapping: ", answer->text));
}

// After what time the answer of the helper is due.
absl::Duration LifeOf(const IdAnswer& answer) {
  switch (answer.outcome) {
    case IdAnswer::Outcome::kFound:
      return IdMap::kKeepTime;
    case IdAnswer::Outcome::kNone:
      return IdMap::kKeepNone;
    case IdAnswer::Outcome::kFailed:
    case IdAnswer::Outcome::kUnavailable:
      break;
  }
  return IdMap::kKeepFailure;
}

absl::StatusOr<uint32_t> IdOf(const Result& result) {
  if (!result.ok()) return result.status();
  return result->id;
}

absl::StatusOr<std::string> NameOf(Result result) {
  if (!result.ok()) return result.status();
  return std::move(result->text);
}

// The most questions that wait for the helper. Names, which a peer may have made up, are not added
// to more than half of that; numbers have room left, and principals are always added.
constexpr size_t kMostWaiting = 4096;
constexpr size_t kMostNamesWaiting = kMostWaiting / 2;

// A question that waits for the helper, or has its answer.
struct Asked {
  IdQuestion question;
  std::vector<std::function<void()>> dones = {};
  std::optional<Result> result = std::nullopt;
};

}  // namespace

struct IdMap::State {
  explicit State(IdMapOptions options)
      : domain(options.domain),
        helper({.path = std::move(options.helper),
                .domain = std::move(options.domain),
                .config = std::move(options.config),
                .answer_time = kAnswerTime}) {}
  void End();

  // A result without the helper, or nullopt. Sets *is_due if it is to be looked up again.
  std::optional<Result> Find(const IdQuestion& question, bool* is_due) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex);
  // The same. Queues the question if the result is due.
  std::optional<Result> FindKept(const IdQuestion& question);
  // Whether there is a result that is not due.
  std::optional<Result> FindCurrent(const IdQuestion& question) const;
  Result Ask(IdQuestion question);
  // Calls `done` when there is a result.
  void AskLater(IdQuestion question, std::function<void()> done);
  // Queues a question, or joins the same one in the queue. Null: too many wait.
  std::shared_ptr<Asked> Add(IdQuestion question) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // The thread: takes questions from the queue until the end.
  void Run();
  std::shared_ptr<Asked> Next();
  // Keeps the result for `life`.
  void Finish(Asked& asked, Result result, absl::Duration life);
  void Keep(const IdQuestion& question, const Result& result, absl::Duration life)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Note(const absl::Status& status);
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Stop();

  const std::string domain;
  IdHelper helper;
  mutable absl::Mutex mutex;
  bool is_ending ABSL_GUARDED_BY(mutex) = false;
  int waiting ABSL_GUARDED_BY(mutex) = 0;  // calls of Ask
  uint32_t generation ABSL_GUARDED_BY(mutex) = 0;
  // The error of the helper, which all questions get until `failure_ends`.
  absl::Status failure ABSL_GUARDED_BY(mutex);
  absl::Time failure_ends ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  KeptAnswers<std::string, Result> kept ABSL_GUARDED_BY(mutex){kMostKept, kKeepAfterDue};
  // Owned by the queue, its index, the thread, and each caller that waits.
  std::deque<std::shared_ptr<Asked>> queue ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string, std::shared_ptr<Asked>> queued ABSL_GUARDED_BY(mutex);
  std::thread thread ABSL_GUARDED_BY(mutex);
  // Of the thread: what it has logged last.
  bool is_failing = false;
  LogBudget budget;
};

std::optional<Result> IdMap::State::Find(const IdQuestion& question, bool* is_due) const {
  if (IsByName(question) && !IsIdName(question.name)) {
    return absl::NotFoundError("ID mapping: the name has no domain");
  }
  const absl::Time now = SteadyNow();
  const auto found = kept.Find(KeyOf(question), now);
  if (found.value != nullptr) {
    *is_due = found.is_due && !is_ending && now >= failure_ends;
    return *found.value;
  }
  if (is_ending) return absl::CancelledError("ID mapping: stopped");
  if (now < failure_ends) return failure;
  return std::nullopt;
}

std::optional<Result> IdMap::State::FindKept(const IdQuestion& question) {
  bool is_due = false;
  std::optional<Result> found;
  {
    const absl::ReaderMutexLock lock(&mutex);
    found = Find(question, &is_due);
  }
  if (is_due) {
    const absl::MutexLock lock(&mutex);
    if (!is_ending) Add(question);
  }
  return found;
}

std::optional<Result> IdMap::State::FindCurrent(const IdQuestion& question) const {
  bool is_due = false;
  const absl::ReaderMutexLock lock(&mutex);
  std::optional<Result> found = Find(question, &is_due);
  return is_due ? std::nullopt : found;
}

std::shared_ptr<Asked> IdMap::State::Add(IdQuestion question) {
  std::string key = KeyOf(question);
  const auto known = queued.find(key);
  if (known != queued.end()) return known->second;
  const bool is_principal = question.kind == Kind::kPrincipal;
  const size_t most = IsByName(question) ? kMostNamesWaiting : kMostWaiting;
  if (queue.size() >= most && !is_principal) return nullptr;
  auto asked = std::make_shared<Asked>(Asked{.question = std::move(question)});
  queued.emplace(std::move(key), asked);
  // A thread waits for a principal, and a client for its session.
  queue.insert(is_principal ? queue.begin() : queue.end(), asked);
  StartThread();
  return asked;
}

void IdMap::State::StartThread() {
  if (!thread.joinable()) thread = std::thread([this] { Run(); });
}

Result IdMap::State::Ask(IdQuestion question) {
  if (std::optional<Result> found = FindKept(question)) return *std::move(found);
  const absl::MutexLock lock(&mutex);
  if (is_ending) return absl::CancelledError("ID mapping: stopped");
  const std::shared_ptr<Asked> asked = Add(std::move(question));
  if (asked == nullptr) {
    return absl::UnavailableError("ID mapping: too many names are being looked up; try again");
  }
  ++waiting;
  mutex.Await(absl::Condition(
      +[](Asked* waits) { return waits->result.has_value(); }, asked.get()));
  --waiting;
  return *asked->result;
}

void IdMap::State::AskLater(IdQuestion question, std::function<void()> done) {
  if (!FindKept(question).has_value()) {
    const absl::MutexLock lock(&mutex);
    const std::shared_ptr<Asked> asked = is_ending ? nullptr : Add(std::move(question));
    if (asked != nullptr) {
      asked->dones.push_back(std::move(done));
      return;
    }
  }
  done();
}

// nullptr: the end.
std::shared_ptr<Asked> IdMap::State::Next() {
  const absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(
      +[](State* state)
           ABSL_NO_THREAD_SAFETY_ANALYSIS { return state->is_ending || !state->queue.empty(); },
      this));
  if (queue.empty()) return nullptr;
  std::shared_ptr<Asked> asked = std::move(queue.front());
  queue.pop_front();
  queued.erase(KeyOf(asked->question));
  asked->question.generation = generation;
  return asked;
}

void IdMap::State::Finish(Asked& asked, Result result, absl::Duration life) {
  std::vector<std::function<void()>> dones;
  {
    const absl::MutexLock lock(&mutex);
    Keep(asked.question, result, life);
    asked.result = std::move(result);
    dones = std::move(asked.dones);
  }
  for (const std::function<void()>& done : dones) done();
}

// An answer from before stays when the question fails now.
void IdMap::State::Keep(const IdQuestion& question, const Result& result, absl::Duration life) {
  if (question.generation != generation || question.kind == Kind::kPrincipal) return;
  const std::string key = KeyOf(question);
  const absl::Time now = SteadyNow();
  const bool failed = !result.ok() && !absl::IsNotFound(result.status());
  const Result* const before = failed ? kept.Find(key, now).value : nullptr;
  if (before != nullptr) {
    kept.Keep(key, Result(*before), now, kKeepFailure);
  } else if (life > absl::ZeroDuration()) {
    kept.Keep(key, result, now, life);
  }
}

// Logs the first failure, and its end, within a bound: a peer may alternate names that fail and
// names that do not.
void IdMap::State::Note(const absl::Status& status) {
  const bool fails = !status.ok() && !absl::IsNotFound(status) && !absl::IsCancelled(status);
  if (fails == is_failing || !budget.Admits(SteadyNow())) return;
  is_failing = fails;
  if (fails) {
    LogWarning(absl::StrCat(status.message(), "; answers from before are used meanwhile",
                            budget.TakeLeftOut()));
  } else {
    LogNotice(absl::StrCat("ID mapping: names are looked up again", budget.TakeLeftOut()));
  }
}

void IdMap::State::Run() {
  while (const std::shared_ptr<Asked> asked = Next()) {
    // The same question may have been answered meanwhile, or the helper has failed.
    if (std::optional<Result> found = FindCurrent(asked->question)) {
      Finish(*asked, *std::move(found), absl::ZeroDuration());
      continue;
    }
    Result answer = helper.Ask(asked->question);
    if (absl::IsUnavailable(answer.status())) {
      const absl::MutexLock lock(&mutex);
      if (asked->question.generation == generation) {
        failure = answer.status();
        failure_ends = SteadyNow() + kKeepFailure;
      }
    }
    const absl::Duration life = answer.ok() ? LifeOf(*answer) : absl::ZeroDuration();
    Result result = ResultOf(asked->question, std::move(answer));
    Note(result.status());
    Finish(*asked, std::move(result), life);
  }
}

void IdMap::State::Stop() {
  {
    const absl::MutexLock lock(&mutex);
    is_ending = true;
  }
  helper.Stop();
}

void IdMap::State::End() {
  Stop();
  std::thread last;
  {
    const absl::MutexLock lock(&mutex);
    last = std::move(thread);
  }
  if (last.joinable()) last.join();
  const absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(
      +[](State* state) ABSL_NO_THREAD_SAFETY_ANALYSIS { return state->waiting == 0; }, this));
}

IdMap::IdMap(IdMapOptions options) : state_(std::make_unique<State>(std::move(options))) {}

IdMap::~IdMap() { state_->End(); }

absl::Status IdMap::Start() { return state_->helper.Start(); }

void IdMap::StartThread() {
  const absl::MutexLock lock(&state_->mutex);
  state_->StartThread();
}

void IdMap::Stop() { state_->Stop(); }

const std::string& IdMap::domain() const { return state_->domain; }

bool IdMap::IsName(std::string_view text) { return IsIdName(text); }

std::optional<absl::StatusOr<uint32_t>> IdMap::KeptId(IdKind kind, std::string_view name) const {
  const std::optional<Result> found = state_->FindKept(QuestionOfName(kind, name));
  if (!found.has_value()) return std::nullopt;
  return IdOf(*found);
}

std::optional<absl::StatusOr<std::string>> IdMap::KeptName(IdKind kind, uint32_t id) const {
  std::optional<Result> found = state_->FindKept(QuestionOfId(kind, id));
  if (!found.has_value()) return std::nullopt;
  return NameOf(*std::move(found));
}

absl::StatusOr<uint32_t> IdMap::Id(IdKind kind, std::string_view name) {
  return IdOf(state_->Ask(QuestionOfName(kind, name)));
}

absl::StatusOr<std::string> IdMap::Name(IdKind kind, uint32_t id) {
  return NameOf(state_->Ask(QuestionOfId(kind, id)));
}

absl::StatusOr<MappedUser> IdMap::User(std::string_view principal) {
  Result result = state_->Ask({.kind = Kind::kPrincipal, .name = std::string(principal)});
  if (!result.ok()) return result.status();
  return MappedUser{.uid = result->id, .gid = result->gid, .groups = std::move(result->groups)};
}

void IdMap::AskId(IdKind kind, std::string_view name, std::function<void()> done) {
  state_->AskLater(QuestionOfName(kind, name), std::move(done));
}

void IdMap::AskName(IdKind kind, uint32_t id, std::function<void()> done) {
  state_->AskLater(QuestionOfId(kind, id), std::move(done));
}

void IdMap::Forget() {
  const absl::MutexLock lock(&state_->mutex);
  ++state_->generation;
  state_->kept.Clear();
  state_->failure_ends = absl::InfinitePast();
}

}  // namespace dafs::auth
