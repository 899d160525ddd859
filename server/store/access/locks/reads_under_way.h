// Which thread reads which file, so that a LOCK that forbids reading can wait for the reads that
// were under way when it was granted.
// Spec: 4.4.1.2 ("may not be granted while a READ or WRITE ... is being performed").
//
// A read begins before it looks for locks, and a LOCK shows before it waits: so each read is
// awaited, or sees the lock. Both orders are those of sequentially consistent atomics.
//
// All stores of a process share it: their keys differ, or name the same file.
// Thread-safe.
#pragma once

#include <cstdint>

#include "server/store/objects/handle.h"

namespace dafs::server {

// A read of `file` by this thread, from its constructor to its destructor. One at a time on each
// thread. Nothing blocks. Costs two stores to memory that no other thread writes; the first on a
// thread allocates that.
class ReadUnderWay {
 public:
  explicit ReadUnderWay(const ObjectKey& file);
  ~ReadUnderWay();
  ReadUnderWay(const ReadUnderWay&) = delete;
  ReadUnderWay& operator=(const ReadUnderWay&) = delete;

  // Blocks until the reads of `file` have ended that have begun. May also wait for one of another
  // file with the same hash.
  static void Await(const ObjectKey& file);

 private:
  struct Slot;
  class OfThread;
  static Slot& Mine();

  Slot& slot_;
};

}  // namespace dafs::server
