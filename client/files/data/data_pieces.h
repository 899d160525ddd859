// A transfer larger than the server accepts at once: it is sent in parallel pieces.
// Spec: 6.5.28, 6.5.39 (MAX_READ, MAX_WRITE). Belongs to the thread of its loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "runtime/loop/task.h"

namespace dafs::client {

// Lives in the frame of the coroutine that awaits `done`.
template <class Result>
class Pieces {
 public:
  using Results = absl::InlinedVector<absl::StatusOr<Result>, 4>;

  // Starts `transfer(before, bytes)`, a Task<absl::StatusOr<Result>>, for each piece of at
  // most `most` bytes. `before`: the number of bytes of `size` before the piece.
  template <class Transfer>
  Pieces(uint32_t size, uint32_t most, Transfer transfer)
      : results_((size + most - 1) / most, absl::StatusOr<Result>(Result())),
        left_(results_.size()) {
    const size_t count = left_;
    for (size_t i = 0; i < count; ++i) {
      const auto before = static_cast<uint32_t>(i * most);
      Start(Run(transfer(before, std::min(most, size - before)), i));
    }
  }

  Pending<bool> done;
  // In the order of the pieces; valid once `done` is set.
  Results& results() { return results_; }

 private:
  Task<void> Run(Task<absl::StatusOr<Result>> transfer, size_t index) {
    results_[index] = co_await transfer;
    if (--left_ == 0) done.Set(true);  // this may be gone now
  }

  Results results_;
  size_t left_;
};

}  // namespace dafs::client
