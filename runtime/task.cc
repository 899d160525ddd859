#include "runtime/task.h"

#include <new>

namespace dafs {
namespace {

// Frame sizes are rounded up to multiples of 128 bytes. Frames above 4 KiB come from the allocator.
constexpr size_t kStep = 128;
constexpr size_t kClasses = 32;
constexpr size_t kKeptPerClass = 256;  // an idle thread keeps at most 16 MiB

struct FreeFrameNode {
  FreeFrameNode* next;
};

struct FreeLists {
  FreeFrameNode* head[kClasses] = {};
  size_t count[kClasses] = {};
  ~FreeLists() {
    for (FreeFrameNode* node : head) {
      while (node != nullptr) ::operator delete(std::exchange(node, node->next));
    }
  }
};

FreeLists& ThisThread() {
  thread_local FreeLists lists;
  return lists;
}

size_t ClassOf(size_t size_bytes) { return (size_bytes + kStep - 1) / kStep - 1; }

}  // namespace

void* AllocateFrame(size_t size_bytes) {
  size_t index = ClassOf(size_bytes);
  if (index >= kClasses) return ::operator new(size_bytes);
  FreeLists& lists = ThisThread();
  if (FreeFrameNode* node = lists.head[index]) {
    lists.head[index] = node->next;
    --lists.count[index];
    return node;
  }
  return ::operator new((index + 1) * kStep);
}

void FreeFrame(void* frame, size_t size_bytes) noexcept {
  size_t index = ClassOf(size_bytes);
  FreeLists& lists = ThisThread();
  if (index >= kClasses || lists.count[index] >= kKeptPerClass) {
    ::operator delete(frame);
    return;
  }
  auto* node = static_cast<FreeFrameNode*>(frame);
  node->next = lists.head[index];
  lists.head[index] = node;
  ++lists.count[index];
}

}  // namespace dafs
