// The shapes of handlers. A handler decodes the arguments of a call, executes it, and finishes it.
//
//     constexpr Procedure kLinkHandler = kModifies<&NameProcedures::Link>;
//     constexpr Procedure kSeekHandler = kInPool<&DataProcedures::Seek>;
//     constexpr Procedure kAllocateHandler = kModifiesInPool<&DataProcedures::Allocate>;
//     constexpr Procedure kLookupHandler = kAtOnce<Lookup>;  // a function of the file
//     constexpr Procedure kReadDirectHandler = {.start = Read<DirectTarget>};  // its own shape
//
// kModifies and kModifiesInPool are for functions that change names, attributes or data. Such a
// function may be executed again: after it returned DELAY because clients must be called that were
// promised what it changes (server/session/modification.h).
//
// A function for these shapes takes the arguments and sets the result:
//
//     DafsStatus NameProcedures::Link(const Caller&, const wire::LinkArgs&, wire::LinkRes*);
//     DafsStatus OpenProcedures::Close(const Caller&, const wire::CloseArgs&);  // no result
//     DafsStatus Lookup(Call&, const wire::LookupArgs&, wire::LookupRes*);
//
// These shapes make each execution an access of the session, which a fence awaits
// (server/store/fencing/fenced_session.h). A handler of its own shape does so itself.
#pragma once

#include <utility>

#include "absl/functional/function_ref.h"
#include "runtime/loop/task.h"
#include "server/procedures/procedures.h"
#include "server/session/call.h"
#include "server/session/modification.h"
#include "server/session/session.h"
#include "server/session/shared/pool.h"
#include "server/store/fencing/fenced_session.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/procedures/attribute_procedures.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/lock_procedures.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/open_procedures.h"
#include "server/store/store.h"

