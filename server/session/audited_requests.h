// The audit records of requests. On the session's thread. Does not call a file system.
#pragma once

#include <string_view>

#include "server/audit/audit_log.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class Session;
struct Request;

// Writes a record if `log` wants one of this request. Call when the request has its result, before
// its parts are released.
void AuditRequest(AuditLog& log, Session& session, const Request& request, wire::DafsStatus status);

// Writes a record of a session that has ended without DISCONNECT.
void AuditLoss(AuditLog& log, Session& session, std::string_view why);

}  // namespace dafs::server
