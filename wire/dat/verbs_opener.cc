#include "wire/dat/verbs_opener.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cstdint>

namespace dafs::dat::verbs {
namespace {

// siw waits up to ten seconds when it destroys a connection in the making; the others go on
// meanwhile.
constexpr size_t kThreads = 4;

// The command by which the libraries of siw and rxe ring: no work requests, those are in the queue.
struct Doorbell {
  ib_uverbs_cmd_hdr header;
  ib_uverbs_post_send command;
};

}  // namespace

Opener::~Opener() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void Opener::Run(absl::FunctionRef<void()> call) {
  Job job{.call = call};
  {
    absl::MutexLock lock(&mutex_);
    while (threads_.size() < kThreads) threads_.emplace_back([this] { Serve(); });
    jobs_.push_back(&job);
    mutex_.Await(absl::Condition(&job.done));
  }
  errno = job.error;
}

void Opener::Serve() {
  auto has_job = [this]()
                     ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&has_job));
    if (jobs_.empty()) return;
    Job* job = jobs_.front();
    jobs_.pop_front();
    mutex_.Unlock();
    job->call();
    const int error = errno;
    mutex_.Lock();
    job->error = error;
    job->done = true;
  }
}

void Opener::CoverBadKey(ibv_context* context) {
  constexpr int kPages = 145;
  constexpr int kEntryBytes = 32;
  absl::MutexLock lock(&mutex_);
  if (covers_.contains(context)) return;
  if (devices_ == nullptr) devices_ = Devices(rdma_get_devices(nullptr), &rdma_free_devices);
  // Without it siw works for some thirty connections.
  covers_.emplace(
      context, UnusedQueue(ibv_create_cq(context, kPages * 4096 / kEntryBytes, nullptr, nullptr, 0),
                           [](ibv_cq* cq) { return ibv_destroy_cq(cq); }));
}

int Opener::RingDoorbell(ibv_qp* queue_pair) {
  ib_uverbs_post_send_resp response = {};
  Doorbell doorbell = {};
  doorbell.header.command = IB_USER_VERBS_CMD_POST_SEND;
  doorbell.header.in_words = sizeof doorbell / 4;
  doorbell.header.out_words = sizeof response / 4;
  doorbell.command.response = reinterpret_cast<uintptr_t>(&response);
  doorbell.command.qp_handle = queue_pair->handle;
  doorbell.command.wqe_size = sizeof(ib_uverbs_send_wr);
  int error = 0;
  const Doorbell* const bytes = &doorbell;
  Run([queue_pair, bytes, &error] {
    const ssize_t written = write(queue_pair->context->cmd_fd, bytes, sizeof(Doorbell));
    error = written == static_cast<ssize_t>(sizeof(Doorbell)) ? 0 : errno;
  });
  return error;
}

}  // namespace dafs::dat::verbs
