// The resources that all sessions of a server share.
#pragma once

#include <memory>
#include <vector>

#include "runtime/loop/cpu_latency.h"
#include "server/clients/options.h"
#include "server/session/shared/procedure.h"
#include "wire/messages/server_identity.h"

namespace dafs::auth {
class IdMap;
}

namespace dafs::server {

class AuditLog;
class Callbacks;
class LockAnnouncer;
class ClientTable;
class CreditBudget;
class ExportPools;
class Pool;
class Recalls;
class RefusalLog;
class ResponseCache;
class SessionTable;
class Store;
class Worker;

// Borrowed; all of it is thread-safe and outlives the sessions.
struct Shared {
  const ServerOptions* options = nullptr;
  const ProcedureTable* procedures = nullptr;
  Store* store = nullptr;
  Pool* pool = nullptr;
  Pool* chores = nullptr;  // housekeeping of the server
  // One thread, so that a flood of guesses takes one CPU at most; null: no passwords are taken.
  Pool* passwords = nullptr;
  ExportPools* export_pools = nullptr;
  ClientTable* clients = nullptr;
  Callbacks* callbacks = nullptr;
  LockAnnouncer* lock_announcer = nullptr;
  Recalls* recalls = nullptr;
  SessionTable* sessions = nullptr;
  ResponseCache* responses = nullptr;
  CreditBudget* budget = nullptr;
  RefusalLog* refusals = nullptr;
  const wire::ServerIdentityRes* identity = nullptr;              // of this server; does not change
  const std::vector<std::unique_ptr<Worker>>* workers = nullptr;  // all, before any session
  auth::IdMap* ids = nullptr;         // names of owners on the wire; null: they are numbers
  CpuLatency* cpu_latency = nullptr;  // null: none
  AuditLog* audit = nullptr;          // null: nothing is recorded
};

}  // namespace dafs::server
