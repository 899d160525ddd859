// DAFS_CHECK states an invariant of this program. A failure is a bug of ours and ends the process
// with the place and the reason. Input from the network, the kernel or the command line must never
// reach a DAFS_CHECK.
#pragma once

#include <cstdio>
#include <cstdlib>

#define DAFS_CHECK(condition, why)                                                                \
  do {                                                                                            \
    if (!(condition)) [[unlikely]] {                                                              \
      std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", __FILE__, __LINE__, #condition, why); \
      std::abort();                                                                               \
    }                                                                                             \
  } while (false)
