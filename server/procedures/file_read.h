// Reads of a file: from the page cache on the worker if that is possible, otherwise in a pool.
// Belongs to the session's thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/session/own_pool.h"
#include "server/session/session.h"
#include "server/session/shared/pool.h"
#include "server/store/fencing/fenced_session.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/store.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// A file to be read, for one caller. All that is borrowed outlives the reads.
struct FileReader {
  Session& session;
  Pool* own_pool;  // of an export that may hang: all reads run there; null for other exports
  const Caller& caller;
  const wire::FileHandle& filehandle;
  const wire::StateId& state_id;

  ReadResult Read(uint64_t offset, std::span<std::byte> into, ReadMode mode) const {
    const FencedSession::Access access(caller.fence);
    return session.store().data().Read(caller, filehandle, state_id, offset, into, mode);
  }
};

// `const ReadResult read = co_await FileRead(reader, offset, into)`: as DataProcedures::Read.
// `reader` and `into` outlive the wait.
class FileRead {
 public:
  FileRead(const FileReader& file, uint64_t offset, std::span<std::byte> into)
      : file_(file), offset_(offset), into_(into) {}

  bool await_ready() {
    if (file_.own_pool != nullptr) return false;
    result_ = file_.Read(offset_, into_, ReadMode::kNoWait);
    return !result_.would_block;
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    Pool& pool = PoolFor(file_.session.shared(), file_.own_pool);
    pool.Submit([this, waiter] {
      result_ = file_.Read(offset_, into_, ReadMode::kWait);
      file_.session.loop().Post([waiter] { waiter.resume(); });
    });
  }
  ReadResult await_resume() const { return result_; }

 private:
  const FileReader& file_;
  const uint64_t offset_;
  const std::span<std::byte> into_;
  ReadResult result_;
};

}  // namespace dafs::server
