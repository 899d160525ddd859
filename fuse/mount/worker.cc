#include "fuse/mount/worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "fuse/kernel/init.h"
#include "fuse/kernel/notifications/memory_pressure.h"
#include "fuse/kernel/opcode_name.h"
#include "fuse/kernel/protocol.h"
#include "fuse/kernel/repeatable.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {
namespace {

// Requests that one turn of the loop reads.
constexpr int kMostAtOnce = 16;

// With this many outstanding calls, another request is usually queued after each one that is read.
constexpr size_t kManyCalls = 3;

// Whether a program waits for the answer. After a request without a waiter, another is usually
// queued. Reading it at once saves a call of epoll.
bool IsAwaited(std::span<const std::byte> request) {
  fuse_in_header header = {};
  if (request.size() < sizeof(header)) return true;
  std::memcpy(&header, request.data(), sizeof(header));
  switch (header.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return false;
    default:
      return true;
  }
}

absl::StatusOr<std::unique_ptr<UserFiles>> MakeUserFiles(MountState& state, client::Files& mount) {
  if (state.users == nullptr) return std::make_unique<UserFiles>(mount);
  ASSIGN_OR_RETURN(std::unique_ptr<client::Files> refused,
                   client::Files::Create(state.users->unconnected(), mount.loop()));
  refused->Shutdown();
  return std::make_unique<UserFiles>(mount, *state.users, std::move(refused));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(MountState& state, client::Client& client,
                                                      std::function<void()> ended) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Loop> loop,
      Loop::Create({.max_spin = state.options.spin, .cpu_latency = state.cpu_latency.get()}));
  ASSIGN_OR_RETURN(std::unique_ptr<client::Files> files, client::Files::Create(client, *loop));
  ASSIGN_OR_RETURN(std::unique_ptr<UserFiles> user_files, MakeUserFiles(state, *files));
  std::unique_ptr<Worker> worker(
      new Worker(state, std::move(loop), std::move(files), std::move(user_files)));
  Worker* self = worker.get();
  worker->thread_ = std::thread([self, ended = std::move(ended)] {
    BecomeIoFlusher();
    WorkerContext& context = self->context_;
    context.loop->Run();
    context.files->Shutdown();
    context.user_files->Shutdown();
    if (context.operations.has_value()) context.operations->Shutdown();
    ended();
  });
  return worker;
}

Worker::Worker(MountState& state, std::unique_ptr<Loop> loop, std::unique_ptr<client::Files> files,
               std::unique_ptr<UserFiles> user_files)
    : state_(state),
      context_{.state = state,
               .loop = std::move(loop),
               .files = std::move(files),
               .user_files = std::move(user_files)},
      room_(context_.files->buffers(), *context_.loop, state.options.wsize,
            [this] {
              if (!ending_.has_begun() && !restart_.paused()) context_.loop->RequestPoll(this);
            }),
      interrupts_(*context_.loop, context_.calls, [this](Call& call) {
        room_.Unpark(call);
        context_.operations->EndsEarly(call);
      }) {}

