// The notifications that invalidate what the kernel caches, and the threads that send them.
#include "fuse/kernel/notifications/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "fuse/kernel/channel.h"
#include "fuse/kernel/notifications/notification_relay.h"
#include "runtime/files/unique_fd.h"
#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

TEST(KernelChannel, ForgetNameSendsTheNameWithItsEnd) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  channel.ForgetName(7, "file", KernelChannel::NameDrop::kRemove);
  FakeKernel::Answer sent = kernel.Receive();
  EXPECT_EQ(sent.unique, 0u);
  EXPECT_EQ(sent.error, FUSE_NOTIFY_INVAL_ENTRY);
  auto body = sent.As<fuse_notify_inval_entry_out>();
  EXPECT_EQ(body.parent, 7u);
  EXPECT_EQ(body.namelen, 4u);
  EXPECT_EQ(body.flags, 0u);
  EXPECT_EQ(sent.body.substr(sizeof(body)), Name("file"));
  channel.ForgetName(7, "file", KernelChannel::NameDrop::kExpire);
  EXPECT_EQ(kernel.Receive().As<fuse_notify_inval_entry_out>().flags,
            static_cast<uint32_t>(FUSE_EXPIRE_ONLY));
}

TEST(KernelChannel, ForgetAttributesReportsWhetherTheKernelTookIt) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  EXPECT_TRUE(channel.ForgetAttributes(7));
  auto body = kernel.Receive().As<fuse_notify_inval_inode_out>();
  EXPECT_EQ(body.ino, 7u);
  EXPECT_EQ(body.off, -1);
  kernel.HangUp();
  EXPECT_FALSE(channel.ForgetAttributes(7));
}

TEST(Notifier, ReportsWhenPagesAndNamesAreDropped) {
  FakeKernel kernel;
  Notifier notifier(kernel.TakeWorkerEnd());
  absl::BlockingCounter done(2);
  notifier.DropPages(7, [&] { done.DecrementCount(); });
  notifier.DropName(8, "name", KernelChannel::NameDrop::kRemove, [&] { done.DecrementCount(); });
  done.Wait();
  std::vector<int> kinds = {kernel.Receive().error, kernel.Receive().error};
  EXPECT_THAT(kinds,
              testing::UnorderedElementsAre(FUSE_NOTIFY_INVAL_INODE, FUSE_NOTIFY_INVAL_ENTRY));
}

TEST(Notifier, ReportsTheEndOfDropsOfOneNode) {
  FakeKernel kernel;
  Notifier notifier(kernel.TakeWorkerEnd());
  absl::Notification may_drop;
  absl::Notification dropped;
  notifier.DropPagesIf(7, [&] {
    may_drop.WaitForNotification();
    return true;
  });
  notifier.DropPagesIf(7, [] { return false; });
  bool other = false;
  notifier.AfterDrops(8, [&] { other = true; });
  EXPECT_TRUE(other);
  notifier.AfterDrops(7, [&] { dropped.Notify(); });
  EXPECT_FALSE(dropped.HasBeenNotified());
  may_drop.Notify();
  dropped.WaitForNotification();
  EXPECT_EQ(kernel.Receive().As<fuse_notify_inval_inode_out>().ino, 7u);
  bool after = false;
  notifier.AfterDrops(7, [&] { after = true; });
  EXPECT_TRUE(after);
  notifier.DropPages(9, [] {});
  EXPECT_EQ(kernel.Receive().As<fuse_notify_inval_inode_out>().ino, 9u) << "the unwanted drop";
}

// Runs the process of a relay as a thread.
class RelayThread {
 public:
  RelayThread() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    near_ = UniqueFd(ends[0]);
    thread_ = std::thread([far = ends[1]] { RunNotificationRelay(UniqueFd(far)); });
  }
  ~RelayThread() { thread_.join(); }
  std::unique_ptr<NotificationRelay> ForDevice(const UniqueFd& device) {
    return std::make_unique<NotificationRelay>(std::move(near_), device.get(), -1);
  }

 private:
  UniqueFd near_;
  std::thread thread_;
};

TEST(Notifier, NotifiesByItsRelayAndWaitsForIt) {
  FakeKernel direct, relayed;
  const UniqueFd device = relayed.TakeWorkerEnd();
  RelayThread process;
  Notifier notifier(direct.TakeWorkerEnd());
  notifier.SendBy(process.ForDevice(device));
  for (uint64_t nodeid = 7; nodeid < 9; ++nodeid) {
    absl::Notification done;
    notifier.DropPages(nodeid, [&] { done.Notify(); });
    done.WaitForNotification();
    EXPECT_EQ(relayed.Receive().As<fuse_notify_inval_inode_out>().ino, nodeid);
  }
}

TEST(Notifier, NotifiesItselfIfItsRelayHasEnded) {
  FakeKernel direct;
  Notifier notifier(direct.TakeWorkerEnd());
  {
    RelayThread process;
    notifier.SendBy(process.ForDevice(UniqueFd()));
  }
  notifier.DropPages(7, [] {});
  EXPECT_EQ(direct.Receive().As<fuse_notify_inval_inode_out>().ino, 7u);
}

// Here `done` stands for the notification itself, which waits for a lock of the kernel.
TEST(Notifier, ANameThatWaitsDelaysNeitherPagesNorOtherNames) {
  FakeKernel kernel;
  Notifier notifier(kernel.TakeWorkerEnd());
  absl::Notification locked, unlocked, pages, other;
  notifier.DropName(7, "locked", KernelChannel::NameDrop::kRemove, [&] {
    locked.Notify();
    unlocked.WaitForNotification();
  });
  locked.WaitForNotification();
  notifier.DropPages(8, [&] { pages.Notify(); });
  notifier.DropName(9, "other", KernelChannel::NameDrop::kRemove, [&] { other.Notify(); });
  EXPECT_TRUE(pages.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_TRUE(other.WaitForNotificationWithTimeout(absl::Seconds(20)));
  unlocked.Notify();
  notifier.Stop();
}

TEST(Notifier, TheNamesOfALockedDirectoryHoldOneThread) {
  FakeKernel kernel;
  Notifier notifier(kernel.TakeWorkerEnd());
  constexpr size_t kNames = 2 * Notifier::kNameThreads;
  absl::Notification unlocked, other;
  absl::BlockingCounter dropped(kNames);
  for (size_t i = 0; i < kNames; ++i) {
    notifier.DropName(7, std::to_string(i), KernelChannel::NameDrop::kRemove, [&] {
      unlocked.WaitForNotification();
      dropped.DecrementCount();
    });
  }
  notifier.DropName(9, "other", KernelChannel::NameDrop::kRemove, [&] { other.Notify(); });
  EXPECT_TRUE(other.WaitForNotificationWithTimeout(absl::Seconds(20)));
  unlocked.Notify();
  dropped.Wait();
}

TEST(Notifier, StopSkipsWhatIsQueuedButRunsItsEnd) {
  FakeKernel kernel;
  Notifier notifier(kernel.TakeWorkerEnd());
  absl::Notification locked, unlocked;
  notifier.DropPages(7, [&] {
    locked.Notify();
    unlocked.WaitForNotification();
  });
  locked.WaitForNotification();
  bool queued = false, late = false;
  notifier.DropPages(8, [&] { queued = true; });
  std::thread stopping([&] { notifier.Stop(); });
  unlocked.Notify();
  stopping.join();
  EXPECT_TRUE(queued);
  notifier.DropName(9, "late", KernelChannel::NameDrop::kRemove, [&] { late = true; });
  EXPECT_TRUE(late);
}

}  // namespace
}  // namespace dafs::fuse
