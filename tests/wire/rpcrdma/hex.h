// Bytes for tests, written as hexadecimal digits with blanks. Values.
#pragma once

#include <string_view>

#include "wire/rpcrdma/xdr.h"

namespace dafs::rpcrdma::testing {

inline Bytes Hex(std::string_view text) {
  Bytes bytes;
  int digits = 0, value = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) {
      bytes.push_back(static_cast<std::byte>(value));
      value = 0;
    }
  }
  return bytes;
}

}  // namespace dafs::rpcrdma::testing
