// The remedy for a request that the server refused, before it is issued again, and how often it is
// tried. Decisions only; RequestExecutor carries them out. Spec: WIRE 8.2.
// Values.
#pragma once

#include <cstdint>

#include "client/exchange/call.h"

namespace dafs::client {

// None of the refusals but kNone reaches the caller, unless its remedy failed or was tried too
// often. The server has not executed the request.
enum class Remedy : uint8_t {
  kNone,        // the refusal is the result
  kWait,        // the server asks to wait
  kSendAgain,   // the request was damaged
  kSendRest,    // a shorter chain may succeed: issue the members from this one on
  kRegister,    // the server does not know the credential
  kReclaim,     // the server does not know an open
  kNewSession,  // the server has forgotten the client; a new client_id comes with a new session
  kRenewRoot,   // the filehandle may be the root's of the mount, to be looked up again
};

// The remedy for the refused `call`. `as_user`: it was sent with a registered credential.
// `is_first`: no member of its chain precedes it.
Remedy RemedyFor(const CallBase& call, bool as_user, bool is_first);

// How often an operation may try each remedy.
class Remedies {
 public:
  // Counts a try. Returns false if the operation has tried this too often.
  bool Allow(Remedy remedy);

 private:
  int damaged_ = 0;
  int registrations_ = 0;
  int reclaims_ = 0;  // also of clients
  int renewals_ = 0;
};

}  // namespace dafs::client
