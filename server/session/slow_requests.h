// The log of requests that took long (ServerOptions::slow). On the session's thread. Does not call
// a file system; may wait for the log.
#pragma once

#include "absl/time/time.h"

namespace dafs::server {

class Session;
struct Request;

// Call when the request has its result, before its parts are released. `took`: since its arrival.
void NoteSlowRequest(Session& session, const Request& request, absl::Duration took);

}  // namespace dafs::server
