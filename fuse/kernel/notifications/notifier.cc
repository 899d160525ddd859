#include "fuse/kernel/notifications/notifier.h"

#include <system_error>
#include <utility>

#include "fuse/kernel/notifications/memory_pressure.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kAllFiles = 0;  // the queue of pages

}  // namespace

Notifier::Sender::Sender(Notifier& notifier) : direct_(notifier.channel_) {
  UniqueFd socket = notifier.relay_ == nullptr ? UniqueFd() : notifier.relay_->Connect();
  if (socket.valid()) relayed_.emplace(std::move(socket), KernelChannel::Relayed());
}

void Notifier::Sender::Send(absl::AnyInvocable<void(KernelChannel&)>& notify) {
  if (relayed_.has_value()) {
    notify(*relayed_);
    if (!relayed_->has_lost_relay()) return;
    relayed_.reset();
  }
  notify(direct_);
}

void Notifier::DropPages(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  Begin(nodeid);
  pages_.Add(kAllFiles, {[nodeid](KernelChannel& channel) { channel.ForgetPages(nodeid); },
                         [this, nodeid, done = std::move(done)]() mutable {
                           End(nodeid);
                           done();
                         }});
}

void Notifier::DropPagesIf(uint64_t nodeid, absl::AnyInvocable<bool()> wanted) {
  Begin(nodeid);
  pages_.Add(kAllFiles, {[nodeid, wanted = std::move(wanted)](KernelChannel& channel) mutable {
                           if (wanted()) channel.ForgetPages(nodeid);
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

bool Notifier::AfterDrops(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto drops = drops_.find(nodeid); drops != drops_.end()) {
      drops->second.waiters.push_back(std::move(done));
      return false;
    }
  }
  done();
  return true;
}

void Notifier::DropName(uint64_t parent, std::string name, KernelChannel::NameDrop how,
                        absl::AnyInvocable<void()> done) {
  names_.Add(parent, {[parent, name = std::move(name), how](KernelChannel& channel) {
                        channel.ForgetName(parent, name, how);
                      },
                      std::move(done)});
}

// The listing is in pages of the directory, but it must not wait for the pages of a file.
void Notifier::DropListing(uint64_t nodeid, absl::AnyInvocable<void()> done) {
  Begin(nodeid);
  names_.Add(nodeid, {[nodeid](KernelChannel& channel) { channel.ForgetPages(nodeid); },
                      [this, nodeid, done = std::move(done)]() mutable {
                        End(nodeid);
                        done();
                      }});
}

void Notifier::Stop() {
  pages_.Stop();
  names_.Stop();
}

void Notifier::Resume() {
  pages_.Resume();
  names_.Resume();
}

void Notifier::Lane::Add(uint64_t queue, Work work) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      const auto [it, is_new] = queues_.try_emplace(queue);
      it->second.push_back(std::move(work));
      if (!is_new) return;  // it is ready, or its thread goes on with it
      ready_.push_back(queue);
      if (HasThreads()) return;
      work = TakeLast(queue);
    }
  }
  work.done();
}

bool Notifier::Lane::HasThreads() {
  if (ready_.size() <= idle_ || threads_.size() == most_threads_) return true;
  try {
    threads_.emplace_back([this] {
      BecomeIoFlusher();
      Run();
    });
  } catch (const std::system_error&) {  // no more threads: those that run do the work
    return !threads_.empty();
  }
  return true;
}

// The queue was just added.
Notifier::Lane::Work Notifier::Lane::TakeLast(uint64_t queue) {
  Work work = std::move(queues_.find(queue)->second.front());
  queues_.erase(queue);
  ready_.pop_back();
  return work;
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
  Sender sender(notifier_);
  for (;;) {
    Work work;
    uint64_t queue = 0;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &Lane::HasWork));
      --idle_;
      if (ready_.empty()) return;
      stopping = stop_;
      queue = ready_.front();
      ready_.pop_front();
      std::deque<Work>& all = queues_.find(queue)->second;
      work = std::move(all.front());
      all.pop_front();
    }
    if (!stopping) sender.Send(work.notify);
    work.done();
    absl::MutexLock lock(&mutex_);
    const auto it = queues_.find(queue);
    if (it->second.empty()) {
      queues_.erase(it);
    } else {
      ready_.push_back(queue);
    }
  }
}

}  // namespace dafs::fuse
