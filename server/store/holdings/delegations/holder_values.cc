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
    if (records_.CountOf(key) == 0) return true;
    DelegationRecords::Record* const record =
        records_.FindOf(key, [&by](const DelegationRecords::Record& each) {
          return each.delegation.client_id != by &&
                 each.delegation.type == Delegation::Type::kWrite && !each.awaits_claim;
        });
    if (record != nullptr) {
      if (!record->is_asked && now - record->reported_at < kAskedFor) {
        *values = record->reported;
        return true;
      }
      if (!std::exchange(record->is_asked, true)) ask = record->delegation;
      if (awaited != nullptr) awaited->push_back({record->delegation.state_id, /*answer=*/true});
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
