#include "client/exchange/call.h"

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

}  // namespace dafs::client
