#include "runtime/loop/task.h"

#include <new>
#include <utility>

namespace dafs {
namespace {

// Frame sizes are rounded up to multiples of 128 bytes. Frames above 4 KiB come from the allocator.
constexpr size_t kStep = 128;
constexpr size_t kClasses = 32;
constexpr size_t kKeptPerClass = 256;  // an idle thread keeps at most 16 MiB

struct FreeFrameNode {
  FreeFrameNode* next;
};

// Without a destructor: coroutines also run after those of the thread's variables, in functions
// that a program has given to atexit(3).
struct FreeLists {
  FreeFrameNode* head[kClasses];
  size_t count[kClasses];
  bool has_ended;  // frames are kept no longer
};
thread_local FreeLists the_lists = {};

struct AtEndOfThread {
  ~AtEndOfThread() {
    the_lists.has_ended = true;
    for (FreeFrameNode*& node : the_lists.head) {
      while (node != nullptr) ::operator delete(std::exchange(node, node->next));
    }
  }
  void Watch() {}
};

FreeLists& ThisThread() {
  thread_local AtEndOfThread end;
  end.Watch();
  return the_lists;
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
  if (index >= kClasses || lists.has_ended || lists.count[index] >= kKeptPerClass) {
    ::operator delete(frame);
    return;
  }
  auto* node = static_cast<FreeFrameNode*>(frame);
  node->next = lists.head[index];
  lists.head[index] = node;
  ++lists.count[index];
}

}  // namespace dafs
