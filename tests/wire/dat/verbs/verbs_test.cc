// The verbs provider on a real kernel RDMA stack. Behaviour common to all providers is in the
// conformance suite; this file tests what this provider adds.
#include <arpa/inet.h>
#include <linux/capability.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <ostream>

#include "gmock/gmock.h"
#include "tests/wire/dat/verbs/verbs_pair.h"
#include "wire/dat/verbs/domain.h"

namespace dafs::dat::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(VerbsWithoutDevice, ErrorNamesWhatIsMissing) {
  auto provider = NewVerbsProvider();
  if (std::getenv("DAFS_TEST_RDMA_ADDRESS") != nullptr) GTEST_SKIP() << "there is a device";
  auto addresses = ResolveHost("127.0.0.1", 0);
  ASSERT_TRUE(addresses.ok());
  for (const absl::Status& status :
       {provider->Listen(addresses->front()).status(),
        provider->Resolve(addresses->front(), "", absl::Seconds(1)).status()}) {
    if (status.ok()) GTEST_SKIP() << "there is a device with the address 127.0.0.1";
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rdma"));
  }
}

// A server that serves only TCP also has a provider for RDMA.
TEST(VerbsWithoutDevice, UnusedProviderStartsNoThread) {
  auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  auto provider = NewVerbsProvider();
  EXPECT_EQ(threads(), before);
}

// The request's private data arrives, 16 bytes first.
TEST_F(VerbsTest, PrivateDataArrivesOnBothSides) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  ASSERT_TRUE(client_.endpoint->Connect(AsBytes("SFAD123456780001")).ok());
  auto pending = AwaitRequest();
  ASSERT_NE(pending, nullptr);
  auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_THAT(text(pending->peer_private_data()), StartsWith("SFAD123456780001"));
  ASSERT_NO_FATAL_FAILURE(MakeServer(*pending, {}));
  EXPECT_THAT(text(server_.endpoint->peer_private_data()), StartsWith("SFAD123456780001"));
  ASSERT_TRUE(server_.endpoint->Accept(AsBytes("welcome")).ok());
  ASSERT_TRUE(Await(client_, Event::kConnected).has_value());
  ASSERT_TRUE(Await(server_, Event::kConnected).has_value());
  EXPECT_THAT(text(client_.endpoint->peer_private_data()), StartsWith("welcome"));
  EXPECT_THAT(client_.endpoint->description(), StartsWith("verbs device "));
}

TEST_F(VerbsTest, TooMuchPrivateDataIsRefusedLocally) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  EXPECT_EQ(client_.endpoint->Connect(AsBytes(std::string(197, 'x'))).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_.endpoint->Connect(AsBytes(std::string(48, 'x'))).ok());
}

TEST_F(VerbsTest, MessagesOfEverySizeArriveWholeAndInOrder) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  const std::vector<size_t> sizes = {0, 1, 63, 64, 65, 255, 256, 257, 4096, 65536, 1 << 20};
  for (size_t size : sizes) {
    SCOPED_TRACE(size);
    std::string text(size, 'a');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
    Buffer from(*client_.domain, size + 1, Access::kLocal, text);
    Buffer into(*server_.domain, (1 << 20) + 1, Access::kLocal);
    ASSERT_TRUE(server_.endpoint->PostReceive(size, into.All()).ok());
    const Segment segments[] = {from.At(0, size / 3), from.At(size / 3, size - size / 3)};
    ASSERT_TRUE(client_.endpoint->PostSend(7, segments, {}).ok());
    auto received = Await(server_, Event::kReceive);
    ASSERT_TRUE(received.has_value());
    EXPECT_TRUE(received->status.ok()) << received->status;
    EXPECT_EQ(received->cookie, size);
    ASSERT_EQ(received->size_bytes, size);
    EXPECT_EQ(into.Text(0, size), text);
    auto sent = Await(client_, Event::kSend);
    ASSERT_TRUE(sent.has_value());
    EXPECT_EQ(sent->cookie, 7u);
  }
}

