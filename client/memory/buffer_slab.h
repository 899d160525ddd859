// The memory of a pool of buffers, and the way back to it for buffers that are kept beyond their
// lease: whoever keeps one may let go of it on another thread, and when the pool is gone. The
// owners are the pool and those who keep a buffer; the last of them unmaps it.
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

  // Maps `bytes` of memory (MAP_NORESERVE, huge pages where the system gives them), which starts on
  // a huge page and takes no memory before it is touched. kResourceExhausted: no memory.
  static absl::StatusOr<std::shared_ptr<BufferSlab>> Map(size_t bytes);
  ~BufferSlab();
  BufferSlab(const BufferSlab&) = delete;
  BufferSlab& operator=(const BufferSlab&) = delete;

  std::span<std::byte> memory() const { return memory_; }

  // Any thread, also one that holds a mutex.
  void Return(internal::Buffer* buffer) ABSL_LOCKS_EXCLUDED(mutex_);

  // The pool's thread. Whether TakeReturned has something.
  bool has_returned() const { return has_returned_.load(std::memory_order_acquire); }
  std::vector<internal::Buffer*> TakeReturned() ABSL_LOCKS_EXCLUDED(mutex_);
  // `wake` is called once: at once if a buffer has returned, or on the thread that returns the
  // next. It must not block, nor call the slab. Null: it is not called any more.
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
