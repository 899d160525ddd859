// One request as the session sees it, from the message that arrived to the response. A procedure
// sees it as a Call.
// Belongs to the session's thread, except while a procedure runs on another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "server/clients/credentials.h"
#include "server/session/connection/chain.h"
#include "server/session/modification.h"
#include "server/session/transfer/message_buffers.h"
#include "server/store/durable/journal.h"
#include "server/store/holdings/caller.h"
#include "server/store/holdings/open_use.h"
#include "wire/codec/attributes_after.h"
#include "wire/messages/direct_bytes.h"
#include "wire/rules/request_check.h"

namespace dafs::server {

class Call;
class Pool;

struct Request {
  const wire::RequestHeader& header() const { return verdict.header; }
  // Takes the next message that arrived in the same receive. A procedure may have set these.
  void Take(std::span<const std::byte> arrived) {
    message = arrived;
    cut_short = false;
    not_remembered = false;
    promises = 0;
    fenced_off = false;
    lock_broken = false;
    hidden = false;
    closed = {};
    direct_bytes = {};
    after.reset();
    attributes_bytes = 0;
  }

  Call* call = nullptr;  // the procedure's view; contains this
  wire::RequestVerdict verdict;
  std::span<const std::byte> message;
  std::span<const std::byte> data;               // of WRITE_INLINE and APPEND_INLINE, once decoded
  std::shared_ptr<Chain> chain;                  // null outside a chain
  std::shared_ptr<const Credential> credential;  // null: the session's default
  Caller caller;
  std::optional<Operation> operation;  // set if a modification is recorded
  std::unique_ptr<Outgoing> outgoing;  // from the beginning to the end of its execution
  Pool* own_pool = nullptr;            // see own_pool.h
  bool on_pool = false;                // executed by a thread of own_pool; answered on the loop
  absl::Time arrived;
  absl::Duration queued;           // from its arrival until its execution began
  wire::DirectBytes direct_bytes;  // once answered with OK
  bool holds_stream = false;
  bool cut_short = false;                      // Call::CutShort
  bool not_remembered = false;                 // Call::NotRemembered
  uint16_t promises = 0;                       // spec_cond bits of the response
  bool fenced_off = false;                     // refused because of a fencing list
  bool lock_broken = false;                    // refused because of a broken lock
  bool hidden = false;                         // NOENT, since the export does not admit the client
  OpenUse closed;                              // of CLOSE and DELEGRETURN
  std::optional<Modification> modification;    // see Call::BeginModification
  std::optional<wire::AttributesAfter> after;  // to be sent with the response
  size_t attributes_bytes = 0;                 // of the response, for `after`
  std::optional<uint32_t> invalidates;         // a context of the client, see Call::Names
};

}  // namespace dafs::server
