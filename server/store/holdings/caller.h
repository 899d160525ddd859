// The identity for which the store executes a request, and what the request may change or be
// promised. The session fills it in.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/objects/export.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class FencedSession;
class Operation;
class RecentStats;
struct OpenUse;
struct Holdings;

// The client and user for whom a request is executed. The store squashes the user, per export.
struct Caller {
  wire::ClientId client_id;        // of the session; keys the opens
  std::string_view client_name;    // client_id_string, the same over restarts
  wire::Verifier client_verifier;  // another one for each instance of the client
  Holdings* holdings = nullptr;    // counts what the client holds; may be null
  uint32_t uid = 65534;            // as in the credential
  uint32_t gid = 65534;
  std::span<const uint32_t> groups;  // borrowed for the call; at most wire::kGroupsMax
  Peer peer;                         // checked by Export::Admission
  Operation* operation = nullptr;    // records a modification in the journal; borrowed, may be null
  RecentStats* recent = nullptr;     // for the next GETATTR; borrowed, null on other threads
  wire::NameRule names = wire::NameRule::kUtf8;  // which names the client can use
  bool keeps_atime = false;                      // reads do not update the access time
  FencedSession* fence = nullptr;  // the session's fence id; borrowed, null: it has none
  bool* fenced_off = nullptr;      // set if a fence refuses the request; borrowed, may be null
  bool* lock_broken = nullptr;     // set if a broken lock does; the same
  bool* hidden = nullptr;          // set if a name is hidden from the caller; the same
  OpenUse* closed = nullptr;       // set by CLOSE and DELEGRETURN; the same

  Promisee promisee = 0;  // the client in Promises; 0: it has sent no PROMISES
  // The changes that a request is about to make. If Promises::Changing::Begin returns false,
  // the function of the store returns DELAY without having changed or journalled anything. The
  // session then calls the holders, and the function again. Null: no client is called.
  Promises::Changing* changing = nullptr;
  // Receives what the request must await of delegations, if a function of the store returns DELAY
  // because of them. Null: the client repeats the request later, and GETATTR asks no holder.
  AwaitedDelegations* awaited = nullptr;
  // The store adds the spec_cond bits of what the response promises: kSpcondNames,
  // kSpcondAttributes, kSpcondOnlyClients. Null: the response can promise nothing.
  uint16_t* promises = nullptr;
};

}  // namespace dafs::server