// More sends than the queue holds: slots must become free although nothing is reported.
TEST_F(VerbsTest, UnsignaledSendsAreNotReportedAndDoNotFillTheQueue) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_receives = 8, .max_sends = 4}));
  Buffer from(*client_.domain, 1024, Access::kLocal);
  Buffer into(*server_.domain, 1024, Access::kLocal);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(server_.endpoint->PostReceive(i, into.All()).ok());
    const Segment segment = from.All();
    absl::Status status;
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    do {
      client_.PollOnce();
      status = client_.endpoint->PostSend(i, {&segment, 1},
                                          {.signaled = false, .invalidate_context = {}});
    } while (absl::IsResourceExhausted(status) && absl::Now() < deadline);
    ASSERT_TRUE(status.ok()) << status;
    auto received = Await(server_, Event::kReceive);
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->cookie, i);
  }
  EXPECT_FALSE(client_.Take(Event::kSend).has_value());
}

TEST_F(VerbsTest, PostsBeyondTheOptionsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_receives = 2, .max_sends = 2, .max_segments = 2}));
  Buffer memory(*client_.domain, 64, Access::kLocal);
  EXPECT_TRUE(client_.endpoint->PostReceive(1, memory.All()).ok());
  EXPECT_TRUE(client_.endpoint->PostReceive(2, memory.All()).ok());
  EXPECT_EQ(client_.endpoint->PostReceive(3, memory.All()).code(),
            absl::StatusCode::kResourceExhausted);
  const Segment three[] = {memory.At(0, 1), memory.At(1, 1), memory.At(2, 1)};
  EXPECT_EQ(client_.endpoint->PostSend(1, three, {}).code(), absl::StatusCode::kInvalidArgument);
  Segment outside = memory.All();
  outside.size_bytes += 1;
  EXPECT_EQ(client_.endpoint->PostSend(1, {&outside, 1}, {}).code(),
            absl::StatusCode::kInvalidArgument);
  Buffer foreign(*server_.domain, 64, Access::kLocal);
  const Segment other = foreign.All();
  EXPECT_EQ(client_.endpoint->PostSend(1, {&other, 1}, {}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(VerbsTest, RdmaWriteIsVisibleBeforeTheNextSend) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer target(*client_.domain, 1 << 20, Access::kRemoteWrite);
  Buffer inbox(*client_.domain, 64, Access::kLocal);
  Buffer source(*server_.domain, 1 << 20, Access::kLocal, std::string(1 << 20, 'w'));
  ASSERT_TRUE(client_.endpoint->PostReceive(1, inbox.All()).ok());
  const Segment pieces[] = {source.At(0, 1), source.At(1, 4095), source.At(4096, 500'000),
                            source.At(504'096, (1 << 20) - 504'096 - 10)};
  ASSERT_TRUE(server_.endpoint->PostRdmaWrite(2, pieces, target.Remote(3), false).ok());
  const Segment note = source.At(0, 64);
  ASSERT_TRUE(server_.endpoint->PostSend(3, {&note, 1}, {}).ok());
  auto received = Await(client_, Event::kReceive);
  ASSERT_TRUE(received.has_value());
  ASSERT_TRUE(received->status.ok()) << received->status;
  EXPECT_EQ(target.Text(0, 3), std::string(3, '\0'));
  EXPECT_EQ(target.Text(3, (1 << 20) - 10), std::string((1 << 20) - 10, 'w'));
  EXPECT_EQ(target.Text((1 << 20) - 7, 7), std::string(7, '\0'));
}

// Counts the calls of ibv_post_send on the device of a domain during its lifetime.
class PostCalls {
 public:
  explicit PostCalls(Domain& domain)
      : context_(*static_cast<verbs::VerbsDomain&>(domain).context()),
        post_(context_.ops.post_send) {
    instance_ = this;
    context_.ops.post_send = [](ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
      ++instance_->count_;
      return instance_->post_(qp, requests, bad);
    };
  }
  ~PostCalls() { context_.ops.post_send = post_; }
  int count() const { return count_; }

 private:
  static inline PostCalls* instance_ = nullptr;
  ibv_context& context_;
  int (*const post_)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int count_ = 0;
};

// A response and the data before it take one system call on a software device, not two.
TEST_F(VerbsTest, RdmaWritesAndTheNextSendAreOneCallOfTheDevice) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer target(*client_.domain, 8192, Access::kRemoteWrite);
  Buffer inbox(*client_.domain, 64, Access::kLocal);
  Buffer source(*server_.domain, 8192, Access::kLocal, std::string(8192, 'w'));
  ASSERT_TRUE(client_.endpoint->PostReceive(1, inbox.All()).ok());
  const Segment halves[] = {source.At(0, 4096), source.At(4096, 4096)};
  const Segment note = source.At(0, 64);
  PostCalls calls(*server_.domain);
  ASSERT_TRUE(server_.endpoint->PostRdmaWrite(2, {&halves[0], 1}, target.Remote(), false).ok());
  ASSERT_TRUE(server_.endpoint->PostRdmaWrite(2, {&halves[1], 1}, target.Remote(4096), false).ok());
  ASSERT_TRUE(server_.endpoint->PostSend(3, {&note, 1}, {}).ok());
  EXPECT_EQ(calls.count(), 1);
  auto received = Await(client_, Event::kReceive);
  ASSERT_TRUE(received.has_value() && received->status.ok());
  EXPECT_EQ(target.Text(0, 8192), std::string(8192, 'w'));
  EXPECT_TRUE(Await(server_, Event::kSend).has_value());
  EXPECT_EQ(calls.count(), 1);
}

TEST_F(VerbsTest, BindAndTheNextSendAreOneCallOfTheDevice) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_windows = 2}));
  if (absl::IsUnimplemented(client_.domain->windows())) GTEST_SKIP() << "no memory windows";
  Buffer memory(*client_.domain, 4096, Access::kWindows);
  Buffer inbox(*server_.domain, 64, Access::kLocal);
  Buffer source(*server_.domain, 4096, Access::kLocal, std::string(4096, 'w'));
  ASSERT_TRUE(server_.endpoint->PostReceive(1, inbox.All()).ok());
  const Segment all = source.All();
  PostCalls calls(*client_.domain);
  auto window = client_.endpoint->PostBind(memory.All(), Access::kRemoteWrite);
  ASSERT_TRUE(window.ok()) << window.status();
  ASSERT_TRUE(client_.endpoint->PostSend(3, {}, {}).ok());
  EXPECT_EQ(calls.count(), 1);
  ASSERT_TRUE(Await(server_, Event::kReceive).has_value());
  ASSERT_TRUE(server_.endpoint->PostRdmaWrite(4, {&all, 1}, *window, true).ok());
  auto written = Await(server_, Event::kRdmaWrite);
  ASSERT_TRUE(written.has_value());
  EXPECT_TRUE(written->status.ok()) << written->status;
  EXPECT_EQ(memory.Text(0, 4096), std::string(4096, 'w'));
}

