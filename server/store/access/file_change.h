// A change of the data of a file, from before its first byte changes until all of them have. Every
// procedure that changes data has one around its system call: SaveOld requires it
// (server/store/procedures/shared/data_access.h).
// Spec: 4.4.1.4 (what is saved before it); docs/optimistic.md (blocks that clients read by
// reference).
// One thread. Blocks only on a mutex that is held briefly.
#pragma once

#include "server/store/holdings/exported_cache.h"
#include "server/store/holdings/undo/undo_log.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

class FileChange {
 public:
  // `bytes` change, and with `resizes` also the size of the file. `cache` is borrowed.
  FileChange(ExportedCache& cache, const ObjectKey& file, const UndoChange& bytes,
             bool resizes = false)
      : cache_(cache), file_(file), bytes_(bytes) {
    cache_.BeginChange(file_, resizes ? 0 : bytes_.first, resizes ? UINT64_MAX : bytes_.end);
  }
  ~FileChange() { cache_.EndChange(file_); }
  FileChange(const FileChange&) = delete;
  FileChange& operator=(const FileChange&) = delete;

  const UndoChange& bytes() const { return bytes_; }

 private:
  ExportedCache& cache_;
  const ObjectKey file_;
  const UndoChange bytes_;
};

}  // namespace dafs::server
