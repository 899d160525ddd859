#include "server/store/access/locks/reads_under_way.h"

#include <atomic>
#include <deque>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"

namespace dafs::server {

// The read of one thread. In a cache line of its own.
struct alignas(64) ReadUnderWay::Slot {
  std::atomic<uint64_t> file{0};    // the hash of the key; valid while `number` is odd
  std::atomic<uint32_t> number{0};  // grows by one when a read begins and when it ends
};

namespace {

uint64_t MarkOf(const ObjectKey& file) { return absl::Hash<ObjectKey>{}(file); }

}  // namespace

// The slot of a thread, from its first read to its end. Slots are never freed, so Await needs no
// lock while it waits; the next thread takes those that are free.
class ReadUnderWay::OfThread {
 public:
  OfThread() {
    absl::MutexLock lock(&mutex);
    if (Free().empty()) {
      slot_ = &All().emplace_back();
    } else {
      slot_ = Free().back();
      Free().pop_back();
    }
  }
  ~OfThread() {
    absl::MutexLock lock(&mutex);
    Free().push_back(slot_);
  }
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;

  Slot& slot() const { return *slot_; }
  static std::vector<Slot*> Slots() {
    absl::MutexLock lock(&mutex);
    std::vector<Slot*> slots;
    for (Slot& slot : All()) slots.push_back(&slot);
    return slots;
  }

 private:
  // Never destroyed: threads may outlive main.
  static std::deque<Slot>& All() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    static auto* const all = new std::deque<Slot>;
    return *all;
  }
  static std::vector<Slot*>& Free() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    static auto* const free = new std::vector<Slot*>;
    return *free;
  }

  static absl::Mutex mutex;

  Slot* slot_;
};

absl::Mutex ReadUnderWay::OfThread::mutex(absl::kConstInit);

ReadUnderWay::Slot& ReadUnderWay::Mine() {
  static thread_local const OfThread of_thread;
  return of_thread.slot();
}

ReadUnderWay::ReadUnderWay(const ObjectKey& file) : slot_(Mine()) {
  // After the end of the last read, for Await, which looks at `number` first.
  slot_.file.store(MarkOf(file), std::memory_order_release);
  slot_.number.store(slot_.number.load(std::memory_order_relaxed) + 1);
}

ReadUnderWay::~ReadUnderWay() {
  slot_.number.store(slot_.number.load(std::memory_order_relaxed) + 1);
  slot_.number.notify_all();
}

void ReadUnderWay::Await(const ObjectKey& file) {
  const uint64_t mark = MarkOf(file);
  for (const Slot* slot : OfThread::Slots()) {
    const uint32_t number = slot->number.load();
    const bool reads = number % 2 == 1;
    // If the file is already that of a later read, the wait ends at once.
    if (reads && slot->file.load(std::memory_order_acquire) == mark) slot->number.wait(number);
  }
}

}  // namespace dafs::server