namespace dafs::server {

namespace internal {

// The group of the store's procedures that a function belongs to.
template <class Group>
Group& GroupOf(Store& store);
template <>
inline NameProcedures& GroupOf(Store& store) {
  return store.names();
}
template <>
inline AttributeProcedures& GroupOf(Store& store) {
  return store.attributes();
}
template <>
inline OpenProcedures& GroupOf(Store& store) {
  return store.opens();
}
template <>
inline LockProcedures& GroupOf(Store& store) {
  return store.locks();
}
template <>
inline DataProcedures& GroupOf(Store& store) {
  return store.data();
}

// The arguments and the result of a function, and how to call it.
template <class Function>
struct Shape;

template <class Group, class A, class R>
struct Shape<wire::DafsStatus (Group::*)(const Caller&, const A&, R*)> {
  using Args = A;
  using Res = R;
  static wire::DafsStatus Execute(auto function, Call& call, const A& args, R& res) {
    const FencedSession::Access access(call.caller().fence);
    return (GroupOf<Group>(call.session().store()).*function)(call.caller(), args, &res);
  }
};

template <class Group, class A>
struct Shape<wire::DafsStatus (Group::*)(const Caller&, const A&)> {
  using Args = A;
  using Res = wire::ResOf<A>;
  static wire::DafsStatus Execute(auto function, Call& call, const A& args, Res&) {
    const FencedSession::Access access(call.caller().fence);
    return (GroupOf<Group>(call.session().store()).*function)(call.caller(), args);
  }
};

template <class A, class R>
struct Shape<wire::DafsStatus (*)(Call&, const A&, R*)> {
  using Args = A;
  using Res = R;
  static wire::DafsStatus Execute(auto function, Call& call, const A& args, R& res) {
    const FencedSession::Access access(call.caller().fence);
    return function(call, args, &res);
  }
};

template <auto kFunction>
void ExecuteAtOnce(Call& call) {
  using Function = Shape<decltype(kFunction)>;
  typename Function::Args args;
  if (!call.Decode(args)) return;
  typename Function::Res res;
  const wire::DafsStatus status = Function::Execute(kFunction, call, args, res);
  call.Finish(status, args, res);
}

// After the first execution, which has set *status so that `modification` must call clients: calls
// them and executes again, until none must be called. After calls about a new object it does not
// execute again.
inline Task<void> CallAndRepeat(Call& call, Modification& modification, bool may_wait, Pool& pool,
                                wire::DafsStatus* status, absl::FunctionRef<void()> execute) {
  Session& session = call.session();
  do {
    Task<bool> calling = modification.Call();
    const bool answered = co_await calling;
    if (!modification.repeats()) co_return;
    if (!answered) {
      call.CutShort();
      co_return;
    }
    co_await OffloadIf(may_wait, pool, session.loop(), execute);
  } while (modification.MustCall(*status));
}

template <auto kFunction>
Task<void> FinishModification(Call& call, typename Shape<decltype(kFunction)>::Args args,
                              typename Shape<decltype(kFunction)>::Res res,
                              wire::DafsStatus status) {
  using Function = Shape<decltype(kFunction)>;
  auto execute = [&] {
    res = {};
    status = Function::Execute(kFunction, call, args, res);
  };
  Task<void> repeating =
      CallAndRepeat(call, *call.modification(), call.may_hang(), call.pool(), &status, execute);
  co_await repeating;
  call.Finish(status, args, res);
}

template <auto kFunction>
void ModifyNow(Call& call, Modification& modification,
               typename Shape<decltype(kFunction)>::Args args) {
  using Function = Shape<decltype(kFunction)>;
  typename Function::Res res;
  const wire::DafsStatus status = Function::Execute(kFunction, call, args, res);
  if (!modification.MustCall(status)) return call.Finish(status, args, res);
  call.OnSession([&call, args = std::move(args), res = std::move(res), status]() mutable {
    Start(FinishModification<kFunction>(call, std::move(args), std::move(res), status));
  });
}

template <auto kFunction>
void ExecuteModification(Call& call) {
  typename Shape<decltype(kFunction)>::Args args;
  if (!call.Decode(args)) return;
  Modification& modification = call.BeginModification();
  ModifyNow<kFunction>(call, modification, std::move(args));
}

struct Always {
  constexpr bool operator()(const Store&, const auto&) const { return true; }
};

template <auto kFunction>
Task<void> ModifyInPool(Call& call, typename Shape<decltype(kFunction)>::Args args) {
  using Function = Shape<decltype(kFunction)>;
  typename Function::Res res;
  wire::DafsStatus status = wire::DafsStatus::kServerFault;
  auto execute = [&] {
    res = {};
    status = Function::Execute(kFunction, call, args, res);
  };
  co_await Offload(call.pool(), call.session().loop(), execute);
  Modification& modification = *call.modification();
  if (modification.MustCall(status)) {
    Task<void> repeating = CallAndRepeat(call, modification, true, call.pool(), &status, execute);
    co_await repeating;
  }
  call.Finish(status, args, res);
}

template <auto kFunction, auto kMayWait>
void ExecuteModificationInPoolIf(Call& call) {
  typename Shape<decltype(kFunction)>::Args args;
  if (!call.Decode(args)) return;
  Modification& modification = call.BeginModification();
  if (kMayWait(call.session().store(), args)) {
    call.NotInTurn();
    call.OnSession([&call, args = std::move(args)]() mutable {
      Start(ModifyInPool<kFunction>(call, std::move(args)));
    });
    return;
  }
  ModifyNow<kFunction>(call, modification, std::move(args));
}

// A function that only reads waits at most for the holder of a delegation.
template <auto kFunction>
void ExecuteReading(Call& call) {
  if (call.session().store().delegations().any_write()) return ExecuteModification<kFunction>(call);
  ExecuteAtOnce<kFunction>(call);
}

template <auto kFunction, auto kMayWait>
Task<void> ExecuteInPool(Call& call) {
  using Function = Shape<decltype(kFunction)>;
  typename Function::Args args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  typename Function::Res res;
  wire::DafsStatus status = wire::DafsStatus::kServerFault;
  auto execute = [&] { status = Function::Execute(kFunction, call, args, res); };
  const bool may_wait = call.may_hang() || kMayWait(session.store(), args);
  co_await OffloadIf(may_wait, call.pool(), session.loop(), execute);
  call.Finish(status, args, res);
}

}  // namespace internal

// Executed at once: on the worker, or in the export's pool if the export may hang.
template <auto kFunction>
inline constexpr Procedure kAtOnce = {.run = internal::ExecuteAtOnce<kFunction>};

// Like kAtOnce, for a function that modifies something.
template <auto kFunction>
inline constexpr Procedure kModifies = {.run = internal::ExecuteModification<kFunction>};

// Like kAtOnce, for a function that may wait for the holder of a delegation.
template <auto kFunction>
inline constexpr Procedure kReadsDelegated = {.run = internal::ExecuteReading<kFunction>};

// Executed in the pool, because it may wait for a disk.
template <auto kFunction>
inline constexpr Procedure kInPool = {.start =
                                          internal::ExecuteInPool<kFunction, internal::Always{}>};

// Like kInPool, for a function that modifies something.
template <auto kFunction>
inline constexpr Procedure kModifiesInPool = {
    .run = internal::ExecuteModificationInPoolIf<kFunction, internal::Always{}>};

// Like kModifies, but in the pool if `bool kMayWait(Store&, const Args&)` says so.
template <auto kFunction, auto kMayWait>
inline constexpr Procedure kModifiesInPoolIf = {
    .run = internal::ExecuteModificationInPoolIf<kFunction, kMayWait>};

// Executed in the pool if `bool kMayWait(Store&, const Args&)` says so, otherwise at once.
template <auto kFunction, auto kMayWait>
inline constexpr Procedure kInPoolIf = {.start = internal::ExecuteInPool<kFunction, kMayWait>};

// A kMayWait for a function that releases locks: those with PERSIST are on a disk.
struct ReleaseMayWait {
  bool operator()(Store& store, const auto& args) const {
    return store.locks().ReleaseMayWait(args.filehandle);
  }
};

}  // namespace dafs::server
