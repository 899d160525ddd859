#include "server/store/holdings/delegations/holder_values.h"

#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace dafs::server {

bool HolderValues::GetReported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                               AwaitedDelegations* awaited, ReportedValues* values) {
  std::optional<Delegation> ask;
  {
    absl::MutexLock lock(&records_.mutex());
    const auto records = records_.OfFile(key);
    if (records.empty()) return true;
    for (DelegationRecords::Record* const record : records) {
      const Delegation& held = record->delegation;
      if (held.client_id == by || held.type != Delegation::Type::kWrite || record->awaits_claim) {
        continue;
      }
      if (!record->is_asked && now - record->reported_at < kAskedFor) {
        *values = record->reported;
        return true;
      }
      if (!std::exchange(record->is_asked, true)) ask = held;
      if (awaited != nullptr) awaited->push_back({held.state_id, /*answer=*/true});
      break;
    }
  }
  if (ask.has_value()) ask_(*ask);
  return awaited == nullptr || awaited->empty();
}

void HolderValues::SetReported(const wire::StateId& state_id, const ReportedValues& values,
                               absl::Time now) {
  DelegationRecords::Dones answered;
  {
    absl::MutexLock lock(&records_.mutex());
    DelegationRecords::Record* const record = records_.Find(state_id);
    if (record == nullptr || !std::exchange(record->is_asked, false)) return;
    record->reported = values;
    record->reported_at = now;
    answered = std::exchange(record->answered, {});
  }
  for (auto& done : answered) done();
}

}  // namespace dafs::server
