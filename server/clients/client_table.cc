#include "server/clients/client_table.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

namespace dafs::server {

using wire::DafsStatus;

namespace {

// The resources that the server keeps for a client without a lease.
uint64_t Weight(Client& client) { return client.holdings()->opens + client.credentials().count(); }

}  // namespace

ClientTable::ClientTable(const Options& options) : options_(options) {
  // Client ids must not repeat those of another instance of the server: starts at a random number,
  // with room for 2^32 clients above it.
  uint64_t start = 0;
  if (getrandom(&start, sizeof(start), 0) != sizeof(start)) start = 0;
  next_id_ = (start & ~uint64_t{0xffffffff}) + 1;
}

std::shared_ptr<Client> ClientTable::Connect(const std::string& client_id_string,
                                             const wire::Verifier& verifier,
                                             uint32_t max_credentials) {
  absl::MutexLock lock(&mutex_);
  auto known = confirmed_.find(client_id_string);
  if (known != confirmed_.end() && known->second->verifier() == verifier) return known->second;

  Key key(client_id_string, verifier);
  if (auto waiting = unconfirmed_.find(key); waiting != unconfirmed_.end()) {
    if (std::shared_ptr<Client> client = waiting->second.lock()) return client;
  }
  std::erase_if(unconfirmed_, [](const auto& entry) { return entry.second.expired(); });
  auto client = NewClient(client_id_string, verifier, max_credentials);
  unconfirmed_[std::move(key)] = client;
  return client;
}

std::shared_ptr<Client> ClientTable::ConnectStranger(const std::string& client_id_string,
                                                     const wire::Verifier& verifier,
                                                     uint32_t max_credentials) {
  absl::MutexLock lock(&mutex_);
  return NewClient(client_id_string, verifier, max_credentials);
}

std::shared_ptr<Client> ClientTable::NewClient(const std::string& client_id_string,
                                               const wire::Verifier& verifier,
                                               uint32_t max_credentials) {
  const uint32_t most = max_credentials == 0 ? options_.default_credentials
                                             : std::min(max_credentials, options_.max_credentials);
  return std::make_shared<Client>(client_id_string, verifier,
                                  wire::OpaqueFromUint64<wire::ClientId>(next_id_++), most);
}

ClientTable::Confirmation ClientTable::Confirm(const std::shared_ptr<Client>& client,
                                               const Principal& principal, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Confirmation result;
  result.status = DafsStatus::kClidInUse;
  if (client->confirmed_) {
    if (client->superseded_) return result;
    if (!client->principal_.ProvesTheSame(principal)) return result;
  } else {
    const ClientRecords::Record record{client->client_id_string(), client->verifier(), principal,
                                       nullptr};
    if (draining_since_.has_value() && !MayReclaim(record)) {
      result.status = DafsStatus::kDelay;
      return result;
    }
    auto known = confirmed_.find(client->client_id_string());
    if (known != confirmed_.end()) {
      if (!MayReplace(principal, *known->second, now)) {
        result.holder = known->second->principal_;
        return result;
      }
      known->second->superseded_ = true;
      result.replaced = std::move(known->second);
      confirmed_.erase(known);
    } else if (records_ != nullptr && records_->BelongsToAnother(record)) {
      return result;  // the client that had the name may still reclaim
    }
    client->confirmed_ = true;
    client->since_ = now;
    Holdings* recorded = records_ != nullptr ? records_->Take(record) : nullptr;
    result.has_no_promises = recorded == nullptr || !records_->MayHavePromises(recorded);
    client->holdings_ = recorded != nullptr ? recorded : &client->unrecorded_;
    client->principal_ = principal;
    unconfirmed_.erase(Key(client->client_id_string(), client->verifier()));
  }
  // A client that expired while its session lived keeps its id when it authenticates again.
  confirmed_[client->client_id_string()] = client;
  ++client->sessions_;
  client->Renew(now);
  result.status = DafsStatus::kOk;
  return result;
}

bool ClientTable::MayReclaim(const ClientRecords::Record& client) const {
  if (records_ == nullptr) return false;
  const std::vector<ClientRecords::Record> owed = records_->Owed();
  return std::any_of(owed.begin(), owed.end(), [&client](const ClientRecords::Record& each) {
    return each.client_id_string == client.client_id_string && each.verifier == client.verifier;
  });
}

bool ClientTable::SetDraining(bool draining, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (draining_since_.has_value() == draining) return false;
  draining_since_ = draining ? std::optional<absl::Time>(now) : std::nullopt;
  return true;
}

std::optional<absl::Time> ClientTable::draining_since() const {
  absl::MutexLock lock(&mutex_);
  return draining_since_;
}

bool ClientTable::MayReplace(const Principal& principal, const Client& old, absl::Time now) const {
  if (old.principal_ == principal) return true;
  return old.principal_.ProvesTheSame(principal) && HasExpired(old, now);
}

void ClientTable::SessionClosed(const std::shared_ptr<Client>& client) {
  absl::MutexLock lock(&mutex_);
  --client->sessions_;
}

void ClientTable::Released(const std::shared_ptr<Client>& replaced) {
  absl::MutexLock lock(&mutex_);
  replaced_.push_back(replaced);
}

void ClientTable::ForgetReplaced(std::vector<wire::ClientId>* released) {
  std::erase_if(replaced_, [&](const std::shared_ptr<Client>& client) {
    mutex_.AssertHeld();
    if (client->holdings()->opens > 0) released->push_back(client->client_id());
    if (client->sessions_ > 0 || client->holdings()->opens > 0) return false;
    Forget(*client);
    return true;
  });
}

bool ClientTable::NotePromises(Client& client, bool has_promises) {
  absl::MutexLock lock(&mutex_);
  if (records_ == nullptr) return true;
  if (client.holdings() == &client.unrecorded_) return false;
  records_->NotePromises(client.holdings(), has_promises);
  return true;
}

void ClientTable::EndReturning() {
  if (records_ != nullptr) records_->EndReturning();
}

void ClientTable::Forget(Client& client) {
  if (client.promisee() != 0 && on_expired_ != nullptr) on_expired_(client, /*is_gone=*/true);
  client.set_promisee(0);
  if (client.holdings() != &client.unrecorded_) records_->Drop(client.holdings());
  client.holdings_ = &client.unrecorded_;
}

std::vector<wire::ClientId> ClientTable::Expire(absl::Time now) {
  std::vector<wire::ClientId> released;
  struct Courtesy {
    absl::Time renewed;
    uint64_t weight;
    wire::ClientId client_id;
  };
  std::vector<Courtesy> kept;
  uint64_t total = 0;
  absl::MutexLock lock(&mutex_);
  ForgetReplaced(&released);
  for (auto it = confirmed_.begin(); it != confirmed_.end();) {
    Client& client = *it->second;
    Holdings& held = *client.holdings();
    if (!HasExpired(client, now)) {
      held.expired = 0;
      client.expired_ = absl::InfiniteFuture();
      ++it;
      continue;
    }
    held.expired = 1;
    client.expired_ = std::min(client.expired_, now);
    if (client.promisee() != 0 && on_expired_ != nullptr) on_expired_(client, /*is_gone=*/false);
    const bool holds = held.opens > 0 || held.owes();
    // Locks are also held in the kernel, and nothing reports there that a local program wants them.
    if (held.opens > 0 && (held.locks > 0 || client.expired_ + options_.courtesy_time <= now)) {
      released.push_back(client.client_id());
    } else if (held.opens > 0) {
      kept.push_back({client.renewed(), Weight(client), client.client_id()});
      total += kept.back().weight;
    }
    if (client.sessions_ > 0 || holds) {
      ++it;
      continue;
    }
    // A session that has connected and not yet authenticated may still hold the client.
    Forget(client);
    client.confirmed_ = false;
    unconfirmed_[Key(client.client_id_string(), client.verifier())] = it->second;
    confirmed_.erase(it++);
  }
  if (total <= options_.max_courtesy) return released;
  std::sort(kept.begin(), kept.end(),
            [](const Courtesy& a, const Courtesy& b) { return a.renewed < b.renewed; });
  for (const Courtesy& oldest : kept) {
    released.push_back(oldest.client_id);
    total -= oldest.weight;
    if (total <= options_.max_courtesy) break;
  }
  return released;
}

std::vector<ClientTable::Entry> ClientTable::List(absl::Time now) const {
  std::vector<Entry> entries;
  absl::MutexLock lock(&mutex_);
  entries.reserve(confirmed_.size());
  for (const auto& [name, client] : confirmed_) {
    entries.push_back({.client = client,
                       .principal = client->principal_,
                       .since = client->since_,
                       .sessions = client->sessions_,
                       .has_lease = !HasExpired(*client, now)});
  }
  return entries;
}

size_t ClientTable::count() const {
  absl::MutexLock lock(&mutex_);
  return confirmed_.size();
}

}  // namespace dafs::server
