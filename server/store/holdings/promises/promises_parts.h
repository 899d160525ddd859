// The parts of Promises, for its own files only: the table of one part of the objects, with those
// that are open for writing, and a client.
// The mutexes in them, and Promises::clients_mutex_, guard them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/promises/promise_table.h"
#include "server/store/holdings/promises/promisee.h"

namespace dafs::server {

struct PromiseShard {
  struct Writer {
    uint64_t client_id;
    uint32_t opens;
  };
  using Writers = absl::InlinedVector<Writer, 1>;

  static Writers::iterator FindWriter(Writers& writers, uint64_t client_id) {
    return std::find_if(writers.begin(), writers.end(),
                        [&](const Writer& writer) { return writer.client_id == client_id; });
  }

  bool IsOpenToOthers(uint32_t object, uint64_t client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!table.object(object).is_open_to_write) return false;
    const Writers& of_object = writers[object];
    return of_object.size() > 1 || of_object[0].client_id != client_id;
  }

  absl::Mutex mutex;
  PromiseTable table ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<uint32_t, Writers> writers ABSL_GUARDED_BY(mutex);  // by number of the object
};

// Everything is written under clients_mutex_, except the counts and `is_crowded`. A thread that
// holds the mutex of a shard may rely on `admission` and `endings`: after they are changed, Sweep
// takes each shard's mutex in turn.
struct alignas(64) PromiseClient {
  std::atomic<Promisee> promisee{0};
  std::atomic<bool> is_void{true};
  std::atomic<bool> is_overdue{false};
  std::atomic<uint32_t> admission{0};  // 0: none may be given
  std::atomic<uint32_t> endings{0};    // calls with kPromisedAll; not 0: it gets no promise
  std::atomic<uint32_t> most{0};
  std::atomic<uint32_t> held{0};
  std::atomic<uint32_t> next_shard{0};  // where PickToEnd goes on
  std::atomic<bool> is_crowded{false};  // on_crowded was called
  std::atomic<uint64_t> id{0};
  uint32_t generation = 0;
  absl::Time overdue_since;  // with is_overdue; read under clients_mutex_
};

}  // namespace dafs::server
