#include "fuse/kernel/notifier.h"

#include <utility>

#include "fuse/kernel/memory_pressure.h"

namespace dafs::fuse {

Notifier::Notifier(UniqueFd device) : channel_(std::move(device)) {
  thread_ = std::thread([this] {
    BecomeIoFlusher();
    Run();
  });
}

void Notifier::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Notifier::DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      queue_.push_back({nodeid, std::move(done)});
      return;
    }
  }
  done();
}

void Notifier::Run() {
  for (;;) {
    Drop drop;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Notifier::HasWork));
      if (queue_.empty()) return;
      stopping = stop_;
      drop = std::move(queue_.front());
      queue_.pop_front();
    }
    if (!stopping) channel_.ForgetPages(drop.nodeid);
    drop.done();
  }
}

}  // namespace dafs::fuse
