// The only flow macros of the project: pass an error on to the caller.
//   RETURN_IF_ERROR(expr)             expr is an absl::Status
//   ASSIGN_OR_RETURN(lhs, expr)       expr is an absl::StatusOr<T>; lhs may be a declaration
//   CO_RETURN_IF_ERROR(expr)          the same inside a coroutine
// `expr` may contain commas and `co_await`; it is evaluated once.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define DAFS_MACRO_JOIN_(a, b) a##b
#define DAFS_MACRO_JOIN(a, b) DAFS_MACRO_JOIN_(a, b)

#define DAFS_RETURN_IF_ERROR_(keyword, ...)       \
  do {                                            \
    ::absl::Status dafs_status_ = (__VA_ARGS__);  \
    if (!dafs_status_.ok()) keyword dafs_status_; \
  } while (false)

#define DAFS_ASSIGN_OR_RETURN_(var, lhs, ...)    \
  auto var = (__VA_ARGS__);                      \
  if (!var.ok()) return std::move(var).status(); \
  lhs = *std::move(var)

#define RETURN_IF_ERROR(...) DAFS_RETURN_IF_ERROR_(return, __VA_ARGS__)
#define CO_RETURN_IF_ERROR(...) DAFS_RETURN_IF_ERROR_(co_return, __VA_ARGS__)
#define ASSIGN_OR_RETURN(lhs, ...) \
  DAFS_ASSIGN_OR_RETURN_(DAFS_MACRO_JOIN(dafs_or_, __LINE__), lhs, __VA_ARGS__)