// Arm posts all delayed work, even if the caller did not flush it.
TEST_F(VerbsTest, ArmPostsDelayedSends) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer inbox(*server_.domain, 64, Access::kLocal);
  ASSERT_TRUE(server_.endpoint->PostReceive(1, inbox.All()).ok());
  Endpoint::SendOptions more;
  more.more = true;
  ASSERT_TRUE(client_.endpoint->PostSend(3, {}, more).ok());
  (void)client_.endpoint->Arm();
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (server_.seen.empty() && absl::Now() < deadline) server_.PollOnce();
  EXPECT_TRUE(server_.Take(Event::kReceive).has_value());
}

// More segments than some devices accept in one read, and more reads than may be in flight.
TEST_F(VerbsTest, ReadsOfSeveralSegmentsAreReportedOnceEachInOrder) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_sends = 32, .max_rdma_reads = 2, .max_segments = 4}));
  std::string text(64 << 10, ' ');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>('A' + (i * 7 + i / 251) % 50);
  Buffer source(*client_.domain, text.size(), Access::kRemoteRead, text);
  std::vector<std::unique_ptr<Buffer>> sinks;
  constexpr uint64_t kReads = 20;
  for (uint64_t i = 0; i < kReads; ++i) {
    sinks.push_back(std::make_unique<Buffer>(*server_.domain, text.size(), Access::kLocal));
    Buffer& sink = *sinks.back();
    const Segment pieces[] = {sink.At(0, 1), sink.At(1, 8191), sink.At(8192, 0),
                              sink.At(8192, text.size() - 8192 - i)};
    ASSERT_TRUE(server_.endpoint->PostRdmaRead(i, pieces, source.Remote(i)).ok());
  }
  for (uint64_t i = 0; i < kReads; ++i) {
    auto read = Await(server_, Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    ASSERT_TRUE(read->status.ok()) << read->status;
    EXPECT_EQ(read->cookie, i);
    EXPECT_EQ(sinks[i]->Text(0, text.size() - i), text.substr(i));
  }
  EXPECT_FALSE(server_.Take(Event::kRdmaRead).has_value());
}

