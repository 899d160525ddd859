// The keys that a request changes, and the calls that announce it (Promises::Changing).
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/holdings/promises/promises.h"
#include "server/store/holdings/promises/promises_parts.h"

namespace dafs::server {

bool Promises::Changing::WasAnnounced(const ObjectKey& key, uint8_t what,
                                      std::string_view name) const {
  return std::any_of(announced_.begin(), announced_.end(), [&](const Announced& earlier) {
    if ((what & ~earlier.what) != 0 || !(earlier.key == key)) return false;
    return (what & kPromisedNames) == 0 || earlier.name.empty() || earlier.name == name;
  });
}

bool Promises::Changing::Begin(const ObjectKey& key, uint8_t what, std::string_view name) {
  if (promises_.limits_.of_client != 0) MarkAndCall(key, what, name);
  awaits_return_ = !skips_return_ && promises_.is_returning_.load(std::memory_order_acquire) &&
                   promises_.AwaitsOther(by_name_);
  return calls_.empty() && !awaits_return_;
}

void Promises::Changing::MarkAndCall(const ObjectKey& key, uint8_t what, std::string_view name) {
  const size_t hash = PromiseTable::Hash(key);
  Shard& shard = promises_.ShardOf(hash);
  const bool was_announced = WasAnnounced(key, what, name);
  absl::MutexLock lock(&shard.mutex);
  PromiseTable& table = shard.table;
  const uint32_t number = table.FindOrAdd(hash, key);
  PromisedObject& object = table.object(number);
  const auto mark = std::find_if(marks_.begin(), marks_.end(), [&](const Mark& earlier) {
    return earlier.shard == &shard && earlier.object == number;
  });
  if (mark == marks_.end()) {
    if (object.marks++ > 0) object.is_contested = true;
    marks_.push_back({&shard, number, what});
  } else {
    mark->what |= what;
  }
  if (was_announced) return;
  const size_t calls = calls_.size();
  for (uint32_t h = object.holders; h != 0; h = table.holder(h).next) {
    PromiseHolder& holder = table.holder(h);
    const Client& client = promises_.clients_[holder.client];
    const Promisee promisee = client.promisee;
    const uint32_t admission = client.admission;
    const uint8_t changes = holder.what & what;
    if (changes == 0 || promisee == 0 || promisee == by_ || admission == 0) continue;
    const bool is_named =
        (changes & kPromisedNames) != 0 && !name.empty() && holder.named_calls < kNamedCallsMax;
    if (is_named) ++holder.named_calls;
    ++holder.calls;
    calls_.push_back({promisee, changes, key, std::string(is_named ? name : ""), admission});
  }
  if (calls_.size() > calls) announced_.push_back({key, what, std::string(name)});
}

std::vector<Promises::Call> Promises::Changing::TakeCalls() {
  promises_.called_.fetch_add(calls_.size(), std::memory_order_relaxed);
  return std::exchange(calls_, {});
}

bool Promises::Changing::End(bool keeps) {
  bool has_names = false, has_all = true;
  for (const Mark& mark : marks_) {
    absl::MutexLock lock(&mark.shard->mutex);
    PromisedObject& object = mark.shard->table.object(mark.object);
    if (keeps && (mark.what & kPromisedNames) != 0) {
      has_names = true;
      if (object.is_contested ||
          promises_.GiveLocked(*mark.shard, mark.object, 0, object.key, by_, kPromisedNames) == 0) {
        has_all = false;
      }
    }
    if (--object.marks == 0) object.is_contested = false;
    mark.shard->table.EraseIfUnused(mark.object);
  }
  marks_.clear();
  return has_names && has_all;
}

bool Promises::Changing::Keep() {
  const bool has_names = End(by_ != 0);
  if (by_ != 0) promises_.CheckRoom(by_);
  return has_names;
}

Promises::Changing::~Changing() {
  for (const Call& call : calls_) promises_.EndCall(call, 0);
  End(false);
}

bool Promises::IsBeingChanged(const ObjectKey& key, const Changing* own) {
  const size_t hash = PromiseTable::Hash(key);
  Shard& shard = ShardOf(hash);
  absl::MutexLock lock(&shard.mutex);
  const uint32_t number = shard.table.Find(hash, key);
  if (number == 0) return false;
  const bool is_own =
      own != nullptr && std::any_of(own->marks_.begin(), own->marks_.end(), [&](const auto& mark) {
        return mark.shard == &shard && mark.object == number;
      });
  return shard.table.object(number).marks > (is_own ? 1 : 0);
}

}  // namespace dafs::server
