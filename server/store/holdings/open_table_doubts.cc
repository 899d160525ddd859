// Opens that a client may not know.
#include <vector>

#include "server/store/holdings/open_table.h"

namespace dafs::server {

bool OpenTable::IsDoubtful(uint64_t serial) const {
  const auto lost = doubtful_.find(records_.find(serial)->second.client_id);
  return lost != doubtful_.end() && serial <= lost->second;
}

OpenTable::Doubt OpenTable::DoubtOf(uint64_t serial) const {
  const Record& record = records_.find(serial)->second;
  return {record.client_id, StateIdOf(serial), record.key, record.is_delegation};
}

void OpenTable::Unnamed(const ObjectKey& key) {
  std::vector<Doubt> doubts;
  {
    absl::MutexLock lock(&mutex_);
    const auto file = files_.find(key);
    if (file == files_.end()) return;
    file->second.has_name = false;
    if (doubtful_.empty()) return;
    for (const uint64_t serial : file->second.serials) {
      if (IsDoubtful(serial)) doubts.push_back(DoubtOf(serial));
    }
  }
  for (const Doubt& doubt : doubts) ask_(doubt);
}

std::vector<OpenTable::Doubt> OpenTable::DoubtsOfLocked(const wire::ClientId& client_id) const {
  std::vector<Doubt> doubts;
  const auto client = by_client_.find(client_id);
  if (client == by_client_.end() || !doubtful_.contains(client_id)) return doubts;
  for (const uint64_t serial : client->second) {
    const File& file = files_.find(records_.find(serial)->second.key)->second;
    if (!file.has_name && IsDoubtful(serial)) doubts.push_back(DoubtOf(serial));
  }
  return doubts;
}

void OpenTable::SessionLost(const wire::ClientId& client_id) {
  std::vector<Doubt> doubts;
  {
    absl::MutexLock lock(&mutex_);
    if (!by_client_.contains(client_id)) return;
    doubtful_[client_id] = last_serial_;
    doubts = DoubtsOfLocked(client_id);
  }
  for (const Doubt& doubt : doubts) ask_(doubt);
}

std::vector<OpenTable::Doubt> OpenTable::DoubtsOf(const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&mutex_);
  return DoubtsOfLocked(client_id);
}

bool OpenTable::Holds(const Doubt& doubt) const {
  absl::ReaderMutexLock lock(&mutex_);
  return records_.contains(SerialOf(doubt.state_id));
}

}  // namespace dafs::server
