#include "client/session/call.h"

#include "absl/strings/str_cat.h"
#include "runtime/text.h"

namespace dafs::client {

namespace {

std::optional<wire::StateId> NameOne(wire::StateId* argument, std::optional<wire::StateId>& open,
                                     const Opens& opens, const wire::ClientId& client_id) {
  if (argument == nullptr) return std::nullopt;
  if (!open.has_value()) {
    if (argument->is_zero()) return std::nullopt;
    open = *argument;
  }
  std::optional<wire::StateId> state_id = opens.StateIdOf(*open, client_id);
  if (!state_id.has_value()) return open;
  *argument = *state_id;
  return std::nullopt;
}

}  // namespace

std::optional<wire::StateId> NameOpen(CallBase& call, const Opens& opens,
                                      const wire::ClientId& client_id) {
  std::optional<wire::StateId> unknown =
      NameOne(call.state_id_argument(), call.open, opens, client_id);
  if (unknown.has_value()) return unknown;
  unknown = NameOne(call.source_state_id_argument(), call.source_open, opens, client_id);
  if (unknown.has_value()) return unknown;
  return call.NameItems(opens, client_id);
}

std::string NamesOf(std::span<CallBase* const> chain) {
  std::string text;
  for (const CallBase* call : chain) {
    absl::StrAppend(&text, text.empty() ? "" : "+", Text(wire::Name(call->proc())));
  }
  return text;
}

bool IsIdempotent(wire::Proc proc) {
  switch (proc) {
    // Requests that create, remove or move names give another result the second time; an append is
    // applied twice.
    case wire::Proc::kAppendInline:
    case wire::Proc::kAppendDirect:
    case wire::Proc::kCreate:
    case wire::Proc::kLink:
    case wire::Proc::kRemove:
    case wire::Proc::kRename:
    case wire::Proc::kRename2:
    case wire::Proc::kMakeNode:
    case wire::Proc::kBatchSubmit:
    case wire::Proc::kOpenDowngrade:
    case wire::Proc::kSetFencingList:
      return false;
    // Repeating a write, SETATTR, COMMIT or LOCK of the same owner changes nothing. A second CLOSE
    // gives BAD_STATEID.
    default:
      return true;
  }
}

}  // namespace dafs::client
