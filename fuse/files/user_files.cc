#include "fuse/files/user_files.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

constexpr absl::Duration kTendEvery = absl::Seconds(5);
// A lease is renewed often enough that one lost request does not let it expire.
constexpr int kRenewalsOfLease = 3;

}  // namespace

UserFiles::UserFiles(client::Files& mount, UserClients& users,
                     std::unique_ptr<client::Files> refused)
    : mount_(mount), users_(&users), refused_(std::move(refused)) {}

UserFiles::~UserFiles() { Shutdown(); }

void UserFiles::Begin() {
  if (users_ != nullptr) Tend();
}

void UserFiles::Shutdown() {
  if (std::exchange(is_shut_down_, true)) return;
  if (timer_ != 0) loop().Cancel(std::exchange(timer_, 0));
  for (auto& [uid, own] : own_) own->files->Shutdown();
  for (auto& own : ending_) own->files->Shutdown();
}

client::Files& UserFiles::OfUser(uint32_t uid) {
  if (version_ != users_->version()) DropEnded();
  const auto known = own_.find(uid);
  if (known != own_.end()) return *known->second->files;
  auto own = std::make_unique<Own>();
  own->user = users_->Find(uid);
  if (own->user == nullptr || is_shut_down_) return *refused_;
  absl::StatusOr<std::unique_ptr<client::Files>> made =
      client::Files::Create(*own->user->client, loop());
  if (!made.ok()) {
    LogError(absl::StrCat(own->user->client->options().server_name, ": no session for user ", uid,
                          ": ", made.status().message(), "; its requests fail"));
    return *refused_;
  }
  own->files = *std::move(made);
  return *own_.emplace(uid, std::move(own)).first->second->files;
}

void UserFiles::DropEnded() {
  version_ = users_->version();
  for (auto it = own_.begin(); it != own_.end();) {
    const auto own = it++;
    if (!own->second->user->has_ended.load(std::memory_order_relaxed)) continue;
    ending_.push_back(std::move(own->second));
    own_.erase(own);
    Start(End(ending_.back().get()));
  }
}

Task<void> UserFiles::End(Own* own) {
  Task<void> disconnecting = own->files->Disconnect();
  co_await disconnecting;
  if (is_shut_down_) co_return;
  // Posted, because the code of the session may be on the stack.
  loop().Post([this, own] {
    std::erase_if(ending_, [own](const std::unique_ptr<Own>& one) { return one.get() == own; });
  });
}

void UserFiles::Tend() {
  const absl::Time now = Loop::Now();
  users_->EndUnused(now);
  if (version_ != users_->version()) DropEnded();
  absl::Duration next = kTendEvery;
  for (auto& [uid, own] : own_) {
    client::Client& client = *own->user->client;
    const absl::Duration every = client.lease() / kRenewalsOfLease;
    next = std::min(next, every / 2);
    if (own->renews || client.opens().size() == 0 || now - client.last_activity() < every) continue;
    own->renews = true;
    Start(Renew(own.get()));
  }
  timer_ = loop().RunAfter(next, [this] { Tend(); });
}

// `own` exists until its Files has ended all operations.
Task<void> UserFiles::Renew(Own* own) {
  Task<absl::Status> asking = own->files->Null();
  const absl::Status ignored = co_await asking;
  own->renews = false;
}

Task<void> UserFiles::CommitOfOthers(const client::Identity& user, const wire::FileHandle& file) {
  Task<void> own = Of(user).commits().CommitOfOthers(user, file);
  co_await own;
  if (users_ == nullptr) co_return;
  if (user.uid != 0) {
    Task<void> of_root = mount_.commits().CommitOfOthers(user, file);
    co_await of_root;
  }
  for (const std::shared_ptr<UserClient>& other : users_->All()) {
    if (other->uid == user.uid || !other->client->uncommitted().Holds(file)) continue;
    Task<void> committing = OfUser(other->uid).commits().CommitOfOthers(user, file);
    co_await committing;
  }
}

absl::Status UserFiles::TakeFailure(const wire::FileHandle& file) {
  absl::Status failure = mount_.commits().TakeFailure(file);
  if (users_ == nullptr) return failure;
  users_->ForEach([&](UserClient& user) {
    absl::Status of_user = user.client->lost_data().Take(file);
    if (failure.ok()) failure = std::move(of_user);
  });
  return failure;
}

void UserFiles::CommitAll(const std::function<void()>& done) {
  ForEach([&](client::Files& files) { files.commits().CommitAll(done); });
}

void UserFiles::CommitSoon() {
  ForEach([](client::Files& files) { files.commits().CommitSoon(); });
}

bool UserFiles::AllCommitted() const {
  return mount_.commits().all_committed() &&
         std::all_of(own_.begin(), own_.end(),
                     [](const auto& own) { return own.second->files->commits().all_committed(); });
}

Task<void> UserFiles::DisconnectOne(client::Files& files, size_t* left, Pending<bool>* done) {
  Task<void> disconnecting = files.Disconnect();
  co_await disconnecting;
  if (--*left == 0) done->Set(true);
}

Task<void> UserFiles::Disconnect() {
  Pending<bool> done;
  size_t left = 1 + own_.size();
  std::vector<client::Files*> all;
  ForEach([&](client::Files& files) { all.push_back(&files); });
  for (client::Files* files : all) Start(DisconnectOne(*files, &left, &done));
  co_await done;
}

}  // namespace dafs::fuse
