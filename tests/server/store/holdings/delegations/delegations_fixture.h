// The tables of delegations, for their tests: three admitted clients, and what is recalled.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/loop/loop.h"
#include "server/store/holdings/delegations/admitted_clients.h"
#include "server/store/holdings/delegations/delegation.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "server/store/holdings/delegations/delegations.h"

namespace dafs::server {

class DelegationsFixture : public testing::Test {
 protected:
  using Type = Delegations::Type;
  using Use = Delegations::Use;

  static ObjectKey Key(uint64_t number) {
    ObjectKey key;
    std::memcpy(key.bytes.data() + 18, &number, sizeof(number));
    return key;
  }
  static wire::ClientId Id(uint64_t number) {
    return wire::OpaqueFromUint64<wire::ClientId>(number);
  }

  DelegationsFixture() {
    table_.SetRecaller([this](const auto& recall) { recalls_.push_back(recall); });
    for (uint64_t client = 1; client <= 3; ++client) admitted_.Admit(Id(client), "client");
  }
  // Whether the client may get a delegation of this type. It is removed again.
  bool MayGet(uint64_t key, uint64_t client, Type type = Type::kWrite) {
    const auto state_id = wire::OpaqueFromUint64<wire::StateId>(++serial_);
    const bool may = table_.MayAdd(Key(key), Id(client), type, now_) &&
                     table_.TryAdd({Id(client), state_id, Key(key), type});
    if (may) table_.Remove(state_id);
    return may;
  }
  wire::StateId Add(uint64_t key, uint64_t client, Type type = Type::kRead) {
    const auto state_id = wire::OpaqueFromUint64<wire::StateId>(++serial_);
    table_.Add({Id(client), state_id, Key(key), type});
    return state_id;
  }
  bool IsFree(uint64_t key, uint64_t client, Use use) {
    awaited_.clear();
    return table_.IsFree(Key(key), Id(client), use, &awaited_);
  }

  DelegationRecords records_;
  Delegations table_{{.most = Type::kWrite, .of_client = 3}, records_};
  AdmittedClients admitted_{records_};
  absl::Time now_ = Loop::Now();
  uint64_t serial_ = 0;
  std::vector<DelegationRecall> recalls_;
  AwaitedDelegations awaited_;
};

}  // namespace dafs::server
