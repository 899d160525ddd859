// Tells a software device that its send queue has work, where ibv_post_send could not.
//
// The libraries of siw and rxe put requests into the queue themselves, and then ring with a
// write() that the kernel refuses to threads that ever took another identity
// (wire/dat/verbs/opener.h). The same command by ioctl() it takes from every thread.
#pragma once

#include <infiniband/verbs.h>

namespace dafs::dat::verbs {

// By the thread of the send queue. Returns 0 or an errno.
int RingDoorbell(ibv_qp* queue_pair);

}  // namespace dafs::dat::verbs
