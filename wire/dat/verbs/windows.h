// The memory windows of one queue pair: type 2, bound by a request of the queue, valid on this
// queue pair only, and ended by the peer's Send with Invalidate or by a request of ours. Spec:
// appendix B (memory named by context and address); IBA 10.6.7.2 (windows); RFC 5040, 5.3. One
// thread. Internal to the verbs provider.
//
//   free -> bound -> free          the peer invalidated it
//                 -> ending -> free
//
// Made when they are first needed and kept: no more at a time than requests were out at once.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "wire/dat/verbs/handles.h"

namespace dafs::dat::verbs {

class Windows {
 public:
  // At most `most` windows in `protection_domain`, which outlives this.
  Windows(ibv_pd* protection_domain, uint32_t most)
      : protection_domain_(protection_domain), most_(most) {}

  // A free window, and the key that it is to be bound with: another than it had before, so that who
  // kept the old one has nothing. kResourceExhausted: all are in use, or the device has no more.
  struct Choice {
    ibv_mw* window = nullptr;
    uint32_t key = 0;
  };
  absl::StatusOr<Choice> Take();
  // The request that binds it is submitted; or not, and it is free again.
  void Bound(const Choice& choice);
  void Untake(const Choice& choice);

  // The request that ends it will be posted. False: no window is bound with this key.
  bool StartEnding(uint32_t key);
  // That is done.
  void Ended(uint32_t key);
  // The peer says that it invalidated `key`, which may be anything.
  void PeerEnded(uint32_t key);

  // Gives all of them back to the device; with that no peer can use any. Before the queue pair
  // goes.
  void Clear();

 private:
  enum class State : uint8_t { kFree, kTaken, kBound, kEnding };
  struct Window {
    MemoryWindow handle;  // which has the key that it was bound with when that is posted
    uint32_t key = 0;     // that it was bound with last, or will be by a request that waits
    State state = State::kFree;
  };
  // A key is {24 bits of the device, which name the window; 8 bits of ours}.
  static uint32_t NameOf(uint32_t key) { return key >> 8; }
  Window& Chosen(const Choice& choice) { return windows_[by_name_.at(NameOf(choice.key))]; }
  Window* Find(uint32_t key);
  void Free(Window& window);

  ibv_pd* protection_domain_;
  uint32_t most_;
  std::vector<Window> windows_;
  std::vector<size_t> free_;
  absl::flat_hash_map<uint32_t, size_t> by_name_;
};

}  // namespace dafs::dat::verbs
