// The handlers of the procedures, and the table of them for the sessions.
// Spec: WIRE 9.1, 9.4.
#pragma once

#include "server/session/shared/procedure.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

// kAccessHandler and so on, one for each row of wire/protocol/procedure_table.h. Each is defined in
// the .cc file of its group, by one of the shapes of handler.h.
#define DAFS_SERVER_DECLARE(name, ...) extern const Procedure k##name##Handler;
DAFS_WIRE_PROCEDURES(DAFS_SERVER_DECLARE)
#undef DAFS_SERVER_DECLARE

// All of them, for FindProcedure().
extern const ProcedureTable kProcedureTable;

}  // namespace dafs::server