// A peer misuses a context: the connection ends, and the memory is unchanged.
struct Misuse {
  const char* name;
  Access access;
  bool write;
  uint64_t offset;
  uint32_t context_change;
};

void PrintTo(const Misuse& misuse, std::ostream* out) { *out << misuse.name; }

class VerbsMisuseTest : public VerbsTest, public ::testing::WithParamInterface<Misuse> {};

TEST_P(VerbsMisuseTest, EndsTheConnectionAndLeavesTheMemory) {
  const Misuse& misuse = GetParam();
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  const bool lacks_right = misuse.offset == 0 && misuse.context_change == 0;
  if (IsSiw() && !misuse.write && lacks_right) {
    GTEST_SKIP() << "siw does not check the remote-read right of a region";
  }
  Buffer target(*client_.domain, 4096, misuse.access, std::string(4096, 't'));
  Buffer inbox(*client_.domain, 64, Access::kLocal);
  Buffer ours(*server_.domain, 4096, Access::kLocal, std::string(4096, 's'));
  ASSERT_TRUE(client_.endpoint->PostReceive(5, inbox.All()).ok());
  RemoteBuffer remote = target.Remote(misuse.offset);
  remote.context += misuse.context_change;
  const Segment all = ours.All();
  const absl::Status posted = misuse.write
                                  ? server_.endpoint->PostRdmaWrite(1, {&all, 1}, remote, true)
                                  : server_.endpoint->PostRdmaRead(1, {&all, 1}, remote);
  ASSERT_TRUE(posted.ok()) << posted;
  auto end = Await(server_, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  if (!IsIwarp()) {
    EXPECT_EQ(end->status.code(), absl::StatusCode::kPermissionDenied) << end->status;
    EXPECT_THAT(std::string(end->status.message()), HasSubstr("remote access error"));
  }
  if (!misuse.write) {
    auto read = server_.Take(Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    EXPECT_FALSE(read->status.ok());
  }
  auto flushed = Await(client_, Event::kReceive);
  ASSERT_TRUE(flushed.has_value());
  EXPECT_FALSE(flushed->status.ok());
  EXPECT_TRUE(Await(client_, Event::kDisconnected).has_value());
  EXPECT_EQ(target.Text(0, 4096), std::string(4096, 't'));
  if (!misuse.write) {
    EXPECT_EQ(ours.Text(0, 4096), std::string(4096, 's'));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VerbsMisuseTest,
    ::testing::Values(Misuse{"WriteToLocal", Access::kLocal, true, 0, 0},
                      Misuse{"ReadOfLocal", Access::kLocal, false, 0, 0},
                      Misuse{"WriteToReadable", Access::kRemoteRead, true, 0, 0},
                      Misuse{"ReadOfWritable", Access::kRemoteWrite, false, 0, 0},
                      Misuse{"WriteBeyondEnd", Access::kRemoteBoth, true, 1, 0},
                      Misuse{"ReadBeyondEnd", Access::kRemoteBoth, false, 1, 0},
                      Misuse{"WriteWithWrongKey", Access::kRemoteBoth, true, 0, 1},
                      Misuse{"ReadWithWrongKey", Access::kRemoteBoth, false, 0, 1}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST_F(VerbsTest, OrderlyCloseDeliversPostedWorkAndReportsOk) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer from(*client_.domain, 200'000, Access::kLocal, std::string(200'000, 'x'));
  std::vector<std::unique_ptr<Buffer>> inboxes;
  for (uint64_t i = 0; i < 10; ++i) {
    inboxes.push_back(std::make_unique<Buffer>(*server_.domain, 200'000, Access::kLocal));
    ASSERT_TRUE(server_.endpoint->PostReceive(i, inboxes.back()->All()).ok());
  }
  const Segment all = from.All();
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        client_.endpoint->PostSend(i, {&all, 1}, {.signaled = i == 3, .invalidate_context = {}})
            .ok());
  }
  client_.endpoint->Disconnect();
  auto closed = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(closed->status.ok()) << closed->status;
  auto sent = client_.Take(Event::kSend);
  ASSERT_TRUE(sent.has_value());
  EXPECT_TRUE(sent->status.ok()) << sent->status;
  EXPECT_EQ(sent->cookie, 3u);
  EXPECT_FALSE(client_.Take(Event::kSend).has_value());

  closed = Await(server_, Event::kDisconnected);
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(closed->status.ok()) << closed->status;
  for (uint64_t i = 0; i < 10; ++i) {
    auto received = server_.Take(Event::kReceive);
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->cookie, i);
    EXPECT_EQ(received->status.ok(), i < 8) << received->status;
  }
}

TEST_F(VerbsTest, AllPostedWorkIsReportedBeforeTheEndOfAnAbort) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_rdma_reads = 1}));
  Buffer source(*server_.domain, 1 << 20, Access::kRemoteRead);
  Buffer sink(*client_.domain, 1 << 20, Access::kLocal);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(client_.endpoint->PostReceive(i, sink.All()).ok());
    const Segment all = sink.All();
    ASSERT_TRUE(client_.endpoint->PostRdmaRead(10 + i, {&all, 1}, source.Remote()).ok());
  }
  client_.endpoint->Abort(absl::CancelledError("test"));
  auto end = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kCancelled);
  for (uint64_t i = 0; i < 4; ++i) {
    auto receive = client_.Take(Event::kReceive);
    ASSERT_TRUE(receive.has_value());
    EXPECT_EQ(receive->cookie, i);
    EXPECT_FALSE(receive->status.ok());
    auto read = client_.Take(Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->cookie, 10 + i);
  }
  EXPECT_TRUE(client_.seen.empty());
  const Segment all = sink.All();
  EXPECT_EQ(client_.endpoint->PostSend(1, {&all, 1}, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Await(server_, Event::kDisconnected).has_value());
}

