// The threads of a server for work that may wait (server/session/shared/pool.h): one pool for each
// kind of work. Start and Stop are called by the server's thread; AwaitIdle blocks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "server/session/shared/pool.h"

namespace dafs::server {

class ServerPools {
 public:
  // `exports`: the most that the server can have. `passwords`: it takes passwords.
  void Start(uint32_t threads, size_t exports, bool passwords) {
    requests_ = std::make_unique<Pool>(threads);
    chores_ = std::make_unique<Pool>(2);
    if (passwords) passwords_ = std::make_unique<Pool>(1);
    exports_ = std::make_unique<ExportPools>(exports);
  }
  // Runs the submitted work, then joins the threads.
  void Stop() {
    passwords_.reset();
    chores_.reset();
    requests_.reset();
    exports_.reset();  // after the pools that submit work to them
  }

  // Each is null before Start.
  Pool* requests() const { return requests_.get(); }
  Pool* chores() const { return chores_.get(); }
  Pool* passwords() const { return passwords_.get(); }  // null: none are taken
  ExportPools* exports() const { return exports_.get(); }

  // Waits until the pools have no work, except those of exports. Returns false if one has some at
  // `deadline`.
  bool AwaitIdle(absl::Time deadline) {
    for (Pool* pool : {passwords_.get(), chores_.get(), requests_.get()}) {
      if (pool != nullptr && !pool->AwaitIdle(deadline)) return false;
    }
    return true;
  }
  // The same for those of exports. Call it second: the others submit work to those.
  bool AwaitExportsIdle(absl::Time deadline) {
    if (exports_ == nullptr) return true;
    for (Pool* pool : exports_->pools()) {
      if (pool != nullptr && !pool->AwaitIdle(deadline)) return false;
    }
    return true;
  }

 private:
  std::unique_ptr<Pool> requests_;
  std::unique_ptr<Pool> chores_;
  std::unique_ptr<Pool> passwords_;
  std::unique_ptr<ExportPools> exports_;
};

}  // namespace dafs::server
