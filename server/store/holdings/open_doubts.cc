#include "server/store/holdings/open_doubts.h"

#include "absl/synchronization/mutex.h"

namespace dafs::server {

bool OpenDoubts::IsDoubtful(uint64_t serial) const {
  return serial <= records_.FindClient(records_.Find(serial)->client_id)->last_before_loss;
}

OpenDoubts::Doubt OpenDoubts::DoubtOf(uint64_t serial) const {
  const OpenRecords::Record& record = *records_.Find(serial);
  return {record.client_id, records_.StateIdOf(serial), record.key, record.is_delegation};
}

void OpenDoubts::Unnamed(const ObjectKey& key) {
  std::vector<Doubt> doubts;
  {
    absl::MutexLock lock(&records_.mutex());
    OpenRecords::File* const file = records_.FindMutableFile(key);
    if (file == nullptr) return;
    file->has_name = false;
    for (const uint64_t serial : file->serials) {
      if (IsDoubtful(serial)) doubts.push_back(DoubtOf(serial));
    }
  }
  for (const Doubt& doubt : doubts) ask_(doubt);
}

std::vector<OpenDoubts::Doubt> OpenDoubts::DoubtsOfLocked(const wire::ClientId& client_id) const {
  std::vector<Doubt> doubts;
  const OpenRecords::Client* const client = records_.FindClient(client_id);
  if (client == nullptr || client->last_before_loss == 0) return doubts;
  for (const uint64_t serial : client->serials) {
    const OpenRecords::File& file = *records_.FindFile(records_.Find(serial)->key);
    if (!file.has_name && IsDoubtful(serial)) doubts.push_back(DoubtOf(serial));
  }
  return doubts;
}

void OpenDoubts::SessionLost(const wire::ClientId& client_id) {
  std::vector<Doubt> doubts;
  {
    absl::MutexLock lock(&records_.mutex());
    OpenRecords::Client* const client = records_.FindMutableClient(client_id);
    if (client == nullptr) return;
    client->last_before_loss = records_.last_serial();
    doubts = DoubtsOfLocked(client_id);
  }
  for (const Doubt& doubt : doubts) ask_(doubt);
}

std::vector<OpenDoubts::Doubt> OpenDoubts::DoubtsOf(const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  return DoubtsOfLocked(client_id);
}

bool OpenDoubts::Holds(const Doubt& doubt) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  return records_.Find(OpenRecords::SerialOf(doubt.state_id)) != nullptr;
}

}  // namespace dafs::server
