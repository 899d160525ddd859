// The memory windows of one queue pair. They are of type 2: a request to the queue binds them, they
// are valid on this queue pair only, and the peer's Send with Invalidate or our own request ends
// them. Spec: appendix B (memory named by context and address); IBA 10.6.7.2 (windows); RFC 5040,
// 5.3. One thread. Internal to the verbs provider.
//
//   free -> bound -> free          the peer invalidated it
//                 -> ending -> free
//
// Windows are made when first needed and then kept, so their number is the most ever in use at the
// same time.
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
  // At most `most` windows in `protection_domain`, which must outlive this object.
  Windows(ibv_pd* protection_domain, uint32_t most)
      : protection_domain_(protection_domain), most_(most) {}

  // A free window, and the key to bind it with. The key differs from the window's last one, so that
  // a holder of the old key has no access. kResourceExhausted: all are in use, or the device has no
  // more.
  struct Choice {
    ibv_mw* window = nullptr;
    uint32_t key = 0;
  };
  absl::StatusOr<Choice> Take();
  // Call after Take: Bound if the request to bind it was submitted, otherwise Untake, which frees
  // it.
  void Bound(const Choice& choice);
  void Untake(const Choice& choice);

  // Call before posting the request that ends it. Returns false if no window is bound with this
  // key.
  bool StartEnding(uint32_t key);
  // Call when that request has completed.
  void Ended(uint32_t key);
  // Call when the peer reports that it invalidated `key`, which may be any value.
  void PeerEnded(uint32_t key);

  // Returns all windows to the device, so that no peer can use any. Call before destroying the
  // queue pair.
  void Clear();

 private:
  enum class State : uint8_t { kFree, kTaken, kBound, kEnding };
  struct Window {
    MemoryWindow handle;  // its rkey is the key of the last bind that was posted
    uint32_t key = 0;     // the key of the last bind, or of one that waits
    State state = State::kFree;
  };
  // A key is {24 bits of the device, which name the window; 8 bits chosen here}.
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