TEST_F(VerbsTest, DestroyedPeerIsReported) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  client_.endpoint.reset();
  EXPECT_TRUE(Await(server_, Event::kDisconnected).has_value());
}

TEST_F(VerbsTest, DroppedRequestIsARefusedConnection) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  ASSERT_TRUE(client_.endpoint->Connect({}).ok());
  ASSERT_NE(AwaitRequest(), nullptr);
  auto end = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kUnavailable) << end->status;
  EXPECT_THAT(std::string(end->status.message()), HasSubstr("refused"));
}

TEST_F(VerbsTest, MissingListenerIsARefusedConnection) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  listener_ = *provider_->Listen(address_);  // another port: the old listener is destroyed
  ASSERT_TRUE(client_.endpoint->Connect({}).ok());
  auto end = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), absl::StatusCode::kUnavailable) << end->status;
  EXPECT_THAT(std::string(end->status.message()), HasSubstr("refused"));
}

TEST_F(VerbsTest, MessageLongerThanItsReceiveEndsTheConnection) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer inbox(*server_.domain, 64, Access::kLocal);
  Buffer from(*client_.domain, 65, Access::kLocal);
  ASSERT_TRUE(server_.endpoint->PostReceive(1, inbox.All()).ok());
  const Segment all = from.All();
  ASSERT_TRUE(client_.endpoint->PostSend(1, {&all, 1}, {}).ok());
  auto received = Await(server_, Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_FALSE(received->status.ok());
  EXPECT_TRUE(Await(server_, Event::kDisconnected).has_value());
  EXPECT_TRUE(Await(client_, Event::kDisconnected).has_value());
}

TEST_F(VerbsTest, SecondChannelJoinsTheDomainOfTheSession) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  auto pending = provider_->Resolve(listener_->local(), "", absl::Seconds(5));
  ASSERT_TRUE(pending.ok()) << pending.status();
  EXPECT_TRUE((*pending)->Fits(*client_.domain));
  EXPECT_TRUE((*pending)->CreateEndpoint(*client_.domain, {}).ok());
}

