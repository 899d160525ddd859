#include "client/memory/buffer_slab.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dafs::client {

// Starts on a huge page, so that the system can use huge pages for it.
absl::StatusOr<std::shared_ptr<BufferSlab>> BufferSlab::Map(size_t bytes) {
  size_t mapped = bytes + kHugePage;
  void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("buffer pool of ", bytes, " bytes: errno ", errno));
  }
  auto* first = static_cast<std::byte*>(at);
  auto address = reinterpret_cast<uintptr_t>(first);
  size_t before = (kHugePage - address % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  std::byte* slab = first + before;
  munmap(slab + bytes, mapped - before - bytes);
  madvise(slab, bytes, MADV_HUGEPAGE);  // a hint; the system may have none
  return absl::WrapUnique(new BufferSlab(std::span<std::byte>(slab, bytes)));
}

BufferSlab::~BufferSlab() { munmap(memory_.data(), memory_.size()); }

void BufferSlab::Return(internal::Buffer* buffer) {
  absl::MutexLock lock(&mutex_);
  returned_.push_back(buffer);
  has_returned_.store(true, std::memory_order_release);
  if (wake_ != nullptr) std::exchange(wake_, nullptr)();
}

std::vector<internal::Buffer*> BufferSlab::TakeReturned() {
  absl::MutexLock lock(&mutex_);
  has_returned_.store(false, std::memory_order_relaxed);
  return std::exchange(returned_, {});
}

void BufferSlab::WakeOnReturn(std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  if (wake != nullptr && !returned_.empty()) {
    wake();
  } else {
    wake_ = std::move(wake);
  }
}

}  // namespace dafs::client
