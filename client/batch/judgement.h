// Decides by the state of the client what happens to an item of a batch: before it is sent, and
// after the server has reported it. For client/batch only. Spec: 4.2.3, 5.2.3.
// Belongs to the thread of the Batches. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/batch/batch_entry.h"
#include "client/state/client.h"
#include "wire/messages/batch.h"

namespace dafs::client {

// The error of an item whose open is closed or could not be reclaimed. Affects that item only.
absl::Status LossOf(Client& client, const BatchEntry& entry);

// Whether the client keeps unstable writes of the same bytes. If the server lost them, a rewrite
// would overwrite the data of the batch.
bool OverlapsKept(Client& client, const BatchEntry& entry);

enum class BatchVerdict : uint8_t { kEnd, kAgain, kLater };

// Evaluates one report. *why: the result of the item.
BatchVerdict Judge(Client& client, BatchEntry& entry, const wire::CompletionNotification& done,
                   absl::Status* why);

// The item has written `bytes`, which are stable. They replace kept unstable writes to the same
// range.
void ForgetWritten(Client& client, const BatchEntry& entry, uint32_t bytes);

}  // namespace dafs::client
