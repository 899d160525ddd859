// Notifies a software device that its send queue has work, if ibv_post_send could not.
//
// The libraries of siw and rxe put requests into the queue themselves, and then ring the doorbell
// with a write(). The kernel refuses that write() to a thread that ever changed its identity
// (wire/dat/verbs/opener.h). It accepts the same command by ioctl() from every thread.
#pragma once

#include <infiniband/verbs.h>

namespace dafs::dat::verbs {

// Call on the thread of the send queue. Returns 0 or an errno.
int RingDoorbell(ibv_qp* queue_pair);

}  // namespace dafs::dat::verbs
