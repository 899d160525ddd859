// The flow macro of functions that return a status of the protocol.
#pragma once

#include "wire/protocol/constants.h"

namespace dafs::server {

// Returns from the enclosing function with any status except OK.
#define STORE_RETURN_IF_NOT_OK(...)                             \
  do {                                                          \
    if (::dafs::wire::DafsStatus store_status_ = (__VA_ARGS__); \
        store_status_ != ::dafs::wire::DafsStatus::kOk)         \
      return store_status_;                                     \
  } while (false)

}  // namespace dafs::server
