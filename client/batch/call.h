// BATCH_SUBMIT. For client/batch/*.cc only. Spec: 6.5.5, 5.2.3; WIRE 9.4.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/batch/batch_entry.h"
#include "client/exchange/call.h"
#include "client/memory/remote_access.h"

namespace dafs::client {

class BatchEntries;

class BatchCall final : public Call<wire::BatchSubmitArgs> {
 public:
  // `all` and `remote_access` outlive it.
  BatchCall(BatchEntries& all, RemoteAccess& remote_access, std::vector<BatchEntryRef> entries)
      : all_(all), remote_access_(remote_access), entries_(std::move(entries)) {}

  // 5.2.3: if its completions were lost, it is sent again.
  bool idempotent() const override { return true; }
  bool outlives_answer() const override { return !args.synchronous && !entries_.empty(); }
  std::optional<wire::StateId> NameItems(const Opens& opens,
                                         const wire::ClientId& client_id) override;
  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override;

  const std::vector<BatchEntryRef>& entries() const { return entries_; }

 private:
  absl::Status Expose(BatchEntry& entry);

  BatchEntries& all_;
  RemoteAccess& remote_access_;
  std::vector<BatchEntryRef> entries_;
};

}  // namespace dafs::client
