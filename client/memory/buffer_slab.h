// The memory of a pool's buffers, and the return path of buffers that are kept after their lease. A
// keeper may release a buffer on another thread, and after the pool is gone. The pool and the
// keepers own the slab; the last of them unmaps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace dafs::client {

namespace internal {
struct Buffer;
}  // namespace internal

class BufferSlab {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  // Maps `bytes` of memory (MAP_NORESERVE, huge pages if the system provides them). It starts on a
  // huge page and uses no memory until it is touched. kResourceExhausted: no memory.
  static absl::StatusOr<std::shared_ptr<BufferSlab>> Map(size_t bytes);
  ~BufferSlab();
  BufferSlab(const BufferSlab&) = delete;
  BufferSlab& operator=(const BufferSlab&) = delete;

  std::span<std::byte> memory() const { return memory_; }

  // Any thread, even one that holds a mutex.
  void Return(internal::Buffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);

  // On the pool's thread. Whether TakeReturned has buffers to return.
  bool has_returned() const { return has_returned_.load(std::memory_order_acquire); }
  std::vector<internal::Buffer*> TakeReturned() ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `wake` once: at once if a buffer has returned, otherwise on the thread that returns the
  // next one. It must not block or call the slab. Null: no more calls.
  void WakeOnReturn(std::function<void()> wake) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit BufferSlab(std::span<std::byte> memory) : memory_(memory) {}

  const std::span<std::byte> memory_;
  std::atomic<bool> has_returned_ = false;
  absl::Mutex mutex_;
  std::vector<internal::Buffer*> returned_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
