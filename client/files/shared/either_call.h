// A request whose data travels inline or directly: one of two calls of the protocol, with the same
// arguments and results, in the frame of the operation that sends it.
// Spec: 4.2.1 (inline), 4.2.2 (direct). Belongs to one operation.
#pragma once

#include <utility>
#include <variant>

#include "client/exchange/call.h"
#include "client/files/shared/transfer_policy.h"

namespace dafs::client {

template <class Inline, class Direct>
class EitherCall {
 public:
  // `part` is where the data lies, of the type that both calls take.
  template <class Part>
  EitherCall(Way way, const Part& part) : call_(Make(way, part)) {}

  CallBase& base() {
    if (Inline* call = std::get_if<Inline>(&call_)) return *call;
    return *direct();
  }
  // Null if the data travels the other way.
  Inline* in_message() { return std::get_if<Inline>(&call_); }
  Direct* direct() { return std::get_if<Direct>(&call_); }

  // Calls `visit` with the call, for what both have: `args`, and afterwards `res`.
  template <class F>
  auto Visit(F&& visit) {
    if (Inline* call = std::get_if<Inline>(&call_)) return std::forward<F>(visit)(*call);
    return std::forward<F>(visit)(*direct());
  }

 private:
  using Calls = std::variant<Inline, Direct>;

  // The calls cannot be moved: the result is constructed in place.
  template <class Part>
  static Calls Make(Way way, const Part& part) {
    return way == Way::kInline ? Calls(std::in_place_type<Inline>, part)
                               : Calls(std::in_place_type<Direct>, part);
  }

  Calls call_;
};

}  // namespace dafs::client
