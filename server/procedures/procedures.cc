#include "server/procedures/procedures.h"

namespace dafs::server {

constexpr ProcedureTable kProcedureTable = {
#define DAFS_SERVER_ADDRESS(name, ...) &k##name##Handler,
    DAFS_WIRE_PROCEDURES(DAFS_SERVER_ADDRESS)
#undef DAFS_SERVER_ADDRESS
};

// Executed by clients.
constexpr Procedure kBcGetattrHandler;
constexpr Procedure kBcNullHandler;
constexpr Procedure kBcRecallHandler;
constexpr Procedure kBcBatchCompletionHandler;
constexpr Procedure kBcChangedHandler;
constexpr Procedure kBcLockFreeHandler;

}  // namespace dafs::server