TEST_F(VerbsTest, DeviceIsChosenByName) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  const std::string description = client_.endpoint->description();  // "verbs device NAME port ..."
  const std::string name = description.substr(13, description.find(' ', 13) - 13);
  auto pending = provider_->Resolve(listener_->local(), name, absl::Seconds(5));
  EXPECT_TRUE(pending.ok()) << pending.status();
  pending = provider_->Resolve(listener_->local(), "nosuch0", absl::Seconds(5));
  EXPECT_EQ(pending.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(pending.status().message()), HasSubstr(name));
}

TEST_F(VerbsTest, AddressWithoutADeviceIsRefused) {
  auto addresses = ResolveHost("192.0.2.1", 0);  // TEST-NET: on no device
  ASSERT_TRUE(addresses.ok());
  auto listener = provider_->Listen(addresses->front());
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kUnavailable) << listener.status();
  auto pending = provider_->Resolve(addresses->front(), "", absl::Seconds(5));
  EXPECT_FALSE(pending.ok());
}

TEST_F(VerbsTest, MemoryLockErrorNamesTheLimitAndTheRemedy) {
  ASSERT_NO_FATAL_FAILURE(MakeClient({}));
  // Root may lock any amount. Without CAP_IPC_LOCK the limit applies.
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct saved[2] = {};
  ASSERT_EQ(syscall(SYS_capget, &header, saved), 0);
  __user_cap_data_struct reduced[2] = {saved[0], saved[1]};
  reduced[0].effective &= ~(1u << CAP_IPC_LOCK);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const rlimit low = {.rlim_cur = 64 << 10, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  ASSERT_EQ(syscall(SYS_capset, &header, reduced), 0);
  std::vector<std::byte> memory(4 << 20);
  auto region = client_.domain->Register(memory, Access::kLocal);
  ASSERT_EQ(syscall(SYS_capset, &header, saved), 0);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  ASSERT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted) << region.status();
  EXPECT_THAT(std::string(region.status().message()), HasSubstr("ulimit -l"));
  EXPECT_THAT(std::string(region.status().message()), HasSubstr("64 KiB"));
}

// The server's workers do this for every request. The kernel then refuses writes to the device's
// files, even after the thread has returned to its own identity.
TEST_F(VerbsTest, ThreadWithAnotherIdentityKeepsUsingItsConnection) {
  auto take_identity = [](int id) { syscall(SYS_setfsuid, id); };
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  Buffer from(*client_.domain, 4096, Access::kRemoteRead, std::string(4096, 'i'));
  Buffer into(*server_.domain, 4096, Access::kLocal);
  const Segment source = from.All();
  const Segment sink = into.All();
  for (int turn = 0; turn < 10; ++turn) {
    take_identity(turn % 2 == 0 ? 1000 : 0);
    ASSERT_TRUE(server_.endpoint->PostReceive(1, into.All()).ok());
    const absl::Status sent = client_.endpoint->PostSend(1, {&source, 1}, {});
    ASSERT_TRUE(sent.ok()) << sent;
    ASSERT_TRUE(Await(server_, Event::kReceive).has_value());
    const absl::Status read = server_.endpoint->PostRdmaRead(2, {&sink, 1}, from.Remote());
    ASSERT_TRUE(read.ok()) << read;
    auto done = Await(server_, Event::kRdmaRead);
    ASSERT_TRUE(done.has_value());
    ASSERT_TRUE(done->status.ok()) << done->status;
  }
  EXPECT_EQ(into.Text(0, 4096), std::string(4096, 'i'));
  server_.endpoint->Disconnect();
  auto end = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->status.ok()) << end->status;
  // Such a thread also makes and uses new connections.
  for (End* old : {&client_, &server_}) old->endpoint.reset();
  listener_ = *provider_->Listen(address_);
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  take_identity(0);
}

// siw's library fails for a queue whose mapping has one particular address.
TEST_F(VerbsTest, ManyEndpointsAtOnceOfAnySize) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (uint32_t depth : {4u, 32u}) {
    std::vector<End> ends;
    for (int i = 0; i < 80; ++i) {
      SCOPED_TRACE(i);
      ASSERT_NO_FATAL_FAILURE(MakeClient({.max_receives = depth, .max_sends = depth}));
      ends.push_back(std::move(client_));
    }
  }
}

