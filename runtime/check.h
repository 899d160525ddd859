// DAFS_CHECK states an invariant of our own: a failure is our bug and ends the process with the
// place and the reason. Bytes from the network, the kernel or the command line never reach one.
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
