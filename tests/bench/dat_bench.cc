// Measures the transport: round trips and bytes per second of a provider over loopback, and of a
// plain TCP socket for comparison. Both ends run on one thread, so the figures include no wake-ups.
// Streaming is measured with the ends on two threads too.
//
//     dat_bench [--crc] [--mss] [--seconds=N]
//
// --crc: with CRC32C. --mss: FPDUs of one TCP segment, as with a foreign peer.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "runtime/loop/loop.h"
#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::dat::testing {
namespace {

struct Settings {
  IwarpOptions iwarp;
  absl::Duration length = absl::Seconds(1);
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "dat_bench: %s\n", what.c_str());
  std::exit(1);
}

void Must(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

struct Bench {
  std::unique_ptr<Provider> provider;
  std::unique_ptr<Pair> pair;
};

Bench Connect(const Settings& settings) {
  Bench bench;
  bench.provider = NewIwarpProvider(settings.iwarp);
  absl::StatusOr<std::unique_ptr<Pair>> pair =
      MakePair(*bench.provider, *bench.provider, LoopbackAddress(), EndpointOptions());
  Must(pair.status());
  bench.pair = *std::move(pair);
  Must(FinishPair(*bench.pair));
  return bench;
}

// Polls `side` until a receive has completed. Ignores other completions.
void AwaitReceive(Side& side) {
  Completion some[8];
  for (;;) {
    const size_t count = side.endpoint->Poll(some);
    for (size_t i = 0; i < count; ++i) {
      Must(some[i].status);
      if (some[i].event == Event::kReceive) return;
    }
  }
}

// Runs `once` repeatedly for the set time. Returns microseconds per run.
template <typename F>
double TimePerRun(const Settings& settings, F once) {
  for (int i = 0; i < 100; ++i) once();
  const absl::Time begin = Loop::Now();
  uint64_t runs = 0;
  while (Loop::Now() - begin < settings.length) {
    for (int i = 0; i < 20; ++i) once();
    runs += 20;
  }
  return absl::ToDoubleMicroseconds(Loop::Now() - begin) / static_cast<double>(runs);
}

void PingPong(const Settings& settings, size_t size) {
  Bench bench = Connect(settings);
  Pair& pair = *bench.pair;
  Memory from_client = NewMemory(*pair.client.domain, size, Access::kLocal, 1);
  Memory to_client = NewMemory(*pair.client.domain, size, Access::kLocal);
  Memory from_server = NewMemory(*pair.server.domain, size, Access::kLocal, 2);
  Memory to_server = NewMemory(*pair.server.domain, size, Access::kLocal);
  const Segment request = from_client.All();
  const Segment answer = from_server.All();
  const double us = TimePerRun(settings, [&] {
    Must(pair.server.endpoint->PostReceive(0, to_server.All()));
    Must(pair.client.endpoint->PostReceive(0, to_client.All()));
    Must(pair.client.endpoint->PostSend(0, {&request, 1},
                                        {.signaled = false, .invalidate_context = {}}));
    AwaitReceive(pair.server);
    Must(pair.server.endpoint->PostSend(0, {&answer, 1},
                                        {.signaled = false, .invalidate_context = {}}));
    AwaitReceive(pair.client);
  });
  std::printf("ping-pong %zu B                 %8.2f us\n", size, us);
}

// A DAFS read: a small request, the data by RDMA write, a small reply.
void WriteAndSend(const Settings& settings, size_t size) {
  Bench bench = Connect(settings);
  Pair& pair = *bench.pair;
  Memory small = NewMemory(*pair.client.domain, 128, Access::kLocal, 1);
  Memory to_client = NewMemory(*pair.client.domain, 4096, Access::kLocal);
  Memory target = NewMemory(*pair.client.domain, size + 4096, Access::kRemoteWrite);
  Memory answer = NewMemory(*pair.server.domain, 128, Access::kLocal, 2);
  Memory to_server = NewMemory(*pair.server.domain, 4096, Access::kLocal);
  Memory source = NewMemory(*pair.server.domain, size, Access::kLocal, 3);
  const size_t page = (4096 - reinterpret_cast<uintptr_t>(target.bytes.data()) % 4096) % 4096;
  const Segment request = small.All();
  const Segment data = source.All();
  const Segment done = answer.All();
  const double us = TimePerRun(settings, [&] {
    Must(pair.server.endpoint->PostReceive(0, to_server.All()));
    Must(pair.client.endpoint->PostReceive(0, to_client.All()));
    Must(pair.client.endpoint->PostSend(0, {&request, 1},
                                        {.signaled = false, .invalidate_context = {}}));
    AwaitReceive(pair.server);
    Must(pair.server.endpoint->PostRdmaWrite(0, {&data, 1}, target.Remote(page), false));
    Must(pair.server.endpoint->PostSend(0, {&done, 1},
                                        {.signaled = false, .invalidate_context = {}}));
    AwaitReceive(pair.client);
  });
  std::printf("request, RDMA write %7zu B, answer %8.2f us  %8.0f MB/s\n", size, us,
              static_cast<double>(size) / us);
}

// The same data by an RDMA read of the client: what a read by reference costs the transport.
void ReadByClient(const Settings& settings, size_t size) {
  Bench bench = Connect(settings);
  Pair& pair = *bench.pair;
  Memory target = NewMemory(*pair.client.domain, size, Access::kLocal);
  Memory source = NewMemory(*pair.server.domain, size, Access::kRemoteRead, 3);
  const Segment into = target.All();
  Completion some[8];
  const double us = TimePerRun(settings, [&] {
    Must(pair.client.endpoint->PostRdmaRead(0, {&into, 1}, source.Remote()));
    pair.client.endpoint->Flush();
    for (size_t done = 0; done == 0;) {
      pair.server.endpoint->Poll(some);
      done = pair.client.endpoint->Poll(some);
    }
  });
  std::printf("RDMA read of the client %7zu B     %8.2f us\n", size, us);
}

// RDMA writes of 1 MiB in one direction, four outstanding; the ends on one thread or two.
void Stream(const Settings& settings, bool two_threads) {
  constexpr size_t kBytes = 1 << 20;
  constexpr uint64_t kInFlight = 4;
  Bench bench = Connect(settings);
  Pair& pair = *bench.pair;
  Memory source = NewMemory(*pair.client.domain, kBytes, Access::kLocal, 1);
  Memory target = NewMemory(*pair.server.domain, kBytes, Access::kRemoteWrite);
  const Segment data = source.All();
  std::atomic<bool> stop{false};  // set when the sender has finished
  std::thread receiver;
  if (two_threads) {
    receiver = std::thread([&] {
      Completion some[8];
      while (!stop.load()) pair.server.endpoint->Poll(some);
    });
  }
  const absl::Time begin = Loop::Now();
  uint64_t posted = 0;
  uint64_t done = 0;
  Completion some[8];
  while (Loop::Now() - begin < settings.length || done < posted) {
    while (posted - done < kInFlight && Loop::Now() - begin < settings.length) {
      Must(pair.client.endpoint->PostRdmaWrite(0, {&data, 1}, target.Remote(), true));
      ++posted;
    }
    done += pair.client.endpoint->Poll(some);
    if (!two_threads) pair.server.endpoint->Poll(some);
  }
  const double us = absl::ToDoubleMicroseconds(Loop::Now() - begin);
  stop.store(true);
  if (receiver.joinable()) receiver.join();
  std::printf("stream of 1 MiB RDMA writes, %s %8.0f MB/s\n",
              two_threads ? "two threads" : "one thread ", static_cast<double>(done) * kBytes / us);
}

// The same bytes over a bare socket: the least possible cost.
void BareSocket(const Settings& settings, size_t size) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Address any = LoopbackAddress();
  sockaddr_in bound = {};
  socklen_t length = sizeof(bound);
  if (bind(listening, any.get(), any.size()) != 0 || listen(listening, 1) != 0) Fail("listen");
  getsockname(listening, reinterpret_cast<sockaddr*>(&bound), &length);
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(one, reinterpret_cast<const sockaddr*>(&bound), length) != 0) Fail("connect");
  const int other = accept(listening, nullptr, nullptr);
  const int on = 1;
  setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::vector<char> bytes(size);
  const double us = TimePerRun(settings, [&] {
    const auto whole = static_cast<ssize_t>(size);
    if (send(one, bytes.data(), size, 0) != whole) Fail("send");
    if (recv(other, bytes.data(), size, MSG_WAITALL) != whole) Fail("recv");
    if (send(other, bytes.data(), size, 0) != whole) Fail("send");
    if (recv(one, bytes.data(), size, MSG_WAITALL) != whole) Fail("recv");
  });
  std::printf("bare TCP ping-pong %zu B        %8.2f us\n", size, us);
  close(one);
  close(other);
  close(listening);
}

}  // namespace
}  // namespace dafs::dat::testing

int main(int argc, char** argv) {
  using namespace dafs::dat::testing;
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--crc") {
      settings.iwarp.want_crc = true;
    } else if (argument == "--mss") {
      settings.iwarp.recognise_peer = false;
    } else if (argument.rfind("--seconds=", 0) == 0) {
      settings.length = absl::Seconds(std::atof(argument.c_str() + 10));
    } else {
      std::fprintf(stderr, "usage: dat_bench [--crc] [--mss] [--seconds=N]\n");
      return 2;
    }
  }
  BareSocket(settings, 64);
  PingPong(settings, 64);
  BareSocket(settings, 4096);
  PingPong(settings, 4096);
  WriteAndSend(settings, 4096);
  ReadByClient(settings, 4096);
  WriteAndSend(settings, 65536);
  ReadByClient(settings, 65536);
  WriteAndSend(settings, 1 << 20);
  Stream(settings, false);
  Stream(settings, true);
  return 0;
}