Worker::~Worker() {
  Stop();
  Join();
  context_.operations.reset();  // before the ring, which its calls may answer by
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::Stop() {
  context_.loop->Post([this] { End(); });
}

void Worker::Interrupt(uint64_t unique) {
  context_.loop->Post([this, unique] { InterruptHere(unique); });
}

void Worker::InterruptHere(uint64_t unique) {
  if (!ending_.has_begun()) ring_.Take();
  interrupts_.Interrupt(unique);
}

Task<void> Worker::AskForRoot(std::function<void(Root)> done) {
  Root root;
  root.connected = co_await context_.files->Connect();
  if (root.connected.ok()) {
    root.session = context_.files->Report().session;
    client::Identity self;  // root; the export may squash it
    root.node = co_await context_.files->Mount(self);
    if (root.node.ok()) {
      absl::StatusOr<wire::FsAttributes> statfs =
          co_await context_.files->attributes().StatFs(self, root.node->handle);
      if (statfs.ok()) state_.root.statfs.Set(*statfs);
    }
  }
  done(std::move(root));
}

void Worker::FindRoot(std::function<void(Root)> done) {
  context_.loop->Post([this, done = std::move(done)] { dafs::Start(AskForRoot(done)); });
}

void Worker::Resume(UniqueFd fd, std::vector<std::vector<std::byte>> retracted) {
  auto shared = std::make_shared<UniqueFd>(std::move(fd));  // Post copies the function object
  context_.loop->Post([this, shared, retracted = std::move(retracted)] {
    const bool was_paused = restart_.EndPause();
    if (ending_.has_begun()) return;
    if (!context_.channel.has_value()) {
      MakeOperations(std::move(*shared));
      context_.loop->Add(this);
    } else if (was_paused) {
      context_.loop->Add(this);
    }
    for (const std::vector<std::byte>& request : retracted) Handle(request);
  });
}

void Worker::MakeOperations(UniqueFd fd) {
  WorkerContext& c = context_;
  c.channel.emplace(std::move(fd));
  if (state_.in_flight != nullptr) c.calls.RecordIn(c.in_flight.emplace(*state_.in_flight));
  c.user_files->Begin();
  c.operations.emplace(state_, *c.user_files, *c.channel);
  c.files->OnReport([&c](client::WorkerReport& report) { c.operations->Report(c.calls, report); });
}

// --- Requests --------------------------------------------------------------------------------

// A WRITE whose data was read into memory outside the pool waits for a buffer, unless its caller is
// killed first.
Task<void> Worker::Park(std::unique_ptr<Call> call, std::span<const std::byte> data) {
  call->lease() = co_await room_.Park(*call, data);
  calls_.Serve(std::move(call));  // without a lease it fails, because the mount ends
}

bool Worker::Poll() {
  bool progress = false;
  // The requests of many calls leave in one send: separate sends would take longer than reading.
  const bool many = context_.calls.size() >= kManyCalls;
  const client::Files::RequestCoalescing coalescing(*context_.files, many);
  for (int read = 0; read < kMostAtOnce && !ending_.has_begun(); ++read) {
    const std::span<std::byte> room = room_.Get();
    if (room.empty()) {
      if (context_.channel->AtEnd()) End();
      break;
    }
    KernelChannel::ReadOutcome outcome = context_.channel->Read(room);
    if (outcome.status == KernelChannel::ReadStatus::kEnd) End();
    if (outcome.status != KernelChannel::ReadStatus::kRequest) break;
    progress = true;
    const bool awaited = IsAwaited(room.first(outcome.bytes));
    Handle(room.first(outcome.bytes));
    if (awaited && !many) break;
  }
  return progress;
}

WaitHandle Worker::Arm() {
  // EPOLLEXCLUSIVE: one request wakes one worker. Errors are always reported.
  const uint32_t events = room_.MayBe() ? EPOLLIN | EPOLLEXCLUSIVE : 0u;
  return {.fd = context_.channel->fd(), .events = events};
}

void Worker::Handle(std::span<const std::byte> request) {
  fuse_in_header header = {};
  if (request.size() < sizeof(header)) {
    LogError(state_.options.source.text + ": the kernel sent a request of " +
             std::to_string(request.size()) + " bytes, which is too short; it is ignored");
    return;
  }
  std::memcpy(&header, request.data(), sizeof(header));
  std::span<const std::byte> body = request.subspan(sizeof(header));
  if (header.len != request.size()) {
    LogError(state_.options.source.text + ": the kernel sent " + std::to_string(request.size()) +
             " bytes of a request of " + std::to_string(header.len) + " (opcode " +
             std::to_string(header.opcode) + "); it fails with EIO");
    context_.channel->ReplyError(header.unique, EIO);
    return;
  }
  state_.left.resent.Read(header);
  if ((header.unique & kUniqueResent) != 0) [[unlikely]] {
    if (Refuses(header)) {
      context_.channel->ReplyError(header.unique, EIO);
      return;
    }
    state_.left.opens.WasSentAgain(header.unique & ~kUniqueResent);
  }
  switch (header.opcode) {
    case FUSE_INIT:
      Init(header, body);
      return;
    case FUSE_FORGET:
      context_.operations->Forget(header.nodeid, RequestReader(body));
      return;
    case FUSE_BATCH_FORGET:
      context_.operations->BatchForget(RequestReader(body));
      return;
    case FUSE_INTERRUPT:
      InterruptRequest(body);
      return;
    case FUSE_DESTROY:
      context_.channel->ReplyError(header.unique, 0);
      return;
    case FUSE_NOTIFY_REPLY:  // of AskForNothing; the kernel expects no answer to it here
      return;
    case FUSE_WRITE:
      if (body.size() < sizeof(fuse_write_in)) {
        context_.channel->ReplyError(header.unique, EINVAL);
      } else if (client::BufferLease buffer = room_.TakeBuffer()) {
        calls_.Start(*context_.channel, header, {body.first(sizeof(fuse_write_in))},
                     std::move(buffer));
      } else {
        dafs::Start(Park(std::make_unique<Call>(*context_.channel, context_.calls, header,
                                                Call::Body{body.first(sizeof(fuse_write_in))},
                                                client::BufferLease()),
                         body.subspan(sizeof(fuse_write_in))));
      }
      return;
    default:
      calls_.Start(*context_.channel, header,
                   {body.first(std::min(body.size(), BodyMax(header.opcode)))},
                   client::BufferLease());
  }
}

// A killed process has read the request. Any other is carried out: what that process sent for it is
// in the table.
bool Worker::Refuses(const fuse_in_header& header) {
  const uint64_t number = header.unique & ~kUniqueResent;
  if (MayBeRepeated(header.opcode)) return false;
  if (state_.in_flight != nullptr && state_.in_flight->KnowsLeft(number)) return false;
  LogError(state_.options.source.text + ": " + OpcodeName(header.opcode) +
           ": not known whether the server executed it: mount.dafs was killed while it had no "
           "record of all changes under way; it fails with EIO");
  return true;
}

// --- INIT and INTERRUPT ----------------------------------------------------------------------

void Worker::Init(const fuse_in_header& header, std::span<const std::byte> body) {
  InitOptions options;
  options.max_write = state_.options.wsize;
  options.posix_locks = PosixAtServer(state_.options);
  options.flock_locks = FlockAtServer(state_.options);
  options.posix_acl = state_.kernel.default_permissions && state_.options.acl;
  options.io_uring = state_.kernel.wants_io_uring;
  InitAnswer answer = AnswerInit(body, options);
  if (answer.error != 0) {
    context_.channel->ReplyError(header.unique, answer.error);
  } else {
    state_.kernel.init.Agree(answer.flags);
    context_.channel->Reply(header.unique, {AsBytes(answer.out)});
    if (answer.again) return;
  }
  state_.kernel.init.Answered(answer.error);
}

void Worker::InterruptRequest(std::span<const std::byte> body) {
  RequestReader in(body);
  auto interrupt = in.Take<fuse_interrupt_in>();
  if (!in.ok()) return;
  ring_.Take();
  if (context_.calls.Find(interrupt.unique) != nullptr) {
    interrupts_.Interrupt(interrupt.unique);
  } else if (state_.interrupt_all) {
    state_.interrupt_all(interrupt.unique);
  }
}

// --- The end ---------------------------------------------------------------------------------

void Worker::End() {
  if (!ending_.Begin()) return;
  if (context_.channel.has_value() && !restart_.paused()) context_.loop->Remove(this);
  if (restart_.handed_over()) return ending_.Farewell();
  ring_.Stop();
  ending_.Drain();
}

}  // namespace dafs::fuse
