#include "server/store/access/locks/lock_notices.h"

#include "runtime/loop/loop.h"
#include "wire/protocol/lock_ranges.h"

namespace dafs::server {

void LockNotices::SendTurns() {
  while (locks_.has_turns()) {
    for (const LockTable::Turn& turn : locks_.TakeTurns(Loop::Now())) {
      wire::BcLockFreeArgs args;
      args.filehandle = mac_.Seal(turn.file);
      args.offset = turn.range.first;
      args.length = wire::LengthOf(turn.range);
      if (send_ == nullptr || !send_(turn.owner.client_id, args)) {
        locks_.DropTurn(turn);
      }
    }
  }
}

void LockNotices::DropAwaiting(const wire::ClientId& client_id) {
  locks_.DropAwaiting(client_id);
  SendDue();
}

}  // namespace dafs::server
