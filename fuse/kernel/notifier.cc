#include "fuse/kernel/notifier.h"

#include <system_error>
#include <utility>

#include "fuse/kernel/memory_pressure.h"

namespace dafs::fuse {

void Notifier::DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  Begin(nodeid);
  pages_.Add({[this, nodeid] { channel_.ForgetPages(nodeid); },
              [this, nodeid, done = std::move(done)]() mutable {
                End(nodeid);
                done();
              }});
}

void Notifier::DropPagesIf(uint64_t nodeid, absl::AnyInvocable<bool()> wanted) {
  Begin(nodeid);
  pages_.Add({[this, nodeid, wanted = std::move(wanted)]() mutable {
                if (wanted()) channel_.ForgetPages(nodeid);
              },
              [this, nodeid] { End(nodeid); }});
}

void Notifier::Begin(uint64_t nodeid) {
  absl::MutexLock lock(&mutex_);
  ++drops_[nodeid].pending;
}

void Notifier::End(uint64_t nodeid) {
  std::vector<absl::AnyInvocable<void()>> waiters;
  {
    absl::MutexLock lock(&mutex_);
    const auto drops = drops_.find(nodeid);
    if (--drops->second.pending > 0) return;
    waiters = std::move(drops->second.waiters);
    drops_.erase(drops);
  }
  for (absl::AnyInvocable<void()>& done : waiters) done();
}

void Notifier::AfterDrops(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto drops = drops_.find(nodeid); drops != drops_.end()) {
      drops->second.waiters.push_back(std::move(done));
      return;
    }
  }
  done();
}

void Notifier::DropName(uint64_t parent, std::string name, KernelChannel::NameDrop how,
                        absl::AnyInvocable<void()> done) {
  names_.Add(
      {[this, parent, name = std::move(name), how] { channel_.ForgetName(parent, name, how); },
       std::move(done)});
}

// The listing is in pages of the directory, but it must not wait for the pages of a file.
void Notifier::DropListing(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  Begin(nodeid);
  names_.Add({[this, nodeid] { channel_.ForgetPages(nodeid); },
              [this, nodeid, done = std::move(done)]() mutable {
                End(nodeid);
                done();
              }});
}

void Notifier::Stop() {
  pages_.Stop();
  names_.Stop();
}

void Notifier::Lane::Add(Work work) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      queue_.push_back(std::move(work));
      if (queue_.size() <= idle_ || threads_.size() == most_threads_) return;
      try {
        threads_.emplace_back([this] {
          BecomeIoFlusher();
          Run();
        });
        return;
      } catch (const std::system_error&) {  // no more threads: those that run do the work
        if (!threads_.empty()) return;
      }
      work = std::move(queue_.back());
      queue_.pop_back();
    }
  }
  work.done();
}

void Notifier::Lane::Stop() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    threads = std::exchange(threads_, {});
  }
  for (std::thread& thread : threads) thread.join();
}

void Notifier::Lane::Run() {
  for (;;) {
    Work work;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &Lane::HasWork));
      --idle_;
      if (queue_.empty()) return;
      stopping = stop_;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    if (!stopping) work.notify();
    work.done();
  }
}

}  // namespace dafs::fuse
