// Tells a software device that its send queue has work, where ibv_post_send could not.
//
// The libraries of siw and rxe put requests into the queue themselves, and then ring with a
// write() that the kernel refuses to threads that ever took another identity
// (wire/dat/verbs_opener.h). The same command by ioctl() it takes from every thread. Kernels
// without that command are rung from one of the opener's threads, two hand-overs a ring.
#pragma once

#include <infiniband/verbs.h>

#include "wire/dat/verbs_opener.h"

namespace dafs::dat::verbs {

// Belongs to the thread of its send queue, which owns it.
class Doorbell {
 public:
  // Returns 0 or an errno.
  int Ring(ibv_qp* queue_pair, Opener& opener);

 private:
  bool by_ioctl_ = true;  // until a kernel says that it does not know it
};

}  // namespace dafs::dat::verbs