// A peer that accepts one connection and then vanishes: its queue pair no longer answers and sends
// nothing.
class VanishingPeer {
 public:
  explicit VanishingPeer(const Address& at) : channel_(rdma_create_event_channel()) {
    EXPECT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(rdma_bind_addr(listener_, const_cast<sockaddr*>(at.get())), 0);
    EXPECT_EQ(rdma_listen(listener_, 1), 0);
  }
  ~VanishingPeer() {
    if (id_ != nullptr) {
      rdma_destroy_qp(id_);
      rdma_destroy_id(id_);
    }
    rdma_destroy_id(listener_);
    rdma_destroy_event_channel(channel_);
  }
  uint16_t port() const { return ntohs(rdma_get_src_port(listener_)); }

  void Accept() {
    id_ = Event(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NE(id_, nullptr);
    ibv_qp_init_attr attributes = {};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = 1,
                      .max_recv_wr = 1,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    ASSERT_EQ(rdma_create_qp(id_, nullptr, &attributes), 0);
    rdma_conn_param parameters = {};
    ASSERT_EQ(rdma_accept(id_, &parameters), 0);
  }
  void Vanish() {
    ASSERT_NE(Event(RDMA_CM_EVENT_ESTABLISHED), nullptr);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(id_->qp, &attributes, IBV_QP_STATE), 0);
  }

 private:
  rdma_cm_id* Event(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
    if (event == nullptr) return nullptr;
    EXPECT_EQ(event->event, wanted);
    rdma_cm_id* const id = event->event == wanted ? event->id : nullptr;
    rdma_ack_cm_event(event);
    return id;
  }

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* id_ = nullptr;
};

// Without any message of the peer: an idle connection detects it by itself.
TEST_F(VerbsTest, VanishedPeerIsReported) {
  VanishingPeer peer(address_);
  Address at = address_;
  at.set_port(peer.port());
  auto pending = provider_->Resolve(at, "", absl::Seconds(5));
  ASSERT_TRUE(pending.ok()) << pending.status();
  auto domain = (*pending)->NewDomain();
  ASSERT_TRUE(domain.ok()) << domain.status();
  client_.domain = *std::move(domain);
  auto endpoint = (*pending)->CreateEndpoint(*client_.domain, {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  client_.endpoint = *std::move(endpoint);
  if (IsIwarp()) GTEST_SKIP() << "over iWARP, TCP reports the end of a queue pair to the peer";
  ASSERT_TRUE(client_.endpoint->Connect({}).ok());
  ASSERT_NO_FATAL_FAILURE(peer.Accept());
  ASSERT_TRUE(Await(client_, Event::kConnected).has_value());
  ASSERT_NO_FATAL_FAILURE(peer.Vanish());
  // The device tries seven times, each for about four seconds (rdma_cm, CMA_IBOE_PACKET_LIFETIME).
  std::optional<Completion> last;
  for (int i = 0; i < 12 && !last; ++i) last = Await(client_, Event::kDisconnected);
  ASSERT_TRUE(last.has_value());
  EXPECT_THAT(last->status.message(), HasSubstr("transport retry counter exceeded"));
  client_.endpoint.reset();
  client_.domain.reset();
}

// A connection leaves no resources in use. Otherwise descriptors would run out, and tests/rdma/run
// compares what the device holds afterwards.
TEST_F(VerbsTest, ManyConnectionsInSuccession) {
  const char* text = std::getenv("DAFS_TEST_RDMA_CONNECTIONS");
  const int count = text != nullptr ? std::atoi(text) : 50;
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(ConnectPair({.max_receives = 4, .max_sends = 4}));
    if (i % 2 == 0) {
      server_.endpoint->Disconnect();
      ASSERT_TRUE(Await(client_, Event::kDisconnected).has_value());
    }
    for (End* end : {&client_, &server_}) {
      end->endpoint.reset();
      end->domain.reset();
      end->seen.clear();
    }
  }
}

}  // namespace
}  // namespace dafs::dat::testing
